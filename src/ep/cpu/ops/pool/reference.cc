// MaxPool, AveragePool, LpPool and their global forms.
#include <algorithm>

#include "ep/cpu/ops/reference_kernel.h"
#include "ops/pool.h"

namespace tenon::cpu::ref {

namespace {

using Kind = PoolDesc::Kind;
// Rows [begin, end) of all planes: a row is the output along the last spatial axis.
using Loop = void (*)(const PoolDesc& pool, const void* x, void* y, int64_t* indices, int64_t begin, int64_t end);

int64_t padded_positions(const Window& window, const Strides& at) {
  int64_t count = 1;
  for (size_t d = 0; d < window.axes.size(); ++d) count *= window.axes[d].padded_taps(at[d]);
  return count;
}

// The index of element `flat` of an image counted down its columns first.
int64_t column_major(const Window& window, int64_t flat) {
  int64_t index = 0, step = window.in_count();
  for (size_t d = window.axes.size(); d-- > 0;) {
    step /= window.axes[d].in;
    index += flat % window.axes[d].in * step;
    flat /= window.axes[d].in;
  }
  return index;
}

// The taps [first, last) of an axis that lie inside the input, and the input position of tap 0.
struct TapRange {
  int64_t first = 0, last = 0, start = 0;
  TapRange() = default;
  TapRange(const WindowAxis& axis, int64_t out) : start(out * axis.stride - axis.pad_begin) {
    first = start < 0 ? std::min(axis.kernel, (-start + axis.dilation - 1) / axis.dilation) : 0;
    last = start >= axis.in ? first : std::min(axis.kernel, (axis.in - start - 1) / axis.dilation + 1);
    last = std::max(first, last);
  }
  int64_t count() const { return last - first; }
};

// The taps of one output: those of all axes but the last are walked, those of the last one are a loop.
class Taps {
 public:
  explicit Taps(const Window& window) : window_(window), rank_(window.rank()) {
    int64_t stride = 1;
    for (int d = rank_ - 1; d >= 0; --d) {
      strides_[d] = stride;
      stride *= window.axes[d].in;
    }
  }
  void move(int axis, int64_t out) { ranges_[axis] = TapRange(window_.axes[axis], out); }
  int64_t count() const {
    int64_t count = 1;
    for (int d = 0; d < rank_; ++d) count *= ranges_[d].count();
    return count;
  }
  // Taps of all axes but the last.
  int64_t outer_count() const {
    int64_t count = 1;
    for (int d = 0; d + 1 < rank_; ++d) count *= ranges_[d].count();
    return count;
  }
  // Calls body(element) for the first element of the input row that each of those taps reads.
  template <typename Body>
  void each_row(const Body& body) const {
    if (outer_count() == 0) return;
    const int last = rank_ - 1;
    Strides tap{};
    for (int d = 0; d < last; ++d) tap[d] = ranges_[d].first;
    while (true) {
      int64_t at = 0;
      for (int d = 0; d < last; ++d) at += (ranges_[d].start + tap[d] * window_.axes[d].dilation) * strides_[d];
      body(at);
      int d = last - 1;
      for (; d >= 0; --d) {
        if (++tap[d] < ranges_[d].last) break;
        tap[d] = ranges_[d].first;
      }
      if (d < 0) return;
    }
  }
  // Calls body(element) for each tap, in the order of the kernel.
  template <typename Body>
  void each(const Body& body) const {
    if (count() == 0) return;
    if (rank_ == 0) return body(int64_t{0});
    const TapRange& row = ranges_[rank_ - 1];
    const int64_t step = window_.axes[rank_ - 1].dilation;
    each_row([&](int64_t base) {
      int64_t at = base + row.start + row.first * step;
      for (int64_t k = row.first; k < row.last; ++k, at += step) body(at);
    });
  }

 private:
  const Window& window_;
  const int rank_;
  Strides strides_{};
  std::array<TapRange, Shape::kMaxRank> ranges_{};
};

double power(double magnitude, double p) {
  return p == 2 ? magnitude * magnitude : p == 1 ? magnitude : std::pow(magnitude, p);
}

// What a window without input gives. Pooling a whole map without elements gives what ReduceMean and ReduceMax give for
// no elements: NaN, and -infinity. A window that covers padding only has the mean 0 and the lowest maximum.
template <Kind kind, typename T>
T empty_window(const PoolDesc& pool) {
  const bool no_kernel = pool.window.kernel_count() == 0;
  if constexpr (kind == Kind::kMax) {
    using Limits = std::numeric_limits<Compute<T>>;
    return no_kernel && Limits::has_infinity ? T(-Limits::infinity()) : T(Limits::lowest());
  } else {
    return T(kind == Kind::kAverage && no_kernel ? std::numeric_limits<double>::quiet_NaN() : 0.0);
  }
}

// The maxima of a row with their indices, output by output.
template <typename T>
void maxima_with_indices(const PoolDesc& pool, Taps& taps, const T* from, T* to, int64_t row, int64_t plane,
                         int64_t* indices) {
  const Window& window = pool.window;
  const int last = window.rank() - 1;
  for (int64_t p = 0; p < row; ++p) {
    if (last >= 0) taps.move(last, p);
    int64_t best = -1;
    Compute<T> most{};
    taps.each([&](int64_t source) {
      // A NaN is kept: it is the maximum of its window, as in ReduceMax.
      const auto v = static_cast<Compute<T>>(from[source]);
      if (best < 0 || v > most || (v != v && most == most)) {
        best = source;
        most = v;
      }
    });
    to[p] = best >= 0 ? from[best] : empty_window<Kind::kMax, T>(pool);
    const int64_t inside = pool.column_major && best >= 0 ? column_major(window, best) : best;
    indices[p] = plane * window.in_count() + inside;
  }
}

// Outputs [begin, begin + count) of a row, tap by tap: neighbours go side by side.
template <Kind kind, typename T>
void pool_piece(const PoolDesc& pool, const Taps& taps, const T* from, const Strides& at, int64_t begin, int64_t count,
                T* to) {
  using Sum = std::conditional_t<kind == Kind::kMax, Compute<T>, double>;
  constexpr int64_t kPiece = 256;
  const Window& window = pool.window;
  const int last = window.rank() - 1;
  const WindowAxis& axis = window.axes[last];
  std::array<Sum, kPiece> sums;
  using Limits = std::numeric_limits<Sum>;
  std::fill_n(sums.begin(), count,
              kind != Kind::kMax     ? Sum(0)
              : Limits::has_infinity ? -Limits::infinity()
                                     : Limits::lowest());
  taps.each_row([&](int64_t base) {
    for (int64_t k = 0; k < axis.kernel; ++k) {
      // Output p reads element p * stride + start of the row.
      const int64_t start = k * axis.dilation - axis.pad_begin;
      const int64_t low = start >= 0 ? 0 : (-start + axis.stride - 1) / axis.stride;
      const int64_t high = start >= axis.in ? 0 : (axis.in - 1 - start) / axis.stride + 1;
      const int64_t first = std::max(begin, low), end = std::min(begin + count, high);
      const T* x = from + base + first * axis.stride + start;
      Sum* const y = sums.data() + (first - begin);
      const auto add = [&](int64_t i, int64_t stride) {
        const auto v = static_cast<Compute<T>>(x[i * stride]);
        if constexpr (kind == Kind::kMax) {
          y[i] = v > y[i] || v != v ? v : y[i];
        } else if constexpr (kind == Kind::kAverage) {
          y[i] += static_cast<double>(v);
        } else {
          y[i] += power(std::abs(static_cast<double>(v)), pool.p);
        }
      };
      if (axis.stride == 1) {
        for (int64_t i = 0; i < end - first; ++i) add(i, 1);
      } else if (axis.stride == 2) {
        for (int64_t i = 0; i < end - first; ++i) add(i, 2);
      } else {
        for (int64_t i = 0; i < end - first; ++i) add(i, axis.stride);
      }
    }
  });
  const int64_t outer = taps.outer_count();
  Strides here = at;
  for (int64_t p = 0; p < count; ++p) {
    here[last] = begin + p;
    const int64_t inside = outer * TapRange(axis, begin + p).count();
    if constexpr (kind == Kind::kMax) {
      to[p] = inside > 0 ? T(sums[p]) : empty_window<kind, T>(pool);
    } else if constexpr (kind == Kind::kAverage) {
      const int64_t divisor = pool.count_include_pad ? padded_positions(window, here) : inside;
      to[p] = divisor > 0 ? T(sums[p] / static_cast<double>(divisor)) : empty_window<kind, T>(pool);
    } else {
      to[p] = T(pool.p == 2 ? std::sqrt(sums[p]) : std::pow(sums[p], 1.0 / pool.p));
    }
  }
}

template <Kind kind, typename T>
void loop(const PoolDesc& pool, const void* x, void* y, int64_t* indices, int64_t begin, int64_t end) {
  const Window& window = pool.window;
  const int64_t in_count = window.in_count(), out_count = window.out_count();
  const int rank = window.rank();
  const int64_t row = rank == 0 ? 1 : window.axes[rank - 1].out, rows = out_count / row;
  Taps taps(window);
  for (int64_t item = begin; item < end; ++item) {
    const int64_t plane = item / rows;
    const T* from = static_cast<const T*>(x) + plane * in_count;
    T* to = static_cast<T*>(y) + item * row;
    Strides at{};
    int64_t rest = item % rows;
    for (int d = rank - 2; d >= 0; --d) {
      at[d] = rest % window.axes[d].out;
      rest /= window.axes[d].out;
      taps.move(d, at[d]);
    }
    if (kind == Kind::kMax && indices != nullptr) {
      maxima_with_indices(pool, taps, from, to, row, plane, indices + item * row);
    } else if (rank == 0) {
      to[0] = kind == Kind::kLp ? T(std::abs(static_cast<double>(from[0]))) : from[0];
    } else {
      constexpr int64_t kPiece = 256;
      for (int64_t p = 0; p < row; p += kPiece)
        pool_piece<kind>(pool, taps, from, at, p, std::min(kPiece, row - p), to + p);
    }
  }
}

template <Kind kind, typename Types>
Result<RefImpl> make(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(PoolDesc pool, read_pool(*node.node, node.inputs[0].shape));
  const Shape out = pool.output();
  TENON_TRY(require_output(node, 0, out));
  TENON_TRY(require_output(node, 1, out));
  const Loop chosen = select(Types(), node.inputs[0].type, []<typename T>() -> Loop { return &loop<kind, T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  RefImpl impl;
  impl.run = [pool, chosen](KernelContext& context) -> Status {
    const int64_t out_count = pool.window.out_count(), rank = pool.window.rank();
    const int64_t row = rank == 0 ? 1 : pool.window.axes[rank - 1].out;
    if (out_count == 0) return {};
    constexpr int64_t kTaps = 8192;
    const int64_t grain = std::max<int64_t>(1, kTaps / std::max<int64_t>(1, row * pool.window.kernel_count()));
    context.pool->parallel_for(pool.batch * pool.channels * (out_count / row), grain, [&](int64_t begin, int64_t end) {
      chosen(pool, context.inputs[0], context.outputs[0], context.output<int64_t>(1), begin, end);
    });
    return {};
  };
  return impl;
}

using MaxTypes = decltype(FloatTypes() + TypeList<int8_t, uint8_t>());

constexpr KernelEntry kRows[] = {
    ref_row<type_set(MaxTypes()), &make<Kind::kMax, MaxTypes>>("MaxPool", 1),
    ref_row<kFloatSet, &make<Kind::kAverage, FloatTypes>>("AveragePool", 1),
    ref_row<kFloatSet, &make<Kind::kLp, FloatTypes>>("LpPool", 2),
    ref_row<kFloatSet, &make<Kind::kMax, FloatTypes>>("GlobalMaxPool", 1),
    ref_row<kFloatSet, &make<Kind::kAverage, FloatTypes>>("GlobalAveragePool", 1),
    ref_row<kFloatSet, &make<Kind::kLp, FloatTypes>>("GlobalLpPool", 2),
};

}  // namespace

std::span<const KernelEntry> ref_pool_rows() { return kRows; }

}  // namespace tenon::cpu::ref
