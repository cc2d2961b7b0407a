// Elementwise operators of several tensors with broadcasting: arithmetic, comparisons, logic, Where, Clip.
#include <algorithm>

#include "ep/cpu/ops/reference_kernel.h"
#include "ops/elementwise.h"

namespace tenon::cpu::ref {

namespace {

// Returns false when the data cannot be computed with (an integer division by zero).
using Loop = bool (*)(const void* a, const void* b, void* y, int64_t count, int64_t a_step, int64_t b_step,
                      int64_t y_step);

// Op::apply(a, b, &ok) on Compute<A>, Compute<B>.
template <typename Op, typename A, typename B, typename Y>
bool loop(const void* a, const void* b, void* y, int64_t count, int64_t a_step, int64_t b_step, int64_t y_step) {
  const A* left = static_cast<const A*>(a);
  const B* right = static_cast<const B*>(b);
  Y* to = static_cast<Y*>(y);
  bool ok = true;
  for (int64_t i = 0; i < count; ++i) {
    to[i * y_step] =
        Y(Op::apply(static_cast<Compute<A>>(left[i * a_step]), static_cast<Compute<B>>(right[i * b_step]), ok));
  }
  return ok;
}

template <typename T>
using Unsigned = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;

// Integers wrap around.
#define TENON_ARITHMETIC_(Name, op)                                                      \
  struct Name {                                                                          \
    template <typename T>                                                                \
    static T apply(T a, T b, bool&) {                                                    \
      return static_cast<T>(static_cast<Unsigned<T>>(a) op static_cast<Unsigned<T>>(b)); \
    }                                                                                    \
  };
TENON_ARITHMETIC_(Add, +)
TENON_ARITHMETIC_(Sub, -)
TENON_ARITHMETIC_(Mul, *)
#undef TENON_ARITHMETIC_

struct Div {
  template <typename T>
  static T apply(T a, T b, bool& ok) {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;
    } else {
      if (b == T(0)) {
        ok = false;
        return T(0);
      }
      if constexpr (std::is_signed_v<T>) {
        // The lowest value divided by -1 overflows: it wraps to itself.
        if (b == T(-1)) return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));
      }
      return static_cast<T>(a / b);
    }
  }
};
// fmod: the sign of the dividend.
struct ModTruncated {
  template <typename T>
  static T apply(T a, T b, bool& ok) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      if (b == T(0)) {
        ok = false;
        return T(0);
      }
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) return T(0);
      }
      return static_cast<T>(a % b);
    }
  }
};
// Python's: the sign of the divisor.
struct ModFloored {
  template <typename T>
  static T apply(T a, T b, bool& ok) {
    const T rest = ModTruncated::apply(a, b, ok);
    return rest != T(0) && (rest < T(0)) != (b < T(0)) ? static_cast<T>(rest + b) : rest;
  }
};
struct Pow {
  template <typename A, typename B>
  static A apply(A a, B b, bool& ok) {
    if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
      if (b < B(0)) {
        if (a == A(0)) ok = false;
        return a == A(1) ? a : a == static_cast<A>(-1) ? (b % 2 == 0 ? A(1) : a) : A(0);
      }
      uint64_t result = 1, base = static_cast<uint64_t>(a);
      for (uint64_t exponent = std::make_unsigned_t<B>(b); exponent != 0; exponent >>= 1, base *= base) {
        if (exponent & 1) result *= base;
      }
      return static_cast<A>(result);
    } else {
      const auto value = std::pow(static_cast<double>(a), static_cast<double>(b));
      if constexpr (std::is_integral_v<A>) {
        // Out of range and NaN have no value in an integer; saturate instead of undefined behaviour.
        if (!(value > static_cast<double>(std::numeric_limits<A>::min()))) return std::numeric_limits<A>::min();
        if (value >= static_cast<double>(std::numeric_limits<A>::max())) return std::numeric_limits<A>::max();
      }
      return static_cast<A>(value);
    }
  }
};
// NaN wins, as in numpy.
struct Max {
  template <typename T>
  static T apply(T a, T b, bool&) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b, bool&) {
    return a < b || a != a ? a : b;
  }
};
struct PRelu {
  template <typename T>
  static T apply(T x, T slope, bool&) {
    return x < T(0) ? static_cast<T>(x * slope) : x;
  }
};
// A shift by less than 0 or the whole width leaves nothing, or the sign of what is shifted to the right.
struct ShiftLeft {
  template <typename T>
  static T apply(T a, T b, bool&) {
    const bool inside = b >= T(0) && static_cast<uint64_t>(b) < sizeof(T) * 8;
    return inside ? static_cast<T>(static_cast<uint64_t>(a) << static_cast<uint64_t>(b)) : T(0);
  }
};
struct ShiftRight {
  template <typename T>
  static T apply(T a, T b, bool&) {
    const bool inside = b >= T(0) && static_cast<uint64_t>(b) < sizeof(T) * 8;
    return static_cast<T>(inside ? a >> static_cast<int>(b) : a < T(0) ? -1 : 0);
  }
};
#define TENON_BINARY_(Name, expression)  \
  struct Name {                          \
    template <typename T>                \
    static T apply(T a, T b, bool&) {    \
      return static_cast<T>(expression); \
    }                                    \
  };
TENON_BINARY_(BitwiseAnd, a& b)
TENON_BINARY_(BitwiseOr, a | b)
TENON_BINARY_(BitwiseXor, a ^ b)
TENON_BINARY_(And, a&& b)
TENON_BINARY_(Or, a || b)
TENON_BINARY_(Xor, a != b)
#undef TENON_BINARY_
#define TENON_COMPARE_(Name, op)         \
  struct Name {                          \
    template <typename T>                \
    static bool apply(T a, T b, bool&) { \
      return a op b;                     \
    }                                    \
  };
TENON_COMPARE_(Equal, ==)
TENON_COMPARE_(Less, <)
TENON_COMPARE_(LessOrEqual, <=)
TENON_COMPARE_(Greater, >)
TENON_COMPARE_(GreaterOrEqual, >=)
#undef TENON_COMPARE_

// One step of a chain: y = a op b, where a may be y itself.
Result<RefImpl> make_pair(RefNode& node, Loop loop, std::string_view problem) {
  TENON_TRY(require_inputs(node, 2));
  TENON_UNSUPPORTED_IF(loop == nullptr, "{} is not computed on {} and {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type), data_type_name(node.inputs[1].type));
  TENON_TRY_ASSIGN(const Shape out, broadcast_shape(node.inputs[0].shape, node.inputs[1].shape));
  TENON_TRY(require_output(node, 0, out));
  TENON_TRY_ASSIGN(const Strides a, broadcast_strides(node.inputs[0].shape, out));
  TENON_TRY_ASSIGN(const Strides b, broadcast_strides(node.inputs[1].shape, out));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [loop, problem, walk = make_walk(out, {a, b, dense_strides(out)}),
              a_bytes = data_type_size(node.inputs[0].type), b_bytes = data_type_size(node.inputs[1].type),
              y_bytes = data_type_size(node.outputs[0].type)](KernelContext& context) -> Status {
    const auto* left = context.input<std::byte>(0);
    const auto* right = context.input<std::byte>(1);
    auto* to = context.output<std::byte>(0);
    const bool ok = walk.run([&](const auto& at) {
      return loop(left + at[0] * static_cast<int64_t>(a_bytes), right + at[1] * static_cast<int64_t>(b_bytes),
                  to + at[2] * static_cast<int64_t>(y_bytes), walk.inner, walk.inner_strides[0], walk.inner_strides[1],
                  walk.inner_strides[2]);
    });
    return ok ? Status() : invalid_argument("{}", problem);
  };
  return impl;
}

Status same_types(const KernelNode& node, size_t first, size_t count) {
  for (size_t i = first + 1; i < first + count; ++i) {
    TENON_INVALID_IF(input_spec(node, i).type != input_spec(node, first).type, "Inputs {} and {} of {} are {} and {}.",
                     first, i, node.node->op_type, data_type_name(input_spec(node, first).type),
                     data_type_name(input_spec(node, i).type));
  }
  return {};
}

constexpr std::string_view kZeroDivision = "An integer is divided by zero.";

template <typename Op, typename Types>
Result<RefImpl> make_arithmetic(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  TENON_TRY(same_types(node, 0, 2));
  return make_pair(node, select(Types(), node.inputs[0].type, []<typename T>() -> Loop { return &loop<Op, T, T, T>; }),
                   kZeroDivision);
}

template <typename Op, typename Types>
Result<RefImpl> make_compare(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  TENON_TRY(same_types(node, 0, 2));
  return make_pair(
      node, select(Types(), node.inputs[0].type, []<typename T>() -> Loop { return &loop<Op, T, T, Bool>; }), "");
}

Result<RefImpl> make_mod(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  return read_mod(*node.node).truncated ? make_arithmetic<ModTruncated, NumericTypes>(node)
                                        : make_arithmetic<ModFloored, NumericTypes>(node);
}

Result<RefImpl> make_shift(RefNode& node) {
  TENON_TRY_ASSIGN(const BitShiftDesc shift, read_bit_shift(*node.node));
  return shift.left ? make_arithmetic<ShiftLeft, IntTypes>(node) : make_arithmetic<ShiftRight, IntTypes>(node);
}

Result<RefImpl> make_pow(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  using Bases = decltype(FloatTypes() + TypeList<int32_t, int64_t>());
  const DataType exponent = node.inputs[1].type;
  const Loop chosen = select(Bases(), node.inputs[0].type, [&]<typename A>() -> Loop {
    return select(NumericTypes(), exponent, []<typename B>() -> Loop { return &loop<Pow, A, B, A>; });
  });
  return make_pair(node, chosen, "Zero is raised to a negative power.");
}

// Max, Min, Sum, Mean of any number of tensors: pairwise into the output.
struct Term {
  Walk walk;
};

template <typename Op, typename Types, bool mean = false>
Result<RefImpl> make_variadic(RefNode& node) {
  TENON_TRY(require_inputs(node, node.inputs.size()));
  TENON_INVALID_IF(node.inputs.empty(), "{} needs an input.", node.node->op_type);
  TENON_TRY(same_types(node, 0, node.inputs.size()));
  const DataType type = node.inputs[0].type;
  const Loop chosen = select(Types(), type, []<typename T>() -> Loop { return &loop<Op, T, T, T>; });
  if (node.inputs.size() == 2 && !mean) return make_pair(node, chosen, "");
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type, data_type_name(type));
  Shape out = node.inputs[0].shape;
  for (const TensorSpec& spec : node.inputs) {
    TENON_TRY_ASSIGN(out, broadcast_shape(out, spec.shape));
  }
  TENON_TRY(require_output(node, 0, out));
  const Strides dense = dense_strides(out);
  TENON_TRY_ASSIGN(const Strides first, broadcast_strides(node.inputs[0].shape, out));
  std::vector<Term> terms;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    TENON_TRY_ASSIGN(const Strides strides, broadcast_strides(node.inputs[i].shape, out));
    terms.push_back({make_walk(out, {dense, strides})});
  }
  using Scale = void (*)(void*, int64_t, double);
  const Scale scale = !mean ? nullptr : select(FloatTypes(), type, []<typename T>() -> Scale {
    return [](void* y, int64_t count, double factor) {
      for (int64_t i = 0; i < count; ++i) {
        static_cast<T*>(y)[i] = T(static_cast<double>(static_cast<T*>(y)[i]) * factor);
      }
    };
  });
  RefImpl impl;
  impl.run = [chosen, scale, out, dense, first, terms, bytes = data_type_size(type),
              count = node.inputs.size()](KernelContext& context) -> Status {
    auto* y = context.output<std::byte>(0);
    copy_box(bytes, out, context.inputs[0], first, y, dense);
    for (size_t i = 0; i < terms.size(); ++i) {
      const Walk& walk = terms[i].walk;
      const auto* x = context.input<std::byte>(i + 1);
      const auto size = static_cast<int64_t>(bytes);
      walk.run([&](const auto& at) {
        return chosen(y + at[0] * size, x + at[1] * size, y + at[0] * size, walk.inner, walk.inner_strides[0],
                      walk.inner_strides[1], walk.inner_strides[0]);
      });
    }
    if (scale != nullptr) scale(y, out.element_count(), 1.0 / static_cast<double>(count));
    return {};
  };
  return impl;
}

using SelectLoop = void (*)(const uint8_t* condition, const void* a, const void* b, void* y, int64_t count,
                            const std::array<int64_t, Walk::kOperands>& steps);

template <typename T>
void where_loop(const uint8_t* condition, const void* a, const void* b, void* y, int64_t count,
                const std::array<int64_t, Walk::kOperands>& steps) {
  for (int64_t i = 0; i < count; ++i) {
    static_cast<T*>(y)[i * steps[3]] =
        condition[i * steps[0]] != 0 ? static_cast<const T*>(a)[i * steps[1]] : static_cast<const T*>(b)[i * steps[2]];
  }
}

Result<RefImpl> make_where(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  TENON_TRY(same_types(node, 1, 2));
  const size_t bytes = data_type_size(node.inputs[1].type);
  SelectLoop chosen = nullptr;
  switch (bytes) {
    case 1:
      chosen = &where_loop<uint8_t>;
      break;
    case 2:
      chosen = &where_loop<uint16_t>;
      break;
    case 4:
      chosen = &where_loop<uint32_t>;
      break;
    case 8:
      chosen = &where_loop<uint64_t>;
      break;
    case 16:  // complex128
      chosen = &where_loop<std::array<uint64_t, 2>>;
      break;
    default:
      return unsupported("Where is not computed on {}.", data_type_name(node.inputs[1].type));
  }
  TENON_TRY_ASSIGN(Shape out, broadcast_shape(node.inputs[1].shape, node.inputs[2].shape));
  TENON_TRY_ASSIGN(out, broadcast_shape(out, node.inputs[0].shape));
  TENON_TRY(require_output(node, 0, out));
  TENON_TRY_ASSIGN(const Strides c, broadcast_strides(node.inputs[0].shape, out));
  TENON_TRY_ASSIGN(const Strides a, broadcast_strides(node.inputs[1].shape, out));
  TENON_TRY_ASSIGN(const Strides b, broadcast_strides(node.inputs[2].shape, out));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [chosen, size = static_cast<int64_t>(bytes),
              walk = make_walk(out, {c, a, b, dense_strides(out)})](KernelContext& context) -> Status {
    walk.run([&](const auto& at) {
      chosen(context.input<uint8_t>(0) + at[0], context.input<std::byte>(1) + at[1] * size,
             context.input<std::byte>(2) + at[2] * size, context.output<std::byte>(0) + at[3] * size, walk.inner,
             walk.inner_strides);
      return true;
    });
    return {};
  };
  return impl;
}

using ClipLoop = void (*)(const void* x, const void* low, const void* high, void* y, int64_t count,
                          const ClipDesc& clip);

template <typename T>
void clip_loop(const void* x, const void* low, const void* high, void* y, int64_t count, const ClipDesc& clip) {
  using C = Compute<T>;
  C least = std::numeric_limits<C>::lowest();
  C most = std::numeric_limits<C>::max();
  // The largest number of 16 bits, not of the float32 that is computed with.
  if constexpr (std::is_same_v<T, Float16>) most = 65504;
  if constexpr (std::is_same_v<T, BFloat16>) most = std::bit_cast<float>(uint32_t{0x7f7f0000});
  if constexpr (is_half<T>) least = -most;
  if (!clip.bounds_are_inputs) {
    least = static_cast<C>(clip.low);
    most = static_cast<C>(clip.high);
  }
  if (low != nullptr) least = *static_cast<const T*>(low);
  if (high != nullptr) most = *static_cast<const T*>(high);
  for (int64_t i = 0; i < count; ++i) {
    C value = static_cast<const T*>(x)[i];
    // In this order the upper bound wins when the bounds cross, and NaN stays.
    if (value < least) value = least;
    if (value > most) value = most;
    static_cast<T*>(y)[i] = T(value);
  }
}

Result<RefImpl> make_clip(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const ClipLoop chosen =
      select(NumericTypes(), node.inputs[0].type, []<typename T>() -> ClipLoop { return &clip_loop<T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "Clip is not computed on {}.", data_type_name(node.inputs[0].type));
  for (size_t i = 1; i <= 2; ++i) {
    const TensorSpec& bound = input_spec(node, i);
    TENON_INVALID_IF(bound.present() && (bound.type != node.inputs[0].type || bound.shape.element_count() != 1),
                     "Clip's bound {} is {}{}, not one {}.", i, data_type_name(bound.type), bound.shape.to_string(),
                     data_type_name(node.inputs[0].type));
  }
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  const ClipDesc clip = read_clip(*node.node);
  TENON_UNSUPPORTED_IF(!clip.bounds_are_inputs && ((kFloatSet >> static_cast<int>(node.inputs[0].type)) & 1) == 0,
                       "Clip {} is for floats.", node.node->since_version);
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [chosen, clip, count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    chosen(context.inputs[0], context.input<void>(1), context.input<void>(2), context.outputs[0], count, clip);
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kNumericSet, &make_arithmetic<Add, NumericTypes>>("Add", 7),
    ref_row<kNumericSet, &make_arithmetic<Sub, NumericTypes>>("Sub", 7),
    ref_row<kNumericSet, &make_arithmetic<Mul, NumericTypes>>("Mul", 7),
    ref_row<kNumericSet, &make_arithmetic<Div, NumericTypes>>("Div", 7),
    ref_row<kNumericSet, &make_mod>("Mod", 10),
    ref_row<kNumericSet, &make_pow>("Pow", 7),
    ref_row<kNumericSet, &make_arithmetic<PRelu, NumericTypes>>("PRelu", 7),
    ref_row<kNumericSet, &make_variadic<Max, NumericTypes>>("Max", 6),
    ref_row<kNumericSet, &make_variadic<Min, NumericTypes>>("Min", 6),
    ref_row<kFloatSet, &make_variadic<Add, FloatTypes>>("Sum", 6),
    ref_row<kFloatSet, &make_variadic<Add, FloatTypes, true>>("Mean", 6),
    ref_row<kBoolSet, &make_arithmetic<And, TypeList<Bool>>>("And", 7),
    ref_row<kBoolSet, &make_arithmetic<Or, TypeList<Bool>>>("Or", 7),
    ref_row<kBoolSet, &make_arithmetic<Xor, TypeList<Bool>>>("Xor", 7),
    ref_row<kIntSet, &make_shift>("BitShift", 11),
    ref_row<kIntSet, &make_arithmetic<BitwiseAnd, IntTypes>>("BitwiseAnd", 18),
    ref_row<kIntSet, &make_arithmetic<BitwiseOr, IntTypes>>("BitwiseOr", 18),
    ref_row<kIntSet, &make_arithmetic<BitwiseXor, IntTypes>>("BitwiseXor", 18),
    ref_row<kAllSet, &make_compare<Equal, AllTypes>>("Equal", 7),
    ref_row<kNumericSet, &make_compare<Less, NumericTypes>>("Less", 7),
    ref_row<kNumericSet, &make_compare<LessOrEqual, NumericTypes>>("LessOrEqual", 12),
    ref_row<kNumericSet, &make_compare<Greater, NumericTypes>>("Greater", 7),
    ref_row<kNumericSet, &make_compare<GreaterOrEqual, NumericTypes>>("GreaterOrEqual", 12),
    ref_row<kBoolSet, &make_where>("Where", 9),
    ref_row<kNumericSet, &make_clip>("Clip", 6),
};

}  // namespace

std::span<const KernelEntry> ref_binary_rows() { return kRows; }

}  // namespace tenon::cpu::ref
