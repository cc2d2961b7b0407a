// Det: determinants, by elimination in double precision.
#include <algorithm>
#include <vector>

#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

namespace {

// The largest element of a column becomes its pivot.
double determinant(double* a, int64_t n) {
  double product = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i * n + k]) > std::abs(a[pivot * n + k])) pivot = i;
    }
    if (a[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
      product = -product;
    }
    product *= a[k * n + k];
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return product;
}

// Those of matrices [begin, end).
using Determinants = void (*)(const void* x, int64_t n, int64_t begin, int64_t end, void* y);

template <typename T>
void determinants(const void* x, int64_t n, int64_t begin, int64_t end, void* y) {
  std::vector<double> matrix(n * n);
  for (int64_t m = begin; m < end; ++m) {
    const T* const from = static_cast<const T*>(x) + m * n * n;
    std::transform(from, from + n * n, matrix.begin(), [](T value) { return static_cast<double>(value); });
    static_cast<T*>(y)[m] = T(determinant(matrix.data(), n));
  }
}

Result<RefImpl> make_det(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  const int rank = x.rank();
  TENON_INVALID_IF(rank < 2 || x[rank - 2] != x[rank - 1], "Det needs square matrices, not {}.", x.to_string());
  Shape out;
  for (int d = 0; d + 2 < rank; ++d) out.push_back(x[d]);
  TENON_TRY(require_output(node, 0, out));
  const auto chosen =
      select(FloatTypes(), node.inputs[0].type, []<typename T>() -> Determinants { return &determinants<T>; });
  RefImpl impl;
  impl.run = [chosen, n = x[rank - 1], count = out.element_count()](KernelContext& context) -> Status {
    constexpr int64_t kProducts = 16384;  // of a chunk
    context.pool->parallel_for(
        count, std::max<int64_t>(1, kProducts / std::max<int64_t>(1, n * n * n / 3)),
        [&](int64_t begin, int64_t end) { chosen(context.inputs[0], n, begin, end, context.outputs[0]); });
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make_det>("Det", 11),
};

}  // namespace

std::span<const KernelEntry> ref_det_rows() { return kRows; }

}  // namespace tenon::cpu::ref
