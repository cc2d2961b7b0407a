// Reduce* over any set of axes, ArgMax and ArgMin.
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/reduce.h"

namespace tenon::cpu::ref {

namespace {

// The elements that make one output element.
template <typename T>
struct Group {
  const T* x;
  const Walk& walk;
  int64_t count;

  template <typename F>
  void each(const F& f) const {
    walk.run([&](const auto& at) {
      const T* from = x + at[0];
      for (int64_t i = 0; i < walk.inner; ++i) f(static_cast<Compute<T>>(from[i * walk.inner_strides[0]]));
      return true;
    });
  }
};

template <typename T>
auto sum_of(const Group<T>& group) {
  Accumulate<T> sum = 0;
  group.each([&](auto v) { sum += static_cast<Accumulate<T>>(v); });
  return sum;
}

struct Sum {
  template <typename T>
  static auto apply(const Group<T>& group) {
    return sum_of(group);
  }
};
struct Mean {
  template <typename T>
  static auto apply(const Group<T>& group) {
    const auto count = static_cast<Accumulate<T>>(group.count);
    // An empty mean is NaN for floats; integers have none.
    if constexpr (!is_float<T>) {
      if (count == 0) return Accumulate<T>(0);
    }
    return static_cast<Accumulate<T>>(sum_of(group) / count);
  }
};
struct Prod {
  template <typename T>
  static auto apply(const Group<T>& group) {
    using A = std::conditional_t<is_float<T>, double, uint64_t>;
    A product = 1;
    group.each([&](auto v) { product *= static_cast<A>(v); });
    return product;
  }
};
struct SumSquare {
  template <typename T>
  static auto apply(const Group<T>& group) {
    using A = std::conditional_t<is_float<T>, double, uint64_t>;
    A sum = 0;
    group.each([&](auto v) { sum += static_cast<A>(v) * static_cast<A>(v); });
    return sum;
  }
};
struct L1 {
  template <typename T>
  static auto apply(const Group<T>& group) {
    using A = std::conditional_t<is_float<T>, double, uint64_t>;
    A sum = 0;
    group.each([&](auto v) { sum += v < decltype(v)(0) ? A(0) - static_cast<A>(v) : static_cast<A>(v); });
    return sum;
  }
};
struct L2 {
  template <typename T>
  static auto apply(const Group<T>& group) {
    double sum = 0;
    group.each([&](auto v) { sum += static_cast<double>(v) * static_cast<double>(v); });
    return std::sqrt(sum);
  }
};
struct LogSum {
  template <typename T>
  static auto apply(const Group<T>& group) {
    return std::log(static_cast<double>(sum_of(group)));
  }
};
struct LogSumExp {
  template <typename T>
  static auto apply(const Group<T>& group) {
    double most = -std::numeric_limits<double>::infinity();
    bool nan = false;
    group.each([&](auto v) {
      most = std::max(most, static_cast<double>(v));
      nan |= v != v;
    });
    if (nan) return std::numeric_limits<double>::quiet_NaN();
    if (!std::isfinite(most)) return most;
    double sum = 0;
    group.each([&](auto v) { sum += std::exp(static_cast<double>(v) - most); });
    return most + std::log(sum);
  }
};
template <bool largest>
struct Extreme {
  template <typename T>
  static auto apply(const Group<T>& group) {
    using C = Compute<T>;
    using Limits = std::numeric_limits<C>;
    C best = largest ? Limits::lowest() : Limits::max();
    if constexpr (is_float<T>) best = largest ? -Limits::infinity() : Limits::infinity();
    group.each([&](C v) {
      if ((largest ? v > best : v < best) || v != v) best = v;
    });
    return best;
  }
};

using Loop = void (*)(const void* x, void* y, const Walk& kept, const Walk& reduced, int64_t count);

// Doubles that leave an integer's range saturate (L2 and its kin of integers).
template <typename T, typename V>
T finish(V value) {
  if constexpr (std::is_floating_point_v<V> && std::is_integral_v<T>) {
    if (!(value > static_cast<V>(std::numeric_limits<T>::min()))) return std::numeric_limits<T>::min();
    if (value >= static_cast<V>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(value);
}

template <typename Op, typename T>
void loop(const void* x, void* y, const Walk& kept, const Walk& reduced, int64_t count) {
  kept.run([&](const auto& at) {
    for (int64_t i = 0; i < kept.inner; ++i) {
      const T* from = static_cast<const T*>(x) + at[0] + i * kept.inner_strides[0];
      T* to = static_cast<T*>(y) + at[1] + i * kept.inner_strides[1];
      *to = finish<T>(Op::apply(Group<T>{from, reduced, count}));
    }
    return true;
  });
}

template <typename Op, typename Types>
Result<RefImpl> make_reduce(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Loop chosen = select(Types(), node.inputs[0].type, []<typename T>() -> Loop { return &loop<Op, T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  const ReduceDesc desc = read_reduce(*node.node);
  TENON_TRY_ASSIGN(const ShortVector attribute, short_vector(desc.axes));
  const TensorSpec axes_spec = input_spec(node, 1);
  RefImpl impl;
  impl.run = [chosen, attribute, axes_spec, shape = node.inputs[0].shape, out = output_spec(node, 0),
              keepdims = desc.keepdims, noop = desc.noop_with_empty_axes](KernelContext& context) -> Status {
    ShortVector values = attribute;
    if (axes_spec.present()) {
      TENON_TRY_ASSIGN(values, read_ints(context, 1, axes_spec));
    }
    TENON_TRY_ASSIGN(const AxisSet mask, reduced_axes(values.span(), noop, shape.rank()));
    const Strides strides = dense_strides(shape);
    Shape kept_dims, reduced_dims;
    Strides kept_x{}, reduced_x{};
    for (int d = 0; d < shape.rank(); ++d) {
      const bool reduced = mask.test(d);
      Shape& dims = reduced ? reduced_dims : kept_dims;
      (reduced ? reduced_x : kept_x)[dims.rank()] = strides[d];
      dims.push_back(shape[d]);
    }
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, reduced_shape(shape, mask, keepdims)));
    chosen(context.inputs[0], y, make_walk(kept_dims, {kept_x, dense_strides(kept_dims)}),
           make_walk(reduced_dims, {reduced_x}), reduced_dims.element_count());
    return {};
  };
  return impl;
}

using ArgLoop = void (*)(const void* x, int64_t* y, const ArgReduceDesc& desc);

template <typename T>
void arg_loop(const void* x, int64_t* y, const ArgReduceDesc& desc) {
  const int64_t length = desc.length, inner = desc.inner;
  const bool largest = desc.largest, last = desc.select_last_index;
  for (int64_t o = 0; o < desc.outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const T* from = static_cast<const T*>(x) + o * length * inner + i;
      int64_t best = 0;
      for (int64_t k = 1; k < length; ++k) {
        const Compute<T> v = from[k * inner], b = from[best * inner];
        // A NaN wins, as in numpy, whichever extreme is asked for.
        const bool same = v == b || (v != v && b != b);
        if ((largest ? v > b : v < b) || (v != v && b == b) || (last && same)) best = k;
      }
      y[o * inner + i] = best;
    }
  }
}

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
    chosen(context.inputs[0], context.output<int64_t>(0), desc);
    return {};
  };
  return impl;
}

using Wide = decltype(FloatTypes() + TypeList<int32_t, int64_t, uint32_t, uint64_t>());
using WideAndBytes = decltype(Wide() + TypeList<int8_t, uint8_t, Bool>());

template <typename Op>
constexpr KernelEntry row(std::string_view name) {
  return ref_row<type_set(Wide()), &make_reduce<Op, Wide>>(name, 1);
}

constexpr KernelEntry kRows[] = {
    row<Sum>("ReduceSum"),
    row<Mean>("ReduceMean"),
    row<Prod>("ReduceProd"),
    row<SumSquare>("ReduceSumSquare"),
    row<L1>("ReduceL1"),
    row<L2>("ReduceL2"),
    row<LogSum>("ReduceLogSum"),
    row<LogSumExp>("ReduceLogSumExp"),
    ref_row<type_set(WideAndBytes()), &make_reduce<Extreme<true>, WideAndBytes>>("ReduceMax", 1),
    ref_row<type_set(WideAndBytes()), &make_reduce<Extreme<false>, WideAndBytes>>("ReduceMin", 1),
    ref_row<kNumericSet, &make_arg>("ArgMax", 1),
    ref_row<kNumericSet, &make_arg>("ArgMin", 1),
};

}  // namespace

std::span<const KernelEntry> ref_reduce_rows() { return kRows; }

}  // namespace tenon::cpu::ref
