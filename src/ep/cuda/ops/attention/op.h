// Attention over heads, by one of the compiled kernels for its type and sizes.
#pragma once

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/kernel_params.h"

namespace tenon::cuda {

class AttentionOp final : public DeviceOp {
 public:
  struct Tensors {
    TensorId q = kNoTensor, k = kNoTensor, v = kNoTensor, mask = kNoTensor, y = kNoTensor;
    TensorId lengths = kNoTensor;  // int32 [batch]
    TensorId y_parts = kNoTensor;  // as LayerNormOp's; terms and factor are in the parameters
  };
  AttentionOp(std::string label, DataType type, const AttentionParams& params, const Tensors& tensors);
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;
  std::string choice() const override { return name_; }
  DataType type() const { return type_; }
  bool writes_parts() const { return tensors_.y_parts != kNoTensor; }
  // The kernel's parameters with the addresses of one run.
  AttentionParams bound_params(const Addresses& addresses) const;

 private:
  const DataType type_;
  AttentionParams params_;
  const Tensors tensors_;
  std::string name_;
  LaunchShape shape_;
  CUfunction function_ = nullptr;
};

}  // namespace tenon::cuda
