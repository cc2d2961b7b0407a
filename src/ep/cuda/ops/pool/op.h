// Pools over images with channels last.
#pragma once

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/kernel_params.h"

namespace tenon::cuda {

// Windows, or the mean of whole images (`global`).
class PoolOp final : public DeviceOp {
 public:
  PoolOp(std::string label, DataType type, const PoolParams& params, int32_t images, bool global, TensorId x,
         TensorId y);
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;

 private:
  const DataType type_;
  PoolParams params_;
  const int32_t images_;
  const bool global_;
  int32_t vector_ = 1;
  CUfunction function_ = nullptr;
};

}  // namespace tenon::cuda
