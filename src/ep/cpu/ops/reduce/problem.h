// Reductions as passes over [outer, n, inner], for kernels of plain tensors whose axes are known.
#pragma once

#include <cstdint>
#include <optional>

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

// One pass: the tensor as [outer, n, inner], of which n is reduced.
struct Pass {
  int64_t outer = 1, n = 1, inner = 1;
  int64_t result() const { return outer * inner; }
};

// Reduced axes that have others between them take a pass each, the last ones first.
struct Problem {
  std::optional<Pass> first;  // into scratch
  Pass last;
};

// Errors: unsupported if the axes are not constant, the input is empty, or the reduced axes are in three places.
Result<Problem> reduction_problem(const KernelNode& node);

}  // namespace tenon::cpu::nn
