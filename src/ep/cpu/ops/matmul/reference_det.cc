// Det: determinants, by elimination in double precision.
#include <algorithm>

#include "ep/cpu/ops/reference_access.h"

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

Result<RefImpl> make_det(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  const int rank = x.rank();
  TENON_INVALID_IF(rank < 2 || x[rank - 2] != x[rank - 1], "Det needs square matrices, not {}.", x.to_string());
  Shape out;
  for (int d = 0; d + 2 < rank; ++d) out.push_back(x[d]);
  TENON_TRY(require_output(node, 0, out));
  TENON_TRY_ASSIGN(const ReadNumber read, input_reader(node, 0));
  TENON_TRY_ASSIGN(const WriteNumber write, output_writer(node, 0));
  const int64_t n = x[rank - 1];
  RefImpl impl;
  impl.scratch_bytes = n * n * sizeof(double);
  impl.run = [read, write, n, count = out.element_count()](KernelContext& context) -> Status {
    auto* const matrix = reinterpret_cast<double*>(context.scratch);
    for (int64_t m = 0; m < count; ++m) {
      for (int64_t i = 0; i < n * n; ++i) matrix[i] = read(context.inputs[0], m * n * n + i);
      write(context.outputs[0], m, determinant(matrix, n));
    }
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
