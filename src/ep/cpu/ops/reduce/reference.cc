// Reduce* over any set of axes.
#include <algorithm>
#include <array>

#include "ep/cpu/ops/reduce/arg.h"
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
      if (walk.inner_strides[0] == 1) {
        for (int64_t i = 0; i < walk.inner; ++i) f(static_cast<Compute<T>>(from[i]));
      } else {
        for (int64_t i = 0; i < walk.inner; ++i) f(static_cast<Compute<T>>(from[i * walk.inner_strides[0]]));
      }
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

// The dimensions that stay, with their strides in X.
struct Kept {
  Shape dims;
  Strides strides{};
};

// Output elements [begin, end); each sums `count` elements.
using Loop = void (*)(const void* x, void* y, const Kept& kept, const Walk& reduced, int64_t count, int64_t begin,
                      int64_t end);

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
void loop(const void* x, void* y, const Kept& kept, const Walk& reduced, int64_t count, int64_t begin, int64_t end) {
  Strides at{};
  int64_t offset = 0, rest = begin;
  for (int d = kept.dims.rank() - 1; d >= 0; --d) {
    at[d] = rest % kept.dims[d];
    rest /= kept.dims[d];
    offset += at[d] * kept.strides[d];
  }
  for (int64_t i = begin; i < end; ++i) {
    static_cast<T*>(y)[i] = finish<T>(Op::apply(Group<T>{static_cast<const T*>(x) + offset, reduced, count}));
    for (int d = kept.dims.rank() - 1; d >= 0; --d) {
      offset += kept.strides[d];
      if (++at[d] < kept.dims[d]) break;
      offset -= kept.strides[d] * kept.dims[d];
      at[d] = 0;
    }
  }
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
    Kept kept;
    Shape reduced_dims;
    Strides reduced_x{};
    for (int d = 0; d < shape.rank(); ++d) {
      const bool reduced = mask.test(d);
      Shape& dims = reduced ? reduced_dims : kept.dims;
      (reduced ? reduced_x : kept.strides)[dims.rank()] = strides[d];
      dims.push_back(shape[d]);
    }
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, reduced_shape(shape, mask, keepdims)));
    const Walk walk = make_walk(reduced_dims, {reduced_x});
    const int64_t count = reduced_dims.element_count();
    constexpr int64_t kElements = 8192;
    context.pool->parallel_for(
        kept.dims.element_count(), std::max<int64_t>(1, kElements / std::max<int64_t>(1, count)),
        [&](int64_t begin, int64_t end) { chosen(context.inputs[0], y, kept, walk, count, begin, end); });
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
