// Elementwise operators of one tensor: the functions of ops/activation_list.h, and those whose result is no number.
#include "ep/cpu/ops/loops.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/ops/small_types.h"
#include "ep/cpu/simd/doubles.h"
#include "ep/cpu/simd/integers.h"
#include "ops/activation_formula.h"
#include "ops/elementwise.h"
#include "ops/unary.h"

namespace tenon::cpu::ref {

namespace {

// y may be x.
using Loop = void (*)(const void* x, void* y, int64_t count, double alpha, double beta);

// Elements of a chunk: most functions take some nanoseconds each.
constexpr int64_t kGrain = 4096;

Result<RefImpl> make_loop(RefNode& node, Loop loop, double alpha = 0, double beta = 0) {
  TENON_TRY(require_inputs(node, 1));
  TENON_UNSUPPORTED_IF(loop == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [loop, alpha, beta, count = node.inputs[0].shape.element_count(),
              x_bytes = data_type_size(node.inputs[0].type),
              y_bytes = data_type_size(node.outputs[0].type)](KernelContext& context) -> Status {
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      loop(context.input<std::byte>(0) + begin * x_bytes, context.output<std::byte>(0) + begin * y_bytes, end - begin,
           alpha, beta);
    });
    return {};
  };
  return impl;
}

// --- functions ---

template <Unary kFunction, typename T>
void function_loop(const void* x, void* y, int64_t count, double alpha, double beta) {
  // The parameters of Shrink are fractions, whatever the type of x.
  using C = std::conditional_t<kFunction == Unary::kShrink && std::is_integral_v<T>, double, Compute<T>>;
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  if constexpr (std::is_same_v<T, int32_t> && kFunction == Unary::kAbs) return integer_table().abs32(from, to, count);
  if constexpr (std::is_same_v<T, int64_t> && kFunction == Unary::kAbs) return integer_table().abs64(from, to, count);
  if constexpr (std::is_same_v<T, int32_t> && kFunction == Unary::kNeg) return integer_table().neg32(from, to, count);
  if constexpr (std::is_same_v<T, int64_t> && kFunction == Unary::kNeg) return integer_table().neg64(from, to, count);
  if constexpr (std::is_same_v<T, int64_t> && kFunction == Unary::kSign) return integer_table().sign64(from, to, count);
  if constexpr (std::is_same_v<T, double> && kFunction == Unary::kSqrt) return double_table().roots(from, to, count);
  if constexpr (std::is_same_v<T, double>) {
    if constexpr (kFunction == Unary::kExp) return double_table().powers(from, to, count);
    if constexpr (kFunction == Unary::kTanh) return double_table().tanh(from, to, count);
    if constexpr (kFunction == Unary::kLog) return double_table().logs(from, to, count);
    if constexpr (kFunction == Unary::kSigmoid) return double_table().sigmoids(from, to, count);
    if constexpr (kFunction == Unary::kSin) return double_table().sines(from, to, count);
    if constexpr (kFunction == Unary::kCos) return double_table().cosines(from, to, count);
    if constexpr (kFunction == Unary::kTan) return double_table().tangents(from, to, count);
    if constexpr (kFunction == Unary::kFloor) return double_table().floors(from, to, count);
    if constexpr (kFunction == Unary::kCeil) return double_table().ceilings(from, to, count);
    if constexpr (kFunction == Unary::kRound) return double_table().nearest(from, to, count);
  }
  const C a = static_cast<C>(alpha), b = static_cast<C>(beta);
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (is_half<T>) asm("");  // fast kernels take halves: here vectors would only take room
    to[i] = T(formula::apply<kFunction>(static_cast<C>(static_cast<Compute<T>>(from[i])), a, b));
  }
}

template <Unary kFunction>
constexpr auto types_of() {
  if constexpr (kFunction == Unary::kAbs || kFunction == Unary::kSign || kFunction == Unary::kErf ||
                kFunction == Unary::kShrink) {
    return NumericTypes();
  } else if constexpr (kFunction == Unary::kNeg || kFunction == Unary::kRelu) {
    return decltype(FloatTypes() + SignedTypes())();
  } else {
    return FloatTypes();
  }
}

template <Unary kFunction>
Result<RefImpl> make_function(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(const UnaryDesc unary, read_unary(*node.node));
  if constexpr (kFunction == Unary::kGelu) {
    if (unary.function == Unary::kGeluTanh) return make_function<Unary::kGeluTanh>(node);
  }
  const Loop chosen = select(types_of<kFunction>(), node.inputs[0].type,
                             []<typename T>() -> Loop { return &function_loop<kFunction, T>; });
  return make_loop(node, chosen, unary.alpha, unary.beta);
}

// --- others ---

struct Not {};

// Op::apply(x) on Compute<X>; Y is the output's element type.
template <typename Op, typename X, typename Y>
void loop(const void* x, void* y, int64_t count, double, double) {
  const X* from = static_cast<const X*>(x);
  Y* to = static_cast<Y*>(y);
  if constexpr (is_half<X> && requires { Op::kOfBits; }) {
    // Without widening.
    integer_table().is_beyond16(&from->bits, X(std::numeric_limits<float>::infinity()).bits, &to->bits, count);
    return;
  }
  if constexpr (is_half<X> && requires { Op::of_bits(uint16_t{}, uint16_t{}); }) {
    const uint16_t infinity = X(std::numeric_limits<float>::infinity()).bits;
    TENON_INDEPENDENT_LOOP
    for (int64_t i = 0; i < count; ++i) to[i] = Y(Op::of_bits(from[i].bits, infinity));
    return;
  }
  if constexpr (std::is_same_v<Op, Not>) {
    integer_table().not8(&from->bits, &to->bits, count);
  } else {
    TENON_INDEPENDENT_LOOP
    for (int64_t i = 0; i < count; ++i) to[i] = Y(Op::apply(static_cast<Compute<X>>(from[i])));
  }
}

template <typename Op, typename Types>
Result<RefImpl> make_unary(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  return make_loop(node, select(Types(), node.inputs[0].type, []<typename T>() -> Loop { return &loop<Op, T, T>; }));
}

// A test of 8-bit floats: the answers for all codes.
template <typename Op>
Result<RefImpl> make_small_test(RefNode& node) {
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  std::array<uint8_t, 256> answers{};
  const std::array<float, 256>& values = small_values(node.inputs[0].type);
  for (size_t code = 0; code < answers.size(); ++code) answers[code] = Op::apply(values[code]) ? 1 : 0;
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [answers, count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    const auto* x = context.input<uint8_t>(0);
    for (int64_t i = 0; i < count; ++i) context.output<uint8_t>(0)[i] = answers[x[i]];
    return {};
  };
  return impl;
}

// The output is bool.
template <typename Op>
Result<RefImpl> make_test(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  if (has_type(kFloat8Set, node.inputs[0].type)) return make_small_test<Op>(node);
  return make_loop(node,
                   select(FloatTypes(), node.inputs[0].type, []<typename T>() -> Loop { return &loop<Op, T, Bool>; }));
}

struct BitwiseNot {
  template <typename T>
  static T apply(T x) {
    return static_cast<T>(~x);
  }
};
struct IsNaN {
  static constexpr bool kOfBits = true;  // a number of 16 bits is NaN beyond infinity's
  template <typename T>
  static bool apply(T x) {
    return std::isnan(x);
  }
};
template <bool negative, bool positive>
struct IsInf {
  template <typename T>
  static bool apply(T x) {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    return (positive & (x == kInfinity)) | (negative & (x == -kInfinity));
  }
  // Numbers of 16 bits, and infinity's bits.
  static bool of_bits(uint16_t x, uint16_t infinity) {
    return (positive & (x == infinity)) | (negative & (x == (infinity | 0x8000)));
  }
};

Result<RefImpl> make_is_inf(RefNode& node) {
  const IsInfDesc desc = read_is_inf(*node.node);
  if (desc.negative) return desc.positive ? make_test<IsInf<true, true>>(node) : make_test<IsInf<true, false>>(node);
  return desc.positive ? make_test<IsInf<false, true>>(node) : make_test<IsInf<false, false>>(node);
}

// Of domain tenon (docs/reference/internal-operators.md).
Result<RefImpl> make_activation(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const Epilogue epilogue, read_epilogue(*node.node));
  using Loop = void (*)(const Epilogue&, const void* x, void* y, int64_t count);
  const Loop chosen = select(FloatTypes(), node.inputs[0].type, []<typename T>() -> Loop {
    return [](const Epilogue& epilogue, const void* x, void* y, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        static_cast<T*>(y)[i] = T(evaluate(epilogue, static_cast<double>(static_cast<const T*>(x)[i])));
      }
    };
  });
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [epilogue, chosen, count = node.inputs[0].shape.element_count(),
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      chosen(epilogue, context.input<std::byte>(0) + begin * bytes, context.output<std::byte>(0) + begin * bytes,
             end - begin);
    });
    return {};
  };
  return impl;
}

}  // namespace

std::span<const KernelEntry> ref_unary_rows() {
  static const std::vector<KernelEntry> kRows = [] {
    std::vector<KernelEntry> rows = {
        ref_row<kBoolSet, &make_unary<Not, TypeList<Bool>>>("Not", 1),
        ref_row<kIntSet, &make_unary<BitwiseNot, IntTypes>>("BitwiseNot", 18),
        ref_row < kFloatSet | kFloat8Set,
        &make_test < IsNaN >> ("IsNaN", 9),
        ref_row < kFloatSet | kFloat8Set,
        &make_is_inf > ("IsInf", 10),
        ref_row<kFloatSet, &make_activation>("Activation", 1, kAnyVersion, "tenon"),
    };
#define TENON_ENTRY_(Name, text, op, since, ...) \
  ref_row<type_set(types_of<Unary::k##Name>()), &make_function<Unary::k##Name>>(op, since),
    // Clip has bounds that may come at run time (elementwise/reference_binary.cc).
    for (const KernelEntry& row : {TENON_FUNCTIONS(TENON_ENTRY_)})
      if (!row.op_type.empty() && row.op_type != "Clip") rows.push_back(row);
#undef TENON_ENTRY_
    return rows;
  }();
  return kRows;
}

}  // namespace tenon::cpu::ref
