// Elementwise operators of one tensor: the functions of ops/activation_list.h, and those whose result is no number.
#include <algorithm>
#include <array>
#include <cmath>

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
// Bytes of a chunk of what memory bounds.
constexpr int64_t kCheapBytes = 64 << 10;

Result<RefImpl> make_loop(RefNode& node, Loop loop, bool cheap, double alpha, double beta) {
  TENON_TRY(require_inputs(node, 1));
  TENON_UNSUPPORTED_IF(loop == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  RefImpl impl;
  impl.elementwise = true;
  const auto x_bytes = static_cast<int64_t>(data_type_size(node.inputs[0].type));
  const int64_t grain = cheap ? kCheapBytes / x_bytes : kGrain;
  impl.run = [loop, grain, alpha, beta, count = node.inputs[0].shape.element_count(), x_bytes,
              y_bytes = data_type_size(node.outputs[0].type)](KernelContext& context) -> Status {
    context.pool->parallel_for(count, grain, [&](int64_t begin, int64_t end) {
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
  if constexpr (kFunction == Unary::kAbs) {
    if constexpr (std::is_unsigned_v<T>) return void(std::copy_n(from, count, to));
    if constexpr (std::is_same_v<T, int8_t>) return integer_table().abs8(from, to, count);
    if constexpr (std::is_same_v<T, int16_t>) return integer_table().abs16(from, to, count);
    if constexpr (std::is_same_v<T, int32_t>) return integer_table().abs32(from, to, count);
    if constexpr (std::is_same_v<T, int64_t>) return integer_table().abs64(from, to, count);
  }
  if constexpr (kFunction == Unary::kNeg) {
    if constexpr (std::is_same_v<T, int8_t>) return integer_table().neg8(from, to, count);
    if constexpr (std::is_same_v<T, int16_t>) return integer_table().neg16(from, to, count);
    if constexpr (std::is_same_v<T, int32_t>) return integer_table().neg32(from, to, count);
    if constexpr (std::is_same_v<T, int64_t>) return integer_table().neg64(from, to, count);
  }
  if constexpr (kFunction == Unary::kSign) {
    if constexpr (std::is_same_v<T, uint8_t>) return integer_table().truth8(from, to, count);
    if constexpr (std::is_same_v<T, int8_t>) return integer_table().sign8(from, to, count);
    if constexpr (std::is_same_v<T, int16_t>) return integer_table().sign16(from, to, count);
    if constexpr (std::is_same_v<T, int32_t>) return integer_table().sign32(from, to, count);
    if constexpr (std::is_same_v<T, int64_t>) return integer_table().sign64(from, to, count);
  }
  if constexpr (std::is_same_v<T, double>) {
    if constexpr (kFunction == Unary::kSqrt) return double_table().roots(from, to, count);
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
  return make_loop(node, chosen, row_of(unary.function).cheap, unary.alpha, unary.beta);
}

// --- others ---

// A loop over the bytes of a tensor.
template <auto kLoop>
Result<RefImpl> make_bytes(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [bytes = static_cast<int64_t>(node.inputs[0].size_bytes())](KernelContext& context) -> Status {
    context.pool->parallel_for(bytes, kCheapBytes, [&](int64_t begin, int64_t end) {
      (integer_table().*kLoop)(context.input<uint8_t>(0) + begin, context.output<uint8_t>(0) + begin, end - begin);
    });
    return {};
  };
  return impl;
}

// IsNaN, or IsInf of some signs.
struct FloatTest {
  bool nan = false, negative = false, positive = false;

  bool holds(float x) const { return nan ? std::isnan(x) : std::isinf(x) && (std::signbit(x) ? negative : positive); }
};

// The test of floats as one of their bits, whose sign is the highest one: without it infinity is the largest number,
// and a NaN lies beyond.
template <typename U>
struct BitTest {
  BitTest(const FloatTest& test, U infinity) {
    constexpr U kSign = U{1} << (8 * sizeof(U) - 1);
    mask = static_cast<U>(kSign - 1);
    low = infinity;
    if (test.nan) {
      ++low;
      span = mask - low;
    } else if (!test.negative || !test.positive) {
      mask = test.negative || test.positive ? ~U{0} : 0;  // nothing is infinity without its bits
      if (test.negative) low |= kSign;
    }
  }
  U mask = 0, low = 0, span = 0;
};

template <auto kLoop, typename U>
Result<RefImpl> make_bit_test(const RefNode& node, const BitTest<U>& test) {
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [test, count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    context.pool->parallel_for(count, kCheapBytes / static_cast<int64_t>(sizeof(U)), [&](int64_t begin, int64_t end) {
      (integer_table().*kLoop)(context.input<U>(0) + begin, test.mask, test.low, test.span,
                               context.output<uint8_t>(0) + begin, end - begin);
    });
    return {};
  };
  return impl;
}

// 8-bit floats: the answers for all codes.
Result<RefImpl> make_small_test(const RefNode& node, const FloatTest& test) {
  std::array<uint8_t, 256> answers{};
  const std::array<float, 256>& values = small_values(node.inputs[0].type);
  for (size_t code = 0; code < answers.size(); ++code) answers[code] = test.holds(values[code]) ? 1 : 0;
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [answers, count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    const auto* x = context.input<uint8_t>(0);
    for (int64_t i = 0; i < count; ++i) context.output<uint8_t>(0)[i] = answers[x[i]];
    return {};
  };
  return impl;
}

Result<RefImpl> make_test(RefNode& node, const FloatTest& test) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  switch (node.inputs[0].type) {
    case DataType::kFloat:
      return make_bit_test<&IntegerTable::in_range32>(node, BitTest<uint32_t>(test, 0x7f800000));
    case DataType::kDouble:
      return make_bit_test<&IntegerTable::in_range64>(node, BitTest<uint64_t>(test, 0x7ff0000000000000));
    case DataType::kFloat16:
      return make_bit_test<&IntegerTable::in_range16>(node, BitTest<uint16_t>(test, 0x7c00));
    case DataType::kBfloat16:
      return make_bit_test<&IntegerTable::in_range16>(node, BitTest<uint16_t>(test, 0x7f80));
    default:
      return make_small_test(node, test);
  }
}

Result<RefImpl> make_is_nan(RefNode& node) { return make_test(node, {.nan = true}); }

Result<RefImpl> make_is_inf(RefNode& node) {
  const IsInfDesc desc = read_is_inf(*node.node);
  return make_test(node, {.negative = desc.negative, .positive = desc.positive});
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
        ref_row<kBoolSet, &make_bytes<&IntegerTable::not8>>("Not", 1),
        ref_row<kIntSet, &make_bytes<&IntegerTable::complement8>>("BitwiseNot", 18),
        ref_row < kFloatSet | kFloat8Set,
        &make_is_nan > ("IsNaN", 9),
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
