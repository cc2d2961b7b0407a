// Operators over rows of the last dimension, over images and over heads: layer normalisation, softmax, pooling,
// attention. Each chooses one of the compiled kernels by type and size.
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

// Plain images of a few channels to channels last, with zeros as further channels.
class PadImageOp final : public DeviceOp {
 public:
  PadImageOp(std::string label, DataType type, const Shape& x_shape, int32_t padded, TensorId x, TensorId y);
  int32_t padded() const { return padded_; }
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;

 private:
  const DataType type_;
  const int32_t padded_;
  ImageParams params_;
  CUfunction function_ = nullptr;
};

class AttentionOp final : public DeviceOp {
 public:
  struct Tensors {
    TensorId q = kNoTensor, k = kNoTensor, v = kNoTensor, mask = kNoTensor, y = kNoTensor;
    TensorId y_parts = kNoTensor;  // as LayerNormOp's; terms and factor are in the parameters
  };
  AttentionOp(std::string label, DataType type, const AttentionParams& params, const Tensors& tensors);
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;
  std::string choice() const override { return name_; }

 private:
  const DataType type_;
  AttentionParams params_;
  const Tensors tensors_;
  std::string name_;
  LaunchShape shape_;
  CUfunction function_ = nullptr;
};

}  // namespace tenon::cuda
