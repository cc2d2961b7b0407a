// Reductions of strided tensors (reduce.cuh).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/ops/reduce/reduce_params.h"

namespace tenon::cuda {

struct Reduction {
  std::vector<int64_t> dims;         // of the output, without the reduced dimensions
  std::vector<int64_t> strides;      // of the input over them
  std::vector<int64_t> out_strides;  // of the output over them
  std::vector<int64_t> reduced, reduced_strides;
  DataType type = DataType::kFloat, out_type = DataType::kFloat;
  ReduceKind kind = ReduceKind::kSum;
  bool last = false;  // of equal elements, kArgMax and kArgMin take the last
  // Each result is made in so many parts, which lie together where out_strides say; another reduction joins them.
  int64_t parts = 1;
  int64_t count = 0;  // a mean divides by it; 0: the number of reduced elements
  // Of kArgMax and kArgMin: so many positions (int64) for each output, -1 for none, are all there is to choose from.
  // They are the kernel's second address.
  int64_t candidates = 0;
};

// Errors: kUnsupported for a type or size that the kernels do not take.
Result<TemplateKernel> reduction_kernel(const Reduction& reduction);
// In how many parts a device is best kept busy; and the kinds of the reductions that make and join them.
int64_t reduction_parts(const Reduction& reduction);
ReduceKind first_reduction(ReduceKind kind);
ReduceKind second_reduction(ReduceKind kind);

// Reduces `from` to `out`, whose elements lie together in the order of reduction.dims: in one kernel, or in parts that
// a second one joins. There are elements.
Status add_reduction(Lowering& to, const Node& node, const std::string& what, const Reduction& reduction, TensorId from,
                     TensorId out);

}  // namespace tenon::cuda
