// Softmax over rows of the last dimension, a block of threads a row.
#pragma once

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/kernel_params.h"

namespace tenon::cuda {

class SoftmaxOp final : public DeviceOp {
 public:
  SoftmaxOp(std::string label, DataType type, int32_t rows, int32_t columns, bool logarithm, bool guarded, TensorId x,
            TensorId y);
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;

 private:
  const DataType type_;
  SoftmaxParams params_;
  CUfunction function_ = nullptr;
};

}  // namespace tenon::cuda
