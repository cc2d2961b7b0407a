// Kernels for If, Loop and Scan, which run graphs of their own: the host makes them, also for an EP that wants the
// node.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <tenon/tensor.h>

#include "ep/api/kernel.h"

namespace tenon {

struct RunInfo;

// Steps of the host's Loop and Scan kernels that an EP does, on host memory. Threads: any, each call for one run.
class SubgraphHelper {
 public:
  virtual ~SubgraphHelper() = default;
  // `what` is the value's name: the bytes that move are in the run's ledger, and strict mode refuses them.
  // Loop: puts what the iterations gave for one scan output, in order, one after the other into `output`.
  virtual Status concat(std::span<const Tensor> parts, Tensor& output, const char* what, const RunInfo& info) const = 0;
  // Scan: dimension i of `output` is dimension permutation[i] of `input`.
  virtual Status transpose(std::span<const size_t> permutation, const Tensor& input, Tensor& output, const char* what,
                           const RunInfo& info) const = 0;
};

// Lifetime: outlives the kernels that it makes. Threads: any.
class SubgraphKernels {
 public:
  virtual ~SubgraphKernels() = default;
  // `node` is lowered (plan/control_flow.h), and its bodies have been through the passes of loading. `helper` may be
  // null; it outlives the kernel.
  virtual Result<std::unique_ptr<Kernel>> create(const KernelNode& node, const SubgraphHelper* helper) const = 0;
};

}  // namespace tenon
