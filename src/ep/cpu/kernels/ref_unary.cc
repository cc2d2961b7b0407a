// Elementwise operators of one tensor: a functor and a row each.
#include <algorithm>

#include "ep/cpu/kernels/ref_activation.h"
#include "ep/cpu/kernels/ref_kernel.h"

namespace tenon::cpu::ref {

namespace {

struct Params {
  double alpha = 0;
  double beta = 0;
};
using Loop = void (*)(const void* x, void* y, int64_t count, const Params& params);

// Op::apply(x, params) on Compute<X>; Y is the output's element type.
template <typename Op, typename X, typename Y>
void loop(const void* x, void* y, int64_t count, const Params& params) {
  const X* from = static_cast<const X*>(x);
  Y* to = static_cast<Y*>(y);
  for (int64_t i = 0; i < count; ++i) to[i] = Y(Op::apply(static_cast<Compute<X>>(from[i]), params));
}

Result<RefImpl> make_loop(RefNode& node, Loop loop, Params params) {
  TENON_TRY(require_inputs(node, 1));
  TENON_UNSUPPORTED_IF(loop == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  const int64_t count = node.inputs[0].shape.element_count();
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [loop, count, params](KernelContext& context) -> Status {
    loop(context.inputs[0], context.outputs[0], count, params);
    return {};
  };
  return impl;
}

// Attributes alpha and beta (or those that Op names) with Op's defaults.
template <typename Op>
Params params_of(const Node& node) {
  Params params;
  if constexpr (requires { Op::params(node); }) params = Op::params(node);
  return params;
}

template <typename Op, typename Types>
Result<RefImpl> make_unary(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Loop chosen = select(Types(), node.inputs[0].type, []<typename T>() -> Loop { return &loop<Op, T, T>; });
  return make_loop(node, chosen, params_of<Op>(*node.node));
}

// The output is bool.
template <typename Op, typename Types>
Result<RefImpl> make_test(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Loop chosen = select(Types(), node.inputs[0].type, []<typename T>() -> Loop { return &loop<Op, T, Bool>; });
  return make_loop(node, chosen, params_of<Op>(*node.node));
}

#define TENON_UNARY_(Name, expression)   \
  struct Name {                          \
    template <typename T>                \
    static T apply(T x, const Params&) { \
      return static_cast<T>(expression); \
    }                                    \
  };
TENON_UNARY_(Reciprocal, T(1) / x)
TENON_UNARY_(Sqrt, std::sqrt(x))
TENON_UNARY_(Exp, std::exp(x))
TENON_UNARY_(Log, std::log(x))
TENON_UNARY_(Erf, std::erf(x))
TENON_UNARY_(Floor, std::floor(x))
TENON_UNARY_(Ceil, std::ceil(x))
TENON_UNARY_(Round, std::nearbyint(x))
TENON_UNARY_(Sin, std::sin(x))
TENON_UNARY_(Cos, std::cos(x))
TENON_UNARY_(Tan, std::tan(x))
TENON_UNARY_(Asin, std::asin(x))
TENON_UNARY_(Acos, std::acos(x))
TENON_UNARY_(Atan, std::atan(x))
TENON_UNARY_(Sinh, std::sinh(x))
TENON_UNARY_(Cosh, std::cosh(x))
TENON_UNARY_(Tanh, std::tanh(x))
TENON_UNARY_(Asinh, std::asinh(x))
TENON_UNARY_(Acosh, std::acosh(x))
TENON_UNARY_(Atanh, std::atanh(x))
TENON_UNARY_(Sigmoid, sigmoid(x))
TENON_UNARY_(Softplus, softplus(x))
TENON_UNARY_(Softsign, x / (T(1) + std::abs(x)))
TENON_UNARY_(Mish, x* std::tanh(softplus(x)))
TENON_UNARY_(HardSwish, x* std::clamp(x / T(6) + T(0.5), T(0), T(1)))
#undef TENON_UNARY_

struct Abs {
  template <typename T>
  static T apply(T x, const Params&) {
    if constexpr (std::is_floating_point_v<T>) return std::abs(x);
    return x < T(0) ? static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x)) : x;
  }
};
struct Neg {
  template <typename T>
  static T apply(T x, const Params&) {
    if constexpr (std::is_floating_point_v<T>) return -x;
    return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
  }
};
struct Sign {
  template <typename T>
  static T apply(T x, const Params&) {
    return x > T(0) ? T(1) : x < T(0) ? static_cast<T>(-1) : x;
  }
};
struct Relu {
  template <typename T>
  static T apply(T x, const Params&) {
    return x < T(0) ? T(0) : x;
  }
};
struct LeakyRelu {
  static Params params(const Node& node) { return {node.float_or("alpha", 0.01f)}; }
  template <typename T>
  static T apply(T x, const Params& p) {
    return x < T(0) ? T(p.alpha) * x : x;
  }
};
struct ThresholdedRelu {
  static Params params(const Node& node) { return {node.float_or("alpha", 1.0f)}; }
  template <typename T>
  static T apply(T x, const Params& p) {
    return x > T(p.alpha) ? x : T(0);
  }
};
struct Elu {
  static Params params(const Node& node) { return {node.float_or("alpha", 1.0f)}; }
  template <typename T>
  static T apply(T x, const Params& p) {
    return x < T(0) ? T(p.alpha) * std::expm1(x) : x;
  }
};
struct Celu {
  static Params params(const Node& node) { return {node.float_or("alpha", 1.0f)}; }
  template <typename T>
  static T apply(T x, const Params& p) {
    return x < T(0) ? T(p.alpha) * std::expm1(x / T(p.alpha)) : x;
  }
};
struct Selu {
  static Params params(const Node& node) {
    return {node.float_or("alpha", 1.67326319217681884765625f), node.float_or("gamma", 1.05070102214813232421875f)};
  }
  template <typename T>
  static T apply(T x, const Params& p) {
    return T(p.beta) * (x > T(0) ? x : T(p.alpha) * std::expm1(x));
  }
};
struct HardSigmoid {
  static Params params(const Node& node) { return {node.float_or("alpha", 0.2f), node.float_or("beta", 0.5f)}; }
  template <typename T>
  static T apply(T x, const Params& p) {
    return std::clamp(T(p.alpha) * x + T(p.beta), T(0), T(1));
  }
};
struct Shrink {
  static Params params(const Node& node) { return {node.float_or("lambd", 0.5f), node.float_or("bias", 0.0f)}; }
  template <typename T>
  static T apply(T x, const Params& p) {
    const double value = static_cast<double>(x);
    return static_cast<T>(value < -p.alpha ? value + p.beta : value > p.alpha ? value - p.beta : 0.0);
  }
};
struct Gelu {
  static Params params(const Node& node) { return {node.string_or("approximate", "none") == "tanh" ? 1.0 : 0.0}; }
  template <typename T>
  static T apply(T x, const Params& p) {
    return p.alpha == 0 ? gelu(x) : gelu_tanh(x);
  }
};
struct Swish {
  static Params params(const Node& node) { return {node.float_or("alpha", 1.0f)}; }
  template <typename T>
  static T apply(T x, const Params& p) {
    return x * sigmoid(T(p.alpha) * x);
  }
};
struct Not {
  static bool apply(bool x, const Params&) { return !x; }
};
struct BitwiseNot {
  template <typename T>
  static T apply(T x, const Params&) {
    return static_cast<T>(~x);
  }
};
struct IsNaN {
  template <typename T>
  static bool apply(T x, const Params&) {
    return std::isnan(x);
  }
};
struct IsInf {
  static Params params(const Node& node) {
    return {static_cast<double>(node.int_or("detect_negative", 1)),
            static_cast<double>(node.int_or("detect_positive", 1))};
  }
  template <typename T>
  static bool apply(T x, const Params& p) {
    return std::isinf(x) && (x < T(0) ? p.alpha != 0 : p.beta != 0);
  }
};

using SignedNumeric = decltype(FloatTypes() + SignedTypes());

template <typename Op>
constexpr KernelEntry float_row(std::string_view name, int since) {
  return ref_row<kFloatSet, &make_unary<Op, FloatTypes>>(name, since);
}

constexpr KernelEntry kRows[] = {
    ref_row<kNumericSet, &make_unary<Abs, NumericTypes>>("Abs", 6),
    ref_row<kSignedSet, &make_unary<Neg, SignedNumeric>>("Neg", 6),
    ref_row<kNumericSet, &make_unary<Sign, NumericTypes>>("Sign", 9),
    ref_row<kSignedSet, &make_unary<Relu, SignedNumeric>>("Relu", 6),
    ref_row<kNumericSet, &make_unary<Shrink, NumericTypes>>("Shrink", 9),
    ref_row<kBoolSet, &make_unary<Not, TypeList<Bool>>>("Not", 1),
    ref_row<kIntSet, &make_unary<BitwiseNot, IntTypes>>("BitwiseNot", 18),
    ref_row<kFloatSet, &make_test<IsNaN, FloatTypes>>("IsNaN", 9),
    ref_row<kFloatSet, &make_test<IsInf, FloatTypes>>("IsInf", 10),
    float_row<Reciprocal>("Reciprocal", 6),
    float_row<Sqrt>("Sqrt", 6),
    float_row<Exp>("Exp", 6),
    float_row<Log>("Log", 6),
    ref_row<kNumericSet, &make_unary<Erf, NumericTypes>>("Erf", 9),
    float_row<Floor>("Floor", 6),
    float_row<Ceil>("Ceil", 6),
    float_row<Round>("Round", 11),
    float_row<Sin>("Sin", 7),
    float_row<Cos>("Cos", 7),
    float_row<Tan>("Tan", 7),
    float_row<Asin>("Asin", 7),
    float_row<Acos>("Acos", 7),
    float_row<Atan>("Atan", 7),
    float_row<Sinh>("Sinh", 9),
    float_row<Cosh>("Cosh", 9),
    float_row<Tanh>("Tanh", 6),
    float_row<Asinh>("Asinh", 9),
    float_row<Acosh>("Acosh", 9),
    float_row<Atanh>("Atanh", 9),
    float_row<Sigmoid>("Sigmoid", 6),
    float_row<Softplus>("Softplus", 1),
    float_row<Softsign>("Softsign", 1),
    float_row<Mish>("Mish", 18),
    float_row<HardSwish>("HardSwish", 14),
    float_row<LeakyRelu>("LeakyRelu", 6),
    float_row<ThresholdedRelu>("ThresholdedRelu", 10),
    float_row<Elu>("Elu", 6),
    float_row<Celu>("Celu", 12),
    float_row<Selu>("Selu", 6),
    float_row<HardSigmoid>("HardSigmoid", 6),
    float_row<Gelu>("Gelu", 20),
    float_row<Swish>("Swish", 24),
};

}  // namespace

std::span<const KernelEntry> ref_unary_rows() { return kRows; }

}  // namespace tenon::cpu::ref
