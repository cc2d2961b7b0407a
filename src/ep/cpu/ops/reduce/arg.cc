// ArgMax and ArgMin of every type of number, by rows and by columns.
#include "ep/cpu/ops/reduce/arg.h"

#include <algorithm>
#include <array>

#include "ep/cpu/ops/reduce/problem.h"
#include "ep/cpu/ops/turned.h"
#include "ep/cpu/simd/doubles.h"
#include "ep/cpu/simd/lines.h"
#include "ep/cpu/simd/norm.h"
#include "ops/reduce.h"

namespace tenon::cpu::ref {

namespace {

// Results [begin, end) of the outer * inner ones; and those of one outer, whose x is given, from those of the parts of
// its columns.
using ArgLoop = void (*)(const void* x, int64_t* y, const ArgReduceDesc& desc, int64_t begin, int64_t end);
using ArgJoin = void (*)(const void* x, int64_t* y, const ArgReduceDesc& desc, const nn::Parts& parts,
                         const int64_t* between);
struct ArgLoops {
  ArgLoop loop = nullptr;
  ArgJoin join = nullptr;
};

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
  if constexpr (std::is_integral_v<T>) {
    // The extreme first, in vectors, then its place.
    return place_of(x, length, largest ? extreme_of_row<true>(x, length) : extreme_of_row<false>(x, length), last);
  } else {
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
}

void extremes_of_rows(const float* x, float* extremes, int64_t rows, int64_t length, bool largest) {
  norm_table().reduce_rows(x, extremes, rows, length, largest ? Reduction::kMax : Reduction::kMin);
}

void extremes_of_rows(const double* x, double* extremes, int64_t rows, int64_t length, bool largest) {
  const WideReduction reduction = largest ? WideReduction::kMax : WideReduction::kMin;
  double_table().reduce_rows[static_cast<int>(reduction)](x, extremes, rows, length);
}

// Extremes of several rows in vectors, then their places.
template <typename T>
void arg_of_rows(const T* x, int64_t rows, int64_t length, bool largest, bool last, int64_t* y) {
  constexpr int64_t kTogether = 64;
  std::array<T, kTogether> extremes;
  for (int64_t first = 0; first < rows; first += kTogether) {
    const int64_t together = std::min(kTogether, rows - first);
    extremes_of_rows(x + first * length, extremes.data(), together, length, largest);
    for (int64_t i = 0; i < together; ++i) {
      const T* const row = x + (first + i) * length;
      const bool is_number = extremes[i] == extremes[i];
      y[first + i] = is_number ? place_of(row, length, extremes[i], last) : arg_of_row(row, length, largest, last);
    }
  }
}

// Neighbouring results go side by side, without branches: at most so many.
constexpr int64_t kColumns = 64;

template <typename T>
void arg_of_columns(const T* x, int64_t length, int64_t inner, int64_t columns, bool largest, bool last, int64_t* y) {
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

// The same, in vectors where there are some.
template <typename T>
void arg_columns(const T* x, const ArgReduceDesc& desc, int64_t inner, int64_t columns, int64_t* y) {
  const bool largest = desc.largest, last = desc.select_last_index;
  if constexpr (std::is_same_v<T, float>) {
    line_table().arg_columns(x, desc.length, inner, columns, largest, last, y);
  } else {
    arg_of_columns(x, desc.length, inner, columns, largest, last, y);
  }
}

// Few inner elements, of several outers side by side. [begin, end) counts outers.
template <typename T>
void arg_of_turned(const T* x, const ArgReduceDesc& desc, int64_t inner, int64_t begin, int64_t end, int64_t* y) {
  nn::for_turned(x, begin, end, desc.length, inner, [&](const T* block, int64_t first, int64_t count) {
    std::array<int64_t, nn::kMostTurnedResults> results;
    const int64_t columns = inner * count;
    for (int64_t c = 0; c < columns; c += kColumns)
      arg_columns(block + c, desc, columns, std::min(kColumns, columns - c), results.data() + c);
    nn::turn_back(results.data(), inner, count, y + first * inner);
  });
}

template <typename T>
void arg_loop(const void* x, int64_t* y, const ArgReduceDesc& desc, int64_t begin, int64_t end) {
  const int64_t length = desc.length, inner = desc.inner;
  const bool largest = desc.largest, last = desc.select_last_index;
  if (nn::is_short_inner<T>(desc.outer, length, inner))
    return arg_of_turned(static_cast<const T*>(x), desc, inner, begin / inner, end / inner, y);
  if (inner == 1) {
    const T* const from = static_cast<const T*>(x) + begin * length;
    if constexpr (std::is_same_v<T, float> || is_half<T>) {
      if (length <= nn::kShortRow) return arg_of_turned(static_cast<const T*>(x), desc, inner, begin, end, y);
    }
    if constexpr (std::is_floating_point_v<T>) {
      arg_of_rows(from, end - begin, length, largest, last, y + begin);
    } else {
      for (int64_t i = 0; i < end - begin; ++i) y[begin + i] = arg_of_row(from + i * length, length, largest, last);
    }
    return;
  }
  while (begin < end) {
    const int64_t o = begin / inner, i = begin % inner;
    const int64_t columns = std::min({kColumns, inner - i, end - begin});
    arg_columns(static_cast<const T*>(x) + o * length * inner + i, desc, inner, columns, y + begin);
    begin += columns;
  }
}

template <typename T>
void arg_join(const void* x, int64_t* y, const ArgReduceDesc& desc, const nn::Parts& parts, const int64_t* between) {
  for (int64_t column = 0; column < desc.inner; ++column) {
    const auto value = [&](int64_t k) -> Compute<T> { return static_cast<const T*>(x)[k * desc.inner + column]; };
    int64_t best = between[column];
    for (int64_t part = 1; part < parts.count; ++part) {
      const int64_t next = parts.first(part) + between[part * desc.inner + column];
      if (takes_over(value(next), value(best), desc.largest, desc.select_last_index)) best = next;
    }
    y[column] = best;
  }
}

// Where threads share the elements of a result.
void run_shared(const ArgLoops& loops, const ArgReduceDesc& desc, const nn::Parts& parts, size_t bytes,
                KernelContext& context) {
  const auto* const x = context.input<std::byte>(0);
  alignas(64) std::array<int64_t, nn::kMostBetween> between;
  nn::for_parts(*context.pool, desc.outer, parts, [&](int64_t outer, int64_t part) {
    ArgReduceDesc piece = desc;
    piece.outer = 1;
    piece.length = parts.size(part);
    loops.loop(x + (outer * desc.length + parts.first(part)) * desc.inner * bytes,
               between.data() + (outer * parts.count + part) * desc.inner, piece, 0, desc.inner);
  });
  for (int64_t outer = 0; outer < desc.outer; ++outer)
    loops.join(x + outer * desc.length * desc.inner * bytes, context.output<int64_t>(0) + outer * desc.inner, desc,
               parts, between.data() + outer * parts.count * desc.inner);
}

}  // namespace

Result<RefImpl> make_arg(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const auto chosen = select(NumericTypes(), node.inputs[0].type,
                             []<typename T>() -> ArgLoops { return {&arg_loop<T>, &arg_join<T>}; });
  TENON_UNSUPPORTED_IF(chosen.loop == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  TENON_TRY_ASSIGN(const ArgReduceDesc desc, read_arg_reduce(*node.node, node.inputs[0].shape));
  TENON_TRY(require_output(node, 0, desc.output));
  RefImpl impl;
  impl.run = [chosen, desc, bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    if (const nn::Parts parts = nn::parts_of(nn::Pass{desc.outer, desc.length, desc.inner}); parts.shared()) {
      run_shared(chosen, desc, parts, bytes, context);
      return {};
    }
    constexpr int64_t kElements = 8192, kTogether = 128;
    // Few columns at a time would be no vectors, and a cache line of each row.
    int64_t grain = std::max(desc.inner > 1 ? kTogether : 1, kElements / std::max<int64_t>(1, desc.length));
    if (desc.inner > 1 && desc.inner < nn::kShortInner) grain += desc.inner - grain % desc.inner;  // whole outers
    context.pool->parallel_for(desc.outer * desc.inner, grain, [&](int64_t begin, int64_t end) {
      chosen.loop(context.inputs[0], context.output<int64_t>(0), desc, begin, end);
    });
    return {};
  };
  return impl;
}

}  // namespace tenon::cpu::ref
