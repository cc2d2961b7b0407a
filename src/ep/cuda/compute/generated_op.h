// Operators whose kernels are compiled at run time, and copies.
#pragma once

#include <string>
#include <vector>

#include "ep/cuda/compute/device_op.h"

namespace tenon::cuda {

// A kernel of Program::kernels with one launch of it.
struct KernelLaunch {
  std::string name;
  std::vector<std::byte> params;  // its first parameter; empty: it has addresses alone
  LaunchShape shape;
  std::vector<bool> in_place;  // by read: it may be the first write's memory; empty: none may
};

class GeneratedOp final : public DeviceOp {
 public:
  // The addresses of `reads`, then of `writes`, are the kernel's last parameters; that of kNoTensor is null.
  GeneratedOp(std::string label, std::string what, KernelLaunch kernel, std::vector<TensorId> reads,
              std::vector<TensorId> writes);
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;
  // Whether the write may be the memory of `reads()[index]`.
  bool may_overwrite(size_t index) const { return index < kernel_.in_place.size() && kernel_.in_place[index]; }
  const KernelLaunch& kernel() const { return kernel_; }
  const std::vector<TensorId>& arguments() const { return arguments_; }

 private:
  const std::string what_;
  const KernelLaunch kernel_;
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
