// MaxPool, AveragePool, LpPool and their global forms.
#include <algorithm>

#include "ep/cpu/kernels/ref_window.h"

namespace tenon::cpu::ref {

namespace {

enum class Kind : uint8_t { kMax, kAverage, kLp };

struct Plan {
  Window window;
  int64_t planes = 0;  // N * C
  bool count_padding = false;
  bool column_major = false;  // of the indices
  double p = 2;
};
using Loop = void (*)(const Plan& plan, const void* x, void* y, int64_t* indices);

// How many positions of the window at `at` lie inside the padded input; those past it exist by ceil_mode only.
int64_t padded_positions(const Window& window, const Strides& at) {
  int64_t count = 1;
  for (int d = 0; d < window.rank; ++d) {
    const auto u = static_cast<size_t>(d);
    const int64_t begin = at[u] * window.stride[u];
    const int64_t end = window.in[u] + window.pad[u] + window.pad_end[u];
    const int64_t fit = (end - begin + window.dilation[u] - 1) / window.dilation[u];
    count *= std::min(window.kernel[u], fit);
  }
  return count;
}

int64_t column_major(const Window& window, int64_t flat) {
  Strides at{};
  Window::unflatten(flat, window.in, window.rank, at);
  int64_t index = 0;
  for (int d = window.rank - 1; d >= 0; --d)
    index = index * window.in[static_cast<size_t>(d)] + at[static_cast<size_t>(d)];
  return index;
}

template <typename T>
bool is_nan(T value) {
  const auto v = static_cast<Compute<T>>(value);
  return v != v;
}

template <Kind kind, typename T>
void loop(const Plan& plan, const void* x, void* y, int64_t* indices) {
  const Window& window = plan.window;
  const int64_t in_count = window.in_count(), out_count = window.out_count(), taps = window.kernel_count();
  // Pooling a whole map without elements gives what ReduceMean and ReduceMax give for no elements: NaN, and -infinity.
  // A window that covers padding only has the mean 0.
  const double nothing = taps == 0 ? std::numeric_limits<double>::quiet_NaN() : 0.0;
  using Limits = std::numeric_limits<Compute<T>>;
  const Compute<T> lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  for (int64_t plane = 0; plane < plan.planes; ++plane) {
    const T* from = static_cast<const T*>(x) + plane * in_count;
    T* to = static_cast<T*>(y) + plane * out_count;
    Strides at{};
    for (int64_t p = 0; p < out_count; ++p, Window::advance(window.out, window.rank, at)) {
      int64_t best = -1, count = 0;
      double sum = 0;
      Strides tap{};
      for (int64_t k = 0; k < taps; ++k, Window::advance(window.kernel, window.rank, tap)) {
        const int64_t source = window.source(at, tap);
        if (source < 0) continue;
        ++count;
        if constexpr (kind == Kind::kMax) {
          // A NaN is kept: it is the maximum of its window, as in ReduceMax.
          const auto v = static_cast<Compute<T>>(from[source]);
          if (best < 0 || v > static_cast<Compute<T>>(from[best]) || (v != v && !is_nan(from[best]))) best = source;
        } else {
          const auto v = static_cast<double>(from[source]);
          sum += kind == Kind::kLp ? std::pow(std::abs(v), plan.p) : v;
        }
      }
      if constexpr (kind == Kind::kMax) {
        // A window wholly in the padding has no maximum: the lowest value.
        to[p] = best >= 0 ? from[best] : taps == 0 ? T(lowest) : T(std::numeric_limits<Compute<T>>::lowest());
        if (indices != nullptr) {
          const int64_t inside = plan.column_major && best >= 0 ? column_major(window, best) : best;
          indices[plane * out_count + p] = plane * in_count + inside;
        }
      } else if constexpr (kind == Kind::kAverage) {
        const int64_t divisor = plan.count_padding ? padded_positions(window, at) : count;
        to[p] = T(divisor > 0 ? sum / static_cast<double>(divisor) : nothing);
      } else {
        to[p] = T(std::pow(sum, 1.0 / plan.p));
      }
    }
  }
}

// The window is the whole plane.
Window global_window(const Shape& x) {
  Window window;
  window.rank = x.rank() - 2;
  for (int d = 0; d < window.rank; ++d) {
    const auto u = static_cast<size_t>(d);
    window.in[u] = window.kernel[u] = x[d + 2];
    window.out[u] = window.stride[u] = window.dilation[u] = 1;
  }
  return window;
}

template <Kind kind, typename Types, bool global>
Result<RefImpl> make(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_INVALID_IF(x.rank() < 2, "{} needs an input of rank 2 or more, not {}.", node.node->op_type, x.to_string());
  Plan plan;
  if constexpr (global) {
    plan.window = global_window(x);
  } else {
    TENON_TRY_ASSIGN(plan.window, forward_window(*node.node, x, nullptr));
  }
  plan.planes = x[0] * x[1];
  plan.count_padding = node.node->int_or("count_include_pad", 0) != 0;
  plan.column_major = node.node->int_or("storage_order", 0) != 0;
  plan.p = static_cast<double>(node.node->int_or("p", 2));
  TENON_INVALID_IF(plan.p < 1, "{} has p {}.", node.node->op_type, plan.p);
  const Shape out = window_output(plan.window, x[0], x[1]);
  TENON_TRY(require_output(node, 0, out));
  TENON_TRY(require_output(node, 1, out));
  const Loop chosen = select(Types(), node.inputs[0].type, []<typename T>() -> Loop { return &loop<kind, T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  RefImpl impl;
  impl.run = [plan, chosen](KernelContext& context) -> Status {
    chosen(plan, context.inputs[0], context.outputs[0], context.output<int64_t>(1));
    return {};
  };
  return impl;
}

using MaxTypes = decltype(FloatTypes() + TypeList<int8_t, uint8_t>());

constexpr KernelEntry kRows[] = {
    ref_row<type_set(MaxTypes()), &make<Kind::kMax, MaxTypes, false>>("MaxPool", 1),
    ref_row<kFloatSet, &make<Kind::kAverage, FloatTypes, false>>("AveragePool", 1),
    ref_row<kFloatSet, &make<Kind::kLp, FloatTypes, false>>("LpPool", 2),
    ref_row<kFloatSet, &make<Kind::kMax, FloatTypes, true>>("GlobalMaxPool", 1),
    ref_row<kFloatSet, &make<Kind::kAverage, FloatTypes, true>>("GlobalAveragePool", 1),
    ref_row<kFloatSet, &make<Kind::kLp, FloatTypes, true>>("GlobalLpPool", 2),
};

}  // namespace

std::span<const KernelEntry> ref_pool_rows() { return kRows; }

}  // namespace tenon::cpu::ref
