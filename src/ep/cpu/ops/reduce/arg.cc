// ArgMax and ArgMin of every type of number, by rows and by columns.
#include "ep/cpu/ops/reduce/arg.h"

#include <algorithm>
#include <array>

#include "ep/cpu/simd/lines.h"
#include "ep/cpu/simd/norm.h"
#include "ops/reduce.h"

namespace tenon::cpu::ref {

namespace {

// Results [begin, end) of the outer * inner ones.
using ArgLoop = void (*)(const void* x, int64_t* y, const ArgReduceDesc& desc, int64_t begin, int64_t end);

// Whether v takes the place of b. A NaN wins, as in numpy, whichever extreme is asked for.
template <typename C>
bool takes_over(C v, C b, bool largest, bool last) {
  const bool same = (v == b) | ((v != v) & (b != b));
  return (largest ? v > b : v < b) | ((v != v) & (b == b)) | (last & same);
}

// The first or the last place of `value` in a row that holds it.
template <typename T>
int64_t place_of(const T* x, int64_t length, T value, bool last) {
  constexpr int64_t kBlock = 32;
  const auto holds = [&](int64_t first) {
    int32_t found = 0;
    for (int64_t i = 0; i < kBlock; ++i) found |= x[first + i] == value ? 1 : 0;
    return found != 0;
  };
  if (last) {
    int64_t at = length;
    while (at > kBlock && !holds(at - kBlock)) at -= kBlock;
    while (at > 1 && x[at - 1] != value) --at;
    return at - 1;
  }
  int64_t at = 0;
  while (at + kBlock < length && !holds(at)) at += kBlock;
  while (at < length - 1 && x[at] != value) ++at;
  return at;
}

// The extreme of a row of integers, 64 of them side by side.
template <bool largest, typename T>
T extreme_of_row(const T* x, int64_t length) {
  constexpr int64_t kSide = 64;
  const auto better = [](T a, T b) { return largest ? std::max(a, b) : std::min(a, b); };
  T result = x[0];
  int64_t i = 0;
  if (length >= 2 * kSide) {
    std::array<T, kSide> side;
    std::copy_n(x, kSide, side.begin());
    for (i = kSide; i + kSide <= length; i += kSide)
      for (int64_t j = 0; j < kSide; ++j) side[j] = better(side[j], x[i + j]);
    for (T one : side) result = better(result, one);
  }
  for (; i < length; ++i) result = better(result, x[i]);
  return result;
}

template <typename T>
int64_t arg_of_row(const T* x, int64_t length, bool largest, bool last) {
  // The extreme first, in vectors, then its place.
  if constexpr (std::is_same_v<T, float>) {
    float extreme = 0;
    norm_table().reduce_rows(x, &extreme, 1, length, largest ? Reduction::kMax : Reduction::kMin);
    if (extreme == extreme) return place_of(x, length, extreme, last);
  } else if constexpr (std::is_integral_v<T>) {
    return place_of(x, length, largest ? extreme_of_row<true>(x, length) : extreme_of_row<false>(x, length), last);
  }
  int64_t best = 0;
  Compute<T> b = x[0];
  for (int64_t k = 1; k < length; ++k) {
    const Compute<T> v = x[k];
    if (!takes_over(v, b, largest, last)) continue;
    best = k;
    b = v;
  }
  return best;
}

// Neighbouring results go side by side, without branches.
template <typename T>
void arg_of_columns(const T* x, int64_t length, int64_t inner, int64_t columns, bool largest, bool last, int64_t* y) {
  constexpr int64_t kColumns = 64;
  std::array<Compute<T>, kColumns> best;
  std::array<int32_t, kColumns> at;
  for (int64_t c = 0; c < columns; ++c) {
    best[c] = x[c];
    at[c] = 0;
  }
  for (int64_t k = 1; k < length; ++k) {
    const T* const from = x + k * inner;
    for (int64_t c = 0; c < columns; ++c) {
      const Compute<T> v = from[c], b = best[c];
      const bool takes = takes_over(v, b, largest, last);
      best[c] = takes ? v : b;
      at[c] = takes ? static_cast<int32_t>(k) : at[c];
    }
  }
  for (int64_t c = 0; c < columns; ++c) y[c] = at[c];
}

template <typename T>
void arg_loop(const void* x, int64_t* y, const ArgReduceDesc& desc, int64_t begin, int64_t end) {
  constexpr int64_t kColumns = 64;
  const int64_t length = desc.length, inner = desc.inner;
  const bool largest = desc.largest, last = desc.select_last_index;
  while (begin < end) {
    const int64_t o = begin / inner, i = begin % inner;
    const T* from = static_cast<const T*>(x) + o * length * inner + i;
    if (inner == 1) {
      y[begin++] = arg_of_row(from, length, largest, last);
      continue;
    }
    const int64_t columns = std::min({kColumns, inner - i, end - begin});
    if constexpr (std::is_same_v<T, float>) {
      line_table().arg_columns(from, length, inner, columns, largest, last, y + begin);
      begin += columns;
      continue;
    }
    arg_of_columns(from, length, inner, columns, largest, last, y + begin);
    begin += columns;
  }
}

}  // namespace

Result<RefImpl> make_arg(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const ArgLoop chosen =
      select(NumericTypes(), node.inputs[0].type, []<typename T>() -> ArgLoop { return &arg_loop<T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  TENON_TRY_ASSIGN(const ArgReduceDesc desc, read_arg_reduce(*node.node, node.inputs[0].shape));
  TENON_TRY(require_output(node, 0, desc.output));
  RefImpl impl;
  impl.run = [chosen, desc](KernelContext& context) -> Status {
    constexpr int64_t kElements = 8192, kTogether = 128;
    // Few columns at a time would be no vectors, and a cache line of each row.
    const int64_t grain = std::max(desc.inner > 1 ? kTogether : 1, kElements / std::max<int64_t>(1, desc.length));
    context.pool->parallel_for(desc.outer * desc.inner, grain, [&](int64_t begin, int64_t end) {
      chosen(context.inputs[0], context.output<int64_t>(0), desc, begin, end);
    });
    return {};
  };
  return impl;
}

}  // namespace tenon::cpu::ref
