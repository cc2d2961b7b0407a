// Softmax, LogSoftmax and Hardmax: along one axis since version 13, before that over everything from the axis on; and
// tenon.GuardedSoftmax.
#include <algorithm>
#include <array>

#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/simd/doubles.h"
#include "ops/softmax.h"

namespace tenon::cpu::ref {

namespace {

using Kind = SoftmaxDesc::Kind;

// Lines [begin, end) of outer * inner ones.
using Loop = void (*)(const void* x, void* y, int64_t length, int64_t inner, int64_t begin, int64_t end);

constexpr int64_t kGrain = 4096;         // elements of a chunk
constexpr int64_t kLongestColumn = 256;  // that is copied to be a row

template <Kind kind>
void row_of_doubles(const double* x, double* y, int64_t n) {
  const DoubleTable& table = double_table();
  double top = 0;
  table.reduce_rows[static_cast<size_t>(WideReduction::kMax)](x, &top, 1, n);
  const double sum = table.exponentials(x, y, n, top);
  if constexpr (kind == Kind::kSoftmax) {
    table.scale(y, y, n, 1 / sum);
  } else {
    const double log_sum = std::log(sum);
    for (int64_t k = 0; k < n; ++k) y[k] = x[k] - top - log_sum;
  }
}

template <Kind kind, typename T>
void line(const T* from, T* to, int64_t length, int64_t inner) {
  if constexpr (std::is_same_v<T, double> && kind != Kind::kHardmax) {
    if (inner == 1) return row_of_doubles<kind>(from, to, length);
    if (length <= kLongestColumn) {
      std::array<double, kLongestColumn> in{}, out;
      for (int64_t k = 0; k < length; ++k) in[k] = from[k * inner];
      row_of_doubles<kind>(in.data(), out.data(), length);
      for (int64_t k = 0; k < length; ++k) to[k * inner] = out[k];
      return;
    }
  }
  double most = -std::numeric_limits<double>::infinity();
  int64_t where = 0;
  for (int64_t k = 0; k < length; ++k) {
    const auto v = static_cast<double>(from[k * inner]);
    if (v > most) most = v, where = k;
  }
  if constexpr (kind == Kind::kHardmax) {
    for (int64_t k = 0; k < length; ++k) to[k * inner] = T(k == where ? 1.0 : 0.0);
    return;
  }
  double sum = 0;
  for (int64_t k = 0; k < length; ++k) sum += std::exp(static_cast<double>(from[k * inner]) - most);
  const double log_sum = std::log(sum);
  for (int64_t k = 0; k < length; ++k) {
    const double shifted = static_cast<double>(from[k * inner]) - most;
    to[k * inner] = T(kind == Kind::kSoftmax ? std::exp(shifted) / sum : shifted - log_sum);
  }
}

template <Kind kind, typename T>
void loop(const void* x, void* y, int64_t length, int64_t inner, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t at = i / inner * length * inner + i % inner;
    line<kind>(static_cast<const T*>(x) + at, static_cast<T*>(y) + at, length, inner);
  }
}

template <Kind kind>
Result<RefImpl> make(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& shape = node.inputs[0].shape;
  TENON_TRY(require_output(node, 0, shape));
  const Loop chosen = select(FloatTypes(), node.inputs[0].type, []<typename T>() -> Loop { return &loop<kind, T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  TENON_TRY_ASSIGN(const SoftmaxDesc desc, read_softmax(*node.node, shape));
  RefImpl impl;
  impl.run = [chosen, desc](KernelContext& context) -> Status {
    context.pool->parallel_for(desc.outer * desc.inner,
                               std::max<int64_t>(1, kGrain / std::max<int64_t>(1, desc.length)),
                               [&](int64_t begin, int64_t end) {
                                 chosen(context.inputs[0], context.outputs[0], desc.length, desc.inner, begin, end);
                               });
    if (!desc.guarded) return {};
    auto* const y = static_cast<float*>(context.outputs[0]);
    for (int64_t i = 0; i < desc.outer * desc.length * desc.inner; ++i) y[i] = std::isnan(y[i]) ? 0 : y[i];
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make<Kind::kSoftmax>>("Softmax", 1),
    ref_row<kFloatSet, &make<Kind::kLogSoftmax>>("LogSoftmax", 1),
    ref_row<kFloatSet, &make<Kind::kHardmax>>("Hardmax", 1),
    ref_row<kFloat32Set, &make<Kind::kSoftmax>>("GuardedSoftmax", 1, kAnyVersion, "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_softmax_rows() { return kRows; }

}  // namespace tenon::cpu::ref
