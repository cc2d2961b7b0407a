// MaxPool, AveragePool, LpPool and their global forms.
#include <algorithm>

#include "ep/cpu/ops/reference_window.h"
#include "ops/pool.h"

namespace tenon::cpu::ref {

namespace {

using Kind = PoolDesc::Kind;
using Loop = void (*)(const PoolDesc& pool, const void* x, void* y, int64_t* indices);

// How many positions of the window at `at` lie inside the padded input; those past it exist by ceil_mode only.
int64_t padded_positions(const Window& window, const Strides& at) {
  int64_t count = 1;
  for (size_t d = 0; d < window.axes.size(); ++d) {
    const WindowAxis& axis = window.axes[d];
    const int64_t room = axis.in + axis.pad_begin + axis.pad_end - at[d] * axis.stride;
    count *= std::min(axis.kernel, (room + axis.dilation - 1) / axis.dilation);
  }
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

template <typename T>
bool is_nan(T value) {
  const auto v = static_cast<Compute<T>>(value);
  return v != v;
}

template <Kind kind, typename T>
void loop(const PoolDesc& pool, const void* x, void* y, int64_t* indices) {
  const Window& window = pool.window;
  const int64_t planes = pool.batch * pool.channels;
  const int64_t in_count = window.in_count(), out_count = window.out_count(), taps = window.kernel_count();
  // Pooling a whole map without elements gives what ReduceMean and ReduceMax give for no elements: NaN, and -infinity.
  // A window that covers padding only has the mean 0.
  const double nothing = taps == 0 ? std::numeric_limits<double>::quiet_NaN() : 0.0;
  using Limits = std::numeric_limits<Compute<T>>;
  const Compute<T> lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  for (int64_t plane = 0; plane < planes; ++plane) {
    const T* from = static_cast<const T*>(x) + plane * in_count;
    T* to = static_cast<T*>(y) + plane * out_count;
    Strides at{};
    for (int64_t p = 0; p < out_count; ++p, advance(window, &WindowAxis::out, at)) {
      int64_t best = -1, count = 0;
      double sum = 0;
      Strides tap{};
      for (int64_t k = 0; k < taps; ++k, advance(window, &WindowAxis::kernel, tap)) {
        const int64_t source = source_of(window, at, tap);
        if (source < 0) continue;
        ++count;
        if constexpr (kind == Kind::kMax) {
          // A NaN is kept: it is the maximum of its window, as in ReduceMax.
          const auto v = static_cast<Compute<T>>(from[source]);
          if (best < 0 || v > static_cast<Compute<T>>(from[best]) || (v != v && !is_nan(from[best]))) best = source;
        } else {
          const auto v = static_cast<double>(from[source]);
          sum += kind == Kind::kLp ? std::pow(std::abs(v), pool.p) : v;
        }
      }
      if constexpr (kind == Kind::kMax) {
        // A window wholly in the padding has no maximum: the lowest value.
        to[p] = best >= 0 ? from[best] : taps == 0 ? T(lowest) : T(std::numeric_limits<Compute<T>>::lowest());
        if (indices != nullptr) {
          const int64_t inside = pool.column_major && best >= 0 ? column_major(window, best) : best;
          indices[plane * out_count + p] = plane * in_count + inside;
        }
      } else if constexpr (kind == Kind::kAverage) {
        const int64_t divisor = pool.count_include_pad ? padded_positions(window, at) : count;
        to[p] = T(divisor > 0 ? sum / static_cast<double>(divisor) : nothing);
      } else {
        to[p] = T(std::pow(sum, 1.0 / pool.p));
      }
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
    chosen(pool, context.inputs[0], context.outputs[0], context.output<int64_t>(1));
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
