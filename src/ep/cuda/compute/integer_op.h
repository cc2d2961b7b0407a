// Products of matrices of 8-bit integers, with exact sums.
#pragma once

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/integer_params.h"

namespace tenon::cuda {

struct IntegerTensors {
  // a: [row][depth]; b: [column][depth]; the depth a multiple of 16.
  TensorId a = kNoTensor, b = kNoTensor;
  TensorId a_zero = kNoTensor, b_zero = kNoTensor;  // may be none
  TensorId a_sums = kNoTensor, b_sums = kNoTensor;  // where the other operand has zero points
  TensorId y = kNoTensor;
};

class IntegerProductOp final : public DeviceOp {
 public:
  IntegerProductOp(std::string label, DataType a, DataType b, const IntegerProductParams& params,
                   const IntegerTensors& tensors);
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;

 private:
  const DataType a_, b_;
  const IntegerProductParams params_;
  const IntegerTensors tensors_;
  CUfunction function_ = nullptr;
};

}  // namespace tenon::cuda
