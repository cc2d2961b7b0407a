// Elementwise operators of several tensors with broadcasting: arithmetic, comparisons, logic, Where, Clip.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "ep/cpu/ops/elementwise/broadcast.h"
#include "ep/cpu/ops/loops.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/simd/doubles.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/integers.h"
#include "ops/elementwise.h"

namespace tenon::cpu::ref {

namespace {

// Elements of a chunk that is worth claiming.
constexpr int64_t kGrain = 16384;

// Elements of a row with a few others that are worth copying.
constexpr int64_t kGathered = 64;

// Returns false when the data cannot be computed with (an integer division by zero). y may be a or b.
using Loop = bool (*)(const void* a, const void* b, void* y, int64_t count, int64_t a_step, int64_t b_step);

template <typename Op, typename A, typename B, typename Y>
inline bool steps(const A* a, const B* b, Y* y, int64_t count, int64_t a_step, int64_t b_step) {
  bool ok = true;
  // Arithmetic on halves has fast kernels: here vectors would only take room.
  constexpr bool kSmall = is_half<A> && requires { Op::kDouble; } && is_half<Y>;
  // y is a or b at most, never shifted against them.
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (kSmall) asm("");
    y[i] = Y(Op::apply(static_cast<Compute<A>>(a[i * a_step]), static_cast<Compute<B>>(b[i * b_step]), ok));
  }
  return ok;
}

// The types that models compute indices, masks and comparisons with: their loops are worth the room of several forms.
template <typename T>
inline constexpr bool is_common =
    std::is_same_v<T, float> || std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t> || std::is_same_v<T, Bool>;

// Whole numbers of at least 0 as one exponent for all: y = a^exponent. Integers wrap around. y may be a.
template <typename U>
void raise(const U* a, uint64_t exponent, U* y, int64_t count) {
  if (exponent == 0) {
    std::fill_n(y, count, U(1));
    return;
  }
  constexpr int64_t kPiece = 512;
  std::array<U, kPiece> squares;
  const auto times = [](const U* x, const U* by, U* to, int64_t n) {
    if constexpr (sizeof(U) == 8) {
      integer_table().wide[static_cast<int>(WideOp::kMul)](reinterpret_cast<const int64_t*>(x),
                                                           reinterpret_cast<const int64_t*>(by), 1, to, n);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<U>(uint32_t{x[i]} * by[i]);
    }
  };
  const int squared = std::countr_zero(exponent);
  for (int64_t at = 0; at < count; at += kPiece) {
    const int64_t n = std::min(kPiece, count - at);
    const U* base = a + at;
    U* const to = y + at;
    for (int i = 0; i < squared; ++i, base = to) times(base, base, to, n);
    uint64_t rest = exponent >> squared;  // odd
    if (rest != 1) std::copy_n(base, n, squares.begin());
    if (base != to) std::copy_n(base, n, to);
    while ((rest >>= 1) != 0) {
      times(squares.data(), squares.data(), squares.data(), n);
      if ((rest & 1) != 0) times(to, squares.data(), to, n);
    }
  }
}

// y = a op b by a loop of vectors, of whatever set the machine has; b has stride 0 or 1.
template <typename T>
using Rows = void (*)(const T* a, const T* b, int64_t b_step, void* y, int64_t count);

// `mirrored` computes the same with its operands exchanged; if there is none, a single left operand becomes a row.
template <typename T>
void run_rows(Rows<T> rows, Rows<T> mirrored, const void* a, const void* b, void* y, size_t y_bytes, int64_t count,
              int64_t a_step, int64_t b_step) {
  const T* const left = static_cast<const T*>(a);
  const T* const right = static_cast<const T*>(b);
  if (a_step == 1 || count <= 1) return rows(left, right, b_step, y, count);
  if (mirrored != nullptr) return mirrored(right, left, 0, y, count);
  constexpr int64_t kPiece = 512;  // stays in the first cache
  alignas(64) std::array<T, kPiece> same;
  std::fill_n(same.begin(), std::min(kPiece, count), *left);
  for (int64_t at = 0; at < count; at += kPiece)
    rows(same.data(), right + at, 1, static_cast<std::byte*>(y) + at * y_bytes, std::min(kPiece, count - at));
}

struct Add;
struct Sub;
struct Mul;

// Whether an operator has Rows for a type, and those.
template <typename Op, typename T>
constexpr bool has_rows() {
  constexpr bool kSigned = std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>;
  constexpr bool kWraps = std::is_same_v<Op, Add> || std::is_same_v<Op, Sub> || std::is_same_v<Op, Mul>;
  if constexpr (std::is_same_v<T, double>) return requires { Op::kDouble; };
  if constexpr (std::is_same_v<T, Bool>) return requires { Op::kLogic; };
  if constexpr (requires { Op::kWide; }) {
    constexpr bool kCompares = static_cast<int>(Op::kWide) >= kWideNumberOpCount;
    if (std::is_same_v<T, float>) return kCompares;
    return std::is_integral_v<T> && (sizeof(T) == 8 || (sizeof(T) == 4 && !kCompares)) && (kSigned || kWraps);
  }
  return false;
}
template <typename Op, typename T>
auto rows_of() {
  if constexpr (std::is_same_v<T, double>) {
    return double_table().binary[static_cast<int>(Op::kDouble)];
  } else if constexpr (std::is_same_v<T, Bool>) {
    return integer_table().logic[Op::kLogic];
  } else if constexpr (std::is_same_v<T, float>) {
    return integer_table().compare_float[static_cast<int>(Op::kWide) - kWideNumberOpCount];
  } else if constexpr (sizeof(T) == 8) {
    return integer_table().wide[static_cast<int>(Op::kWide)];
  } else {
    return integer_table().wide32[static_cast<int>(Op::kWide)];
  }
}

// Shifts of numbers without a sign, whose operands of one value become rows.
template <typename T>
void run_shift(bool left, const T* a, const T* b, T* y, int64_t count, int64_t a_step, int64_t b_step) {
  const auto rows = [&](const T* x, const T* by, T* to, int64_t n) {
    if constexpr (sizeof(T) == 1) integer_table().shift8(x, by, left, to, n);
    if constexpr (sizeof(T) == 2) integer_table().shift16(x, by, left, to, n);
    if constexpr (sizeof(T) == 4) integer_table().shift32(x, by, left, to, n);
    if constexpr (sizeof(T) == 8) integer_table().shift64(x, by, left, to, n);
  };
  if (count <= 1 || (a_step == 1 && b_step == 1)) return rows(a, b, y, count);
  constexpr int64_t kPiece = 256;
  alignas(64) std::array<T, kPiece> same;
  std::fill_n(same.begin(), std::min(kPiece, count), a_step == 0 ? *a : *b);
  for (int64_t at = 0; at < count; at += kPiece)
    rows(a_step == 0 ? same.data() : a + at, b_step == 0 ? same.data() : b + at, y + at, std::min(kPiece, count - at));
}

// Op::apply(a, b, &ok) on Compute<A>, Compute<B>, or loops of vectors.
template <typename Op, typename A, typename B, typename Y>
bool loop(const void* a, const void* b, void* y, int64_t count, int64_t a_step, int64_t b_step) {
  const A* left = static_cast<const A*>(a);
  const B* right = static_cast<const B*>(b);
  Y* to = static_cast<Y*>(y);
  if constexpr (std::is_same_v<A, B> && has_rows<Op, A>()) {
    const auto rows = rows_of<Op, A>();
    auto mirrored = rows;
    mirrored = nullptr;
    if constexpr (requires { typename Op::Mirror; }) mirrored = rows_of<typename Op::Mirror, A>();
    run_rows(rows, mirrored, a, b, y, sizeof(Y), count, a_step, b_step);
    return true;
  }
  if constexpr (std::is_same_v<A, B> && std::is_unsigned_v<A> && requires { Op::kShiftsLeft; }) {
    run_shift(Op::kShiftsLeft, left, right, to, count, a_step, b_step);
    return true;
  }
  if constexpr (std::is_same_v<A, int32_t> && std::is_same_v<B, int32_t> && requires { Op::kDivides; }) {
    if (a_step == 1) return integer_table().divide32(left, right, b_step, to, count);
  }
  if constexpr (requires { Op::kRaises; } && std::is_integral_v<A> && std::is_integral_v<B>) {
    if (a_step == 1 && b_step == 0 && count > 0 && *right >= B(0)) {
      using U = std::make_unsigned_t<A>;
      raise(reinterpret_cast<const U*>(left), static_cast<uint64_t>(*right), reinterpret_cast<U*>(to), count);
      return true;
    }
  }
  if constexpr (requires { Op::kRaises; } && std::is_same_v<A, double> && std::is_floating_point_v<Compute<B>>) {
    if (a_step == 1 && b_step == 0 && count > 0 && static_cast<double>(static_cast<Compute<B>>(*right)) == 2) {
      double_table().binary[static_cast<int>(DoubleOp::kMul)](left, left, 1, to, count);
      return true;
    }
  }
  if constexpr (is_common<A> && std::is_same_v<A, B>) {
    // A row of one element may have two strides of 0.
    if ((a_step != 0 && b_step != 0) || count == 1) return steps<Op>(left, right, to, count, 1, 1);
    if (a_step != 0) return steps<Op>(left, right, to, count, 1, 0);
    if constexpr (requires { typename Op::Mirror; }) {
      return steps<typename Op::Mirror>(right, left, to, count, 1, 0);
    } else {
      return steps<Op>(left, right, to, count, 0, 1);
    }
  } else {
    return steps<Op>(left, right, to, count, a_step, b_step);
  }
}

template <typename T>
using Unsigned = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;

// Integers wrap around.
#define TENON_ARITHMETIC_(Name, op, ...)                                                 \
  struct Name {                                                                          \
    static constexpr WideOp kWide = WideOp::k##Name;                                     \
    static constexpr DoubleOp kDouble = DoubleOp::k##Name;                               \
    __VA_ARGS__                                                                          \
    template <typename T>                                                                \
    static T apply(T a, T b, bool&) {                                                    \
      return static_cast<T>(static_cast<Unsigned<T>>(a) op static_cast<Unsigned<T>>(b)); \
    }                                                                                    \
  };
TENON_ARITHMETIC_(Add, +, using Mirror = Add;)
TENON_ARITHMETIC_(Sub, -)
TENON_ARITHMETIC_(Mul, *, using Mirror = Mul;)
#undef TENON_ARITHMETIC_

struct Div {
  static constexpr bool kDivides = true;
  static constexpr DoubleOp kDouble = DoubleOp::kDiv;
  template <typename T>
  static T apply(T a, T b, bool& ok) {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;
    } else {
      if constexpr (std::is_same_v<T, int32_t>) {
        // A quotient of doubles is cut off to the same integer, and compilers make vectors of it.
        ok &= b != 0;
        const double quotient = static_cast<double>(a) / static_cast<double>(b != 0 ? b : 1);
        // The lowest value divided by -1 overflows: it wraps to itself.
        return static_cast<T>(quotient == 2147483648.0 ? -2147483648.0 : quotient);
      }
      if (b == T(0)) {
        ok = false;
        return T(0);
      }
      if constexpr (std::is_signed_v<T>) {
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
    if constexpr (std::is_same_v<T, float>) {
      // Where the quotient is small, its product with b is exact in double, and at most one off.
      const double x = a, y = b, quotient = x / y;
      if (!(std::abs(quotient) < 0x1p28) || std::isinf(y)) return std::fmod(a, b);
      double rest = x - static_cast<double>(static_cast<int32_t>(quotient)) * y;
      if (rest != 0 && (rest < 0) != (x < 0)) rest += (y < 0) == (x < 0) ? y : -y;
      return std::copysign(static_cast<float>(rest), a);
    } else if constexpr (std::is_floating_point_v<T>) {
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
  static constexpr bool kRaises = true;
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
      // float32 has a function of its own, which is twice as fast and rounds as well.
      if constexpr (std::is_same_v<A, float> && std::is_same_v<B, float>) return std::pow(a, b);
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
  using Mirror = Max;
  static constexpr WideOp kWide = WideOp::kMax;
  static constexpr DoubleOp kDouble = DoubleOp::kMax;
  template <typename T>
  static T apply(T a, T b, bool&) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  using Mirror = Min;
  static constexpr WideOp kWide = WideOp::kMin;
  static constexpr DoubleOp kDouble = DoubleOp::kMin;
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
  static constexpr bool kShiftsLeft = true;
  template <typename T>
  static T apply(T a, T b, bool&) {
    const bool inside = b >= T(0) && static_cast<uint64_t>(b) < sizeof(T) * 8;
    return inside ? static_cast<T>(static_cast<uint64_t>(a) << static_cast<uint64_t>(b)) : T(0);
  }
};
struct ShiftRight {
  static constexpr bool kShiftsLeft = false;
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
#undef TENON_BINARY_
#define TENON_LOGIC_(Name, index, expression) \
  struct Name {                               \
    static constexpr int kLogic = index;      \
    using Mirror = Name;                      \
    template <typename T>                     \
    static T apply(T a, T b, bool&) {         \
      return static_cast<T>(expression);      \
    }                                         \
  };
TENON_LOGIC_(And, 0, a&& b)
TENON_LOGIC_(Or, 1, a || b)
TENON_LOGIC_(Xor, 2, a != b)
#undef TENON_LOGIC_
struct Less;
struct LessOrEqual;
struct Greater;
struct GreaterOrEqual;
#define TENON_COMPARE_(Name, op, Mirrored)                 \
  struct Name {                                            \
    static constexpr WideOp kWide = WideOp::k##Name;       \
    static constexpr DoubleOp kDouble = DoubleOp::k##Name; \
    using Mirror = Mirrored;                               \
    template <typename T>                                  \
    static bool apply(T a, T b, bool&) {                   \
      return a op b;                                       \
    }                                                      \
  };
TENON_COMPARE_(Equal, ==, Equal)
TENON_COMPARE_(Less, <, Greater)
TENON_COMPARE_(LessOrEqual, <=, GreaterOrEqual)
TENON_COMPARE_(Greater, >, Less)
TENON_COMPARE_(GreaterOrEqual, >=, LessOrEqual)
#undef TENON_COMPARE_

// y = a op b for the elements of a broadcast; a, b and y in bytes.
struct PairLoop {
  Loop loop = nullptr;
  nn::BroadcastWalk walk;
  size_t a_bytes = 0, b_bytes = 0, y_bytes = 0;

  bool run(const std::byte* a, const std::byte* b, std::byte* y, int64_t begin, int64_t end) const {
    bool ok = true;
    if (walk.has_short_rows(kGathered) && a_bytes <= 8 && b_bytes <= 8) {
      for (nn::SpreadRows rows(walk, {{a, a_bytes}, {b, b_bytes}}, begin, end); rows.next();)
        ok &= loop(rows.elements<void>(0), rows.elements<void>(1), y + rows.at() * y_bytes, rows.count(), 1, 1);
      return ok;
    }
    // Loops take no two strides of 0: both operands broadcast to a third one, or a row is one element.
    const bool same = walk.row_stride(0) == 0 && walk.row_stride(1) == 0;
    walk.pieces(begin, end, [&](int64_t at, const auto& offset, int64_t n) {
      std::byte* const to = y + at * y_bytes;
      ok &= loop(a + offset[0] * a_bytes, b + offset[1] * b_bytes, to, same ? 1 : n, same ? 1 : walk.row_stride(0),
                 same ? 1 : walk.row_stride(1));
      for (int64_t i = 1; same && i < n; ++i) std::memcpy(to + i * y_bytes, to, y_bytes);
    });
    return ok;
  }
};

Result<RefImpl> make_pair(RefNode& node, Loop loop, std::string_view problem) {
  TENON_TRY(require_inputs(node, 2));
  TENON_UNSUPPORTED_IF(loop == nullptr, "{} is not computed on {} and {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type), data_type_name(node.inputs[1].type));
  TENON_TRY_ASSIGN(const Shape out, broadcast_shape(node.inputs[0].shape, node.inputs[1].shape));
  TENON_TRY(require_output(node, 0, out));
  PairLoop pair{loop,
                {},
                data_type_size(node.inputs[0].type),
                data_type_size(node.inputs[1].type),
                data_type_size(node.outputs[0].type)};
  TENON_TRY_ASSIGN(pair.walk, nn::BroadcastWalk::create(out, {&node.inputs[0].shape, &node.inputs[1].shape}));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [pair, problem](KernelContext& context) -> Status {
    std::atomic<bool> ok{true};
    context.pool->parallel_for(pair.walk.count(), kGrain, [&](int64_t begin, int64_t end) {
      if (!pair.run(context.input<std::byte>(0), context.input<std::byte>(1), context.output<std::byte>(0), begin, end))
        ok.store(false, std::memory_order_relaxed);
    });
    return ok.load(std::memory_order_relaxed) ? Status() : invalid_argument("{}", problem);
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

// The loop of an operator whose operands have one type, which is the result's too unless that is Y.
using ChooseLoop = Loop (*)(DataType type);
template <typename Op, typename Types, typename Y = void>
Loop choose_loop(DataType type) {
  return select(Types(), type,
                []<typename T>() -> Loop { return &loop<Op, T, T, std::conditional_t<std::is_void_v<Y>, T, Y>>; });
}

Result<RefImpl> make_same_types(RefNode& node, ChooseLoop choose) {
  TENON_TRY(require_inputs(node, 2));
  TENON_TRY(same_types(node, 0, 2));
  return make_pair(node, choose(node.inputs[0].type), kZeroDivision);
}

template <typename Op, typename Types>
Result<RefImpl> make_arithmetic(RefNode& node) {
  return make_same_types(node, &choose_loop<Op, Types>);
}

template <typename Op, typename Types>
Result<RefImpl> make_compare(RefNode& node) {
  return make_same_types(node, &choose_loop<Op, Types, Bool>);
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

template <Binary kOp>
bool float_loop(const void* a, const void* b, void* y, int64_t count, int64_t a_step, int64_t b_step) {
  eltwise_table().binary[static_cast<int>(kOp)](static_cast<const float*>(a), a_step, static_cast<const float*>(b),
                                                b_step, static_cast<float*>(y), count);
  return true;
}

// Max, Min, Sum, Mean of any number of tensors: pairwise into the output.
Result<RefImpl> make_variadic(RefNode& node, ChooseLoop choose, Loop of_floats, bool mean) {
  TENON_TRY(require_inputs(node, node.inputs.size()));
  TENON_INVALID_IF(node.inputs.empty(), "{} needs an input.", node.node->op_type);
  TENON_TRY(same_types(node, 0, node.inputs.size()));
  const DataType type = node.inputs[0].type;
  const size_t bytes = data_type_size(type);
  Loop chosen = choose(type);
  if (node.inputs.size() == 2 && !mean) return make_pair(node, chosen, "");
  if (type == DataType::kFloat) chosen = of_floats;
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type, data_type_name(type));
  Shape out = node.inputs[0].shape;
  for (const TensorSpec& spec : node.inputs) {
    TENON_TRY_ASSIGN(out, broadcast_shape(out, spec.shape));
  }
  TENON_TRY(require_output(node, 0, out));
  // The first two operands, and then the output with each further one.
  std::vector<PairLoop> pairs;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const Shape& before = i == 1 ? node.inputs[0].shape : out;
    TENON_TRY_ASSIGN(const nn::BroadcastWalk walk, nn::BroadcastWalk::create(out, {&before, &node.inputs[i].shape}));
    pairs.push_back({chosen, walk, bytes, bytes, bytes});
  }
  using Scale = void (*)(void*, int64_t, double);
  const Scale scale = !mean ? nullptr : select(FloatTypes(), type, []<typename T>() -> Scale {
    return [](void* y, int64_t count, double inputs) {
      if constexpr (std::is_same_v<T, float>) {
        const auto divisor = static_cast<float>(inputs);
        float_loop<Binary::kDiv>(y, &divisor, y, count, 1, 0);
      } else {
        for (int64_t i = 0; i < count; ++i)
          static_cast<T*>(y)[i] = T(static_cast<double>(static_cast<T*>(y)[i]) / inputs);
      }
    };
  });
  RefImpl impl;
  impl.run = [scale, pairs, bytes, total = out.element_count(),
              count = node.inputs.size()](KernelContext& context) -> Status {
    auto* const y = context.output<std::byte>(0);
    context.pool->parallel_for(total, kGrain, [&](int64_t begin, int64_t end) {
      if (pairs.empty())
        std::memcpy(y + begin * bytes, context.input<std::byte>(0) + begin * bytes, (end - begin) * bytes);
      for (size_t i = 0; i < pairs.size(); ++i)
        pairs[i].run(i == 0 ? context.input<std::byte>(0) : y, context.input<std::byte>(i + 1), y, begin, end);
      if (scale != nullptr) scale(y + begin * bytes, end - begin, static_cast<double>(count));
    });
    return {};
  };
  return impl;
}

template <typename Op, typename Types, bool mean = false>
Result<RefImpl> make_variadic(RefNode& node) {
  constexpr Binary kOp = std::is_same_v<Op, Max> ? Binary::kMax : std::is_same_v<Op, Min> ? Binary::kMin : Binary::kAdd;
  return make_variadic(node, &choose_loop<Op, Types>, &float_loop<kOp>, mean);
}

using SelectLoop = void (*)(const uint8_t* condition, const void* a, const void* b, void* y, int64_t count,
                            int64_t condition_step, int64_t a_step, int64_t b_step);

template <typename T,
          void (*IntegerTable::*kLoop)(const uint8_t*, int64_t, const T*, int64_t, const T*, int64_t, T*, int64_t)>
void where_loop(const uint8_t* condition, const void* a, const void* b, void* y, int64_t count, int64_t condition_step,
                int64_t a_step, int64_t b_step) {
  (integer_table().*kLoop)(condition, condition_step, static_cast<const T*>(a), a_step, static_cast<const T*>(b),
                           b_step, static_cast<T*>(y), count);
}

// complex128
void where_pairs(const uint8_t* condition, const void* a, const void* b, void* y, int64_t count, int64_t condition_step,
                 int64_t a_step, int64_t b_step) {
  using Pair = std::array<uint64_t, 2>;
  for (int64_t i = 0; i < count; ++i)
    static_cast<Pair*>(y)[i] = condition[i * condition_step] != 0 ? static_cast<const Pair*>(a)[i * a_step]
                                                                  : static_cast<const Pair*>(b)[i * b_step];
}

Result<RefImpl> make_where(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  TENON_TRY(same_types(node, 1, 2));
  const size_t bytes = data_type_size(node.inputs[1].type);
  SelectLoop chosen = nullptr;
  switch (bytes) {
    case 1:
      chosen = &where_loop<uint8_t, &IntegerTable::where8>;
      break;
    case 2:
      chosen = &where_loop<uint16_t, &IntegerTable::where16>;
      break;
    case 4:
      chosen = &where_loop<uint32_t, &IntegerTable::where32>;
      break;
    case 8:
      chosen = &where_loop<uint64_t, &IntegerTable::where64>;
      break;
    case 16:
      chosen = &where_pairs;
      break;
    default:
      return unsupported("Where is not computed on {}.", data_type_name(node.inputs[1].type));
  }
  TENON_TRY_ASSIGN(Shape out, broadcast_shape(node.inputs[1].shape, node.inputs[2].shape));
  TENON_TRY_ASSIGN(out, broadcast_shape(out, node.inputs[0].shape));
  TENON_TRY(require_output(node, 0, out));
  TENON_TRY_ASSIGN(
      const nn::BroadcastWalk walk,
      nn::BroadcastWalk::create(out, {&node.inputs[0].shape, &node.inputs[1].shape, &node.inputs[2].shape}));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [chosen, bytes, walk](KernelContext& context) -> Status {
    context.pool->parallel_for(walk.count(), kGrain, [&](int64_t begin, int64_t end) {
      if (walk.has_short_rows(kGathered) && bytes <= 8) {
        const void* const* const x = context.inputs.data();
        for (nn::SpreadRows rows(walk, {{x[0], 1}, {x[1], bytes}, {x[2], bytes}}, begin, end); rows.next();)
          chosen(rows.elements<uint8_t>(0), rows.elements<void>(1), rows.elements<void>(2),
                 context.output<std::byte>(0) + rows.at() * bytes, rows.count(), 1, 1, 1);
        return;
      }
      walk.pieces(begin, end, [&](int64_t at, const auto& offset, int64_t n) {
        chosen(context.input<uint8_t>(0) + offset[0], context.input<std::byte>(1) + offset[1] * bytes,
               context.input<std::byte>(2) + offset[2] * bytes, context.output<std::byte>(0) + at * bytes, n,
               walk.row_stride(0), walk.row_stride(1), walk.row_stride(2));
      });
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
  TENON_INDEPENDENT_LOOP
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
  impl.run = [chosen, clip, count = node.inputs[0].shape.element_count(),
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      chosen(context.input<std::byte>(0) + begin * bytes, context.input<void>(1), context.input<void>(2),
             context.output<std::byte>(0) + begin * bytes, end - begin, clip);
    });
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
