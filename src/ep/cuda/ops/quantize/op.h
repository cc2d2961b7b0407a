// Products of matrices of 8-bit integers, with exact sums.
#pragma once

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/ops/quantize/params.h"

namespace tenon::cuda {

struct IntegerTensors {
  // a: [row][depth]; b: [column][depth]; the depth a multiple of 16.
  TensorId a = kNoTensor, b = kNoTensor;
  TensorId a_zero = kNoTensor, b_zero = kNoTensor;  // may be none
  TensorId a_sums = kNoTensor, b_sums = kNoTensor;  // where the other operand has zero points
  // Of results that are quantised: float32 scales, a zero point, and a bias of int32, which may be none.
  TensorId a_scale = kNoTensor, b_scale = kNoTensor, y_scale = kNoTensor, y_zero = kNoTensor, bias = kNoTensor;
  TensorId outside = kNoTensor;  // 16 zero points of a, where a is an image and has some
  TensorId y = kNoTensor;
};

// The part of the result that a block computes; it has two threads for each column.
struct IntegerTile {
  unsigned rows = 0, columns = 0;
};

class IntegerProductOp final : public DeviceOp {
 public:
  IntegerProductOp(std::string label, DataType a, DataType b, const IntegerProductParams& params,
                   const IntegerTensors& tensors);
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;
  DataType a_type() const { return a_; }
  DataType b_type() const { return b_; }
  // The kernel's parameters with the addresses of one run.
  IntegerProductParams bound_params(const Addresses& addresses) const;
  static IntegerTile tile(const IntegerProductParams& params, int64_t processors);

 private:
  const DataType a_, b_;
  const IntegerProductParams params_;
  const IntegerTensors tensors_;
  IntegerTile tile_;
  CUfunction function_ = nullptr;
};

}  // namespace tenon::cuda
