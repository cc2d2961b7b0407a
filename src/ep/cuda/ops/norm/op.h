// Layer normalisation over rows of the last dimension, by one of the compiled kernels for its type and size.
#pragma once

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/kernel_params.h"

namespace tenon::cuda {

class LayerNormOp final : public DeviceOp {
 public:
  struct Tensors {
    TensorId x = kNoTensor, skip = kNoTensor, scale = kNoTensor, bias = kNoTensor;  // scale and bias are float32
    TensorId y = kNoTensor, sum = kNoTensor;
    TensorId y_parts = kNoTensor;  // y as f16 parts (matmul/split_product_op.h); then y may be none
    int32_t y_terms = 0, y_shift = 0;
  };
  // Rows of more elements cannot be written as f16 parts, nor such of no multiple of 8.
  static constexpr int64_t kMostSplitColumns = 4096;
  LayerNormOp(std::string label, DataType type, int32_t rows, int32_t columns, float epsilon, const Tensors& tensors);
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;

 private:
  const DataType type_;
  LayerNormParams params_;
  unsigned rows_a_block_ = 1;
  const Tensors tensors_;
  CUfunction function_ = nullptr;
};

}  // namespace tenon::cuda
