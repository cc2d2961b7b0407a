// TopK: the largest or smallest elements along one dimension.
#pragma once

#include <string>

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/ops/order/topk_params.h"

namespace tenon::cuda {

class TopKOp final : public DeviceOp {
 public:
  // `params` without addresses; y and indices may be absent.
  TopKOp(std::string label, DataType type, const TopKParams& params, int64_t rows, TensorId x, TensorId y,
         TensorId indices);
  // Types that there are kernels for.
  static bool serves(DataType type);
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;

 private:
  const DataType type_;
  const TopKParams params_;
  const int64_t rows_;
  const TensorId y_, indices_;
  CUfunction function_ = nullptr;
};

}  // namespace tenon::cuda
