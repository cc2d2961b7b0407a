// An operator whose kernel was written for it (codegen.h), and the module that such kernels are compiled into.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ep/cuda/compute/codegen.h"
#include "ep/cuda/compute/device_op.h"

namespace tenon::cuda {

class GeneratedOp final : public DeviceOp {
 public:
  // `reads`, then `writes`, in the order of the kernel's parameters.
  GeneratedOp(std::string label, std::string what, GeneratedKernel kernel, std::vector<TensorId> reads,
              std::vector<TensorId> writes);
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;
  // Whether the write may be the memory of `reads()[index]`.
  bool may_overwrite(size_t index) const { return index < kernel_.in_place.size() && kernel_.in_place[index]; }
  const GeneratedKernel& kernel() const { return kernel_; }

 private:
  const std::string what_;
  const GeneratedKernel kernel_;
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

class ComputeContext;

// The compiled kernels of one program. Machine code is kept in the context's cache folder (empty: nowhere) under a name
// made of the text and the device's kind.
class GeneratedModule {
 public:
  static Result<std::unique_ptr<GeneratedModule>> compile(const ComputeContext& context, const std::string& source);
  Result<CUfunction> function(const std::string& name) const { return module_->function(name.c_str()); }

 private:
  explicit GeneratedModule(std::shared_ptr<CudaModule> module) : module_(std::move(module)) {}
  const std::shared_ptr<CudaModule> module_;
};

}  // namespace tenon::cuda
