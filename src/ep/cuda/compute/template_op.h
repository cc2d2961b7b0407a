// Operators whose kernels are compiled at run time, and copies.
#pragma once

#include <string>
#include <vector>

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/kernel_template.h"

namespace tenon::cuda {

class TemplateOp final : public DeviceOp {
 public:
  // The addresses of `reads`, then of `writes`, are the kernel's last parameters; that of kNoTensor is null.
  TemplateOp(std::string label, std::string what, TemplateKernel kernel, std::vector<TensorId> reads,
             std::vector<TensorId> writes);
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;
  bool may_overwrite(size_t index) const override { return index < kernel_.in_place.size() && kernel_.in_place[index]; }
  const TemplateKernel& kernel() const { return kernel_; }
  // The kernel's parameters behind its struct. `alone`: see QueueContext.
  std::vector<CUdeviceptr> arguments(const Addresses& addresses, bool alone) const;

 private:
  const std::string what_;
  const TemplateKernel kernel_;
  std::vector<TensorId> arguments_;
  CUfunction function_ = nullptr;
};

// Bytes from one tensor into another, which overlap nowhere.
class CopyOp final : public DeviceOp {
 public:
  CopyOp(std::string label, size_t size_bytes, TensorId x, TensorId y)
      : DeviceOp(std::move(label), {x}, {y}), size_bytes_(size_bytes) {}
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext&) override { return Status(); }
  Status queue(const QueueContext& context) const override;

 private:
  const size_t size_bytes_;
};

}  // namespace tenon::cuda
