// Reductions as passes over [outer, n, inner], for kernels of plain tensors whose axes are known.
#pragma once

#include <cstdint>
#include <optional>

#include "ep/api/kernel.h"
#include "ep/cpu/ops/shared_lines.h"

namespace tenon::cpu::nn {

// One pass: the tensor as [outer, n, inner], of which n is reduced.
struct Pass {
  int64_t outer = 1, n = 1, inner = 1;
  int64_t result() const { return outer * inner; }
};

// Columns of a pass that one thread reduces together, and results of parts that threads share at most.
inline constexpr int64_t kTogether = 64, kMostBetween = 8192;

// The parts of the n of a pass that threads reduce.
inline Parts parts_of(const Pass& p) {
  const int64_t columns = (p.inner + kTogether - 1) / kTogether;
  const Parts parts = nn::parts_of(p.outer * columns, p.n, p.inner);
  return parts.count * p.result() <= kMostBetween ? parts : Parts{p.n, p.n, 1};
}

// A pass whose n threads share: fold(x, results, n) gives those of n lines of p.inner elements each, and join(results,
// count, outer) takes those of the `count` parts of one outer.
template <typename A, typename T, typename Fold, typename Join>
void fold_shared(const Pass& p, const Parts& parts, const T* x, ThreadPool& pool, const Fold& fold, const Join& join) {
  alignas(64) A between[kMostBetween];
  for_parts(pool, p.outer, parts, [&](int64_t outer, int64_t part) {
    fold(x + (outer * p.n + parts.first(part)) * p.inner, between + (outer * parts.count + part) * p.inner,
         parts.size(part));
  });
  for (int64_t outer = 0; outer < p.outer; ++outer) join(between + outer * parts.count * p.inner, parts.count, outer);
}

// Reduced axes that have others between them take a pass each, the last ones first.
struct Problem {
  std::optional<Pass> first;  // into scratch
  Pass last;
};

// Errors: unsupported if the axes are not constant, the input is empty, or the reduced axes are in three places.
Result<Problem> reduction_problem(const KernelNode& node);

}  // namespace tenon::cpu::nn
