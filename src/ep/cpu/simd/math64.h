// Elementary functions of a vector of float64. NaN in gives NaN out. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/f8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

using DF64 = hn::CappedTag<double, 8>;
using DI64 = hn::RebindToSigned<DF64>;
using VF64 = hn::Vec<DF64>;
constexpr int64_t kDoubles = HWY_MAX_BYTES >= 64 ? 8 : HWY_MAX_BYTES / 8;

// e^r for a number within half a binary digit of 0.
TENON_INLINE VF64 small_exponential(VF64 r) {
  const DF64 d;
  constexpr double kSeries[] = {
      1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
      1.0 / 720,        1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1.0,         1.0};
  VF64 sum = hn::Set(d, kSeries[0]);
#pragma GCC unroll 16
  for (int i = 1; i < 14; ++i) sum = hn::MulAdd(sum, r, hn::Set(d, kSeries[i]));
  return sum;
}

// x - k * ln 2
TENON_INLINE VF64 without_powers(VF64 x, VF64 k) {
  const DF64 d;
  const VF64 r = hn::NegMulAdd(k, hn::Set(d, 6.93147180369123816490e-01), x);
  return hn::NegMulAdd(k, hn::Set(d, 1.90821492927058770002e-10), r);
}

// 2^k for a whole number: with 2^52 and its half added, its last bits are k.
TENON_INLINE VF64 power_of_two(VF64 k) {
  const DF64 d;
  return hn::BitCast(d, hn::ShiftLeft<52>(hn::BitCast(DI64(), hn::Add(k, hn::Set(d, 0x1.8p52 + 1023)))));
}

// e^x, by two factors of about 2^(k / 2), so that results below the smallest normal number are rounded once, and those
// beyond the largest become infinity.
TENON_INLINE VF64 exponential(VF64 x) {
  const DF64 d;
  const VF64 bounded = hn::Max(hn::Min(x, hn::Set(d, 710.0)), hn::Set(d, -746.0));
  const VF64 k = hn::Round(hn::Mul(bounded, hn::Set(d, 1.4426950408889634)));
  const VF64 half = hn::Round(hn::Mul(k, hn::Set(d, 0.5)));
  const VF64 result = hn::Mul(small_exponential(without_powers(bounded, k)), power_of_two(half));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Mul(result, power_of_two(hn::Sub(k, half))));
}

// A quotient of polynomials near 0, where 1 - e^-2|x| would lose places, else that over 1 + e^-2|x|.
TENON_INLINE VF64 hyperbolic_tangent(VF64 x) {
  const DF64 d;
  const VF64 one = hn::Set(d, 1.0), magnitude = hn::Abs(x), e = exponential(hn::Mul(magnitude, hn::Set(d, -2.0)));
  const VF64 s = hn::Mul(x, x);
  VF64 above = hn::MulAdd(hn::Add(s, hn::Set(d, 378.0)), s, hn::Set(d, 17325.0));
  VF64 below = hn::MulAdd(hn::MulAdd(hn::Set(d, 28.0), s, hn::Set(d, 3150.0)), s, hn::Set(d, 62370.0));
  above = hn::MulAdd(above, s, hn::Set(d, 135135.0));
  below = hn::MulAdd(below, s, hn::Set(d, 135135.0));
  const auto near = hn::Lt(magnitude, hn::Set(d, 0.35));
  const VF64 top = hn::IfThenElse(near, hn::Mul(magnitude, above), hn::Sub(one, e));
  return hn::CopySign(hn::Div(top, hn::IfThenElse(near, below, hn::Add(one, e))), x);
}

// 1 / (1 + e^-x)
TENON_INLINE VF64 sigmoid(VF64 x) {
  const VF64 one = hn::Set(DF64(), 1.0);
  return hn::Div(one, hn::Add(one, exponential(hn::Neg(x))));
}

// The natural logarithm: of m in [sqrt(1/2), sqrt(2)), where x = m * 2^k, by a series in (m - 1) / (m + 1).
TENON_INLINE VF64 logarithm(VF64 x) {
  const DF64 d;
  const hn::RebindToUnsigned<DF64> u;
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcd, kMantissa = (uint64_t{1} << 52) - 1, kOneExponent = 1023;
  const auto subnormal = hn::Lt(x, hn::Set(d, 0x1p-1022));
  const VF64 scaled = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 0x1p54)), x);
  const auto above = hn::Sub(hn::BitCast(u, scaled), hn::Set(u, kRootHalf));
  const VF64 m = hn::BitCast(d, hn::Add(hn::And(above, hn::Set(u, kMantissa)), hn::Set(u, kRootHalf)));
  // With the bits of 2^52 above it a small integer is 2^52 more.
  const auto exponent = hn::ShiftRight<52>(hn::Add(above, hn::Set(u, kOneExponent << 52)));
  const VF64 shifted = hn::BitCast(d, hn::Or(exponent, hn::BitCast(u, hn::Set(d, 0x1p52))));
  const VF64 k = hn::Sub(shifted, hn::IfThenElse(subnormal, hn::Set(d, 0x1p52 + 1023 + 54), hn::Set(d, 0x1p52 + 1023)));
  const VF64 f = hn::Sub(m, hn::Set(d, 1.0)), s = hn::Div(f, hn::Add(f, hn::Set(d, 2.0))), z = hn::Mul(s, s);
  constexpr double kSeries[] = {1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                                2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                                6.666666666666735130e-01};
  VF64 sum = hn::Set(d, kSeries[0]);
#pragma GCC unroll 8
  for (int i = 1; i < 7; ++i) sum = hn::MulAdd(sum, z, hn::Set(d, kSeries[i]));
  const VF64 half_square = hn::Mul(hn::Mul(hn::Set(d, 0.5), f), f);
  const VF64 low = hn::MulAdd(k, hn::Set(d, 1.90821492927058770002e-10), hn::Mul(s, hn::MulAdd(sum, z, half_square)));
  const VF64 y = hn::MulAdd(k, hn::Set(d, 6.93147180369123816490e-01), hn::Sub(f, hn::Sub(half_square, low)));
  const VF64 finite = hn::IfThenElse(hn::Lt(x, hn::Set(d, __builtin_huge_val())), y, x);  // else infinity or NaN
  const VF64 positive = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, __builtin_nan("")), finite);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -__builtin_huge_val()), positive);
}

// x less the nearest multiple of pi / 2, as a sum of two numbers, and the bits of that multiple's number.
struct QuarterTurns64 {
  VF64 high, low;
  hn::Vec<DI64> number;
};

// For |x| <= kFarthest64: as x less a multiple of the first part of pi / 2 is exact.
constexpr double kFarthest64 = 0x1p40;
TENON_INLINE QuarterTurns64 quarter_turns(VF64 x) {
  const DF64 d;
  const VF64 magic = hn::Set(d, 0x1.8p52), second = hn::Set(d, 6.123233995736766036e-17);
  const VF64 t = hn::MulAdd(x, hn::Set(d, 6.366197723675813431e-01), magic), n = hn::Sub(t, magic);
  const VF64 first = hn::NegMulAdd(n, hn::Set(d, 1.570796326794896558), x), more = hn::Mul(n, second);
  // The difference of two numbers of which neither is always the larger one, and what its rounding loses.
  const VF64 high = hn::Sub(first, more), taken = hn::Sub(high, first);
  const VF64 lost = hn::Sub(hn::Sub(first, hn::Sub(high, taken)), hn::Add(more, taken));
  const VF64 low = hn::Sub(lost, hn::MulSub(n, second, more));
  return {high, hn::NegMulAdd(n, hn::Set(d, -1.497384904859169777e-33), low), hn::BitCast(DI64(), t)};
}

TENON_INLINE VF64 small_sine(const QuarterTurns64& q) {
  const DF64 d;
  constexpr double kSeries[] = {1.58969099521155010221e-10,  -2.50507602534068634195e-08, 2.75573137070700676789e-06,
                                -1.98412698298579493134e-04, 8.33333333332248946124e-03,  -1.66666666666666324348e-01};
  const VF64 z = hn::Mul(q.high, q.high);
  VF64 sum = hn::Set(d, kSeries[0]);
#pragma GCC unroll 8
  for (int i = 1; i < 6; ++i) sum = hn::MulAdd(sum, z, hn::Set(d, kSeries[i]));
  // The sign is that of -0 too.
  return hn::CopySign(hn::Add(q.high, hn::MulAdd(sum, hn::Mul(z, q.high), q.low)), q.high);
}

TENON_INLINE VF64 small_cosine(const QuarterTurns64& q) {
  const DF64 d;
  constexpr double kSeries[] = {-1.13596475577881948265e-11, 2.08757232129817482790e-09,  -2.75573143513906633035e-07,
                                2.48015872894767294178e-05,  -1.38888888888741095749e-03, 4.16666666666666019037e-02};
  const VF64 z = hn::Mul(q.high, q.high), one = hn::Set(d, 1.0), half = hn::Mul(z, hn::Set(d, 0.5));
  VF64 sum = hn::Set(d, kSeries[0]);
#pragma GCC unroll 8
  for (int i = 1; i < 6; ++i) sum = hn::MulAdd(sum, z, hn::Set(d, kSeries[i]));
  const VF64 rough = hn::Sub(one, half), lost = hn::Sub(hn::Sub(one, rough), half);
  return hn::Add(rough, hn::Add(lost, hn::NegMulAdd(q.high, q.low, hn::Mul(hn::Mul(sum, z), z))));
}

// Whether quarter_turns() serves all numbers of a vector. Without fused products it would lose the places it needs.
TENON_INLINE bool are_near(VF64 x) {
  return HWY_NATIVE_FMA != 0 && hn::AllTrue(DF64(), hn::Le(hn::Abs(x), hn::Set(DF64(), kFarthest64)));
}

// Number by number.
template <typename Function>
TENON_INLINE VF64 by_number(VF64 x, Function function) {
  alignas(64) double lanes[kDoubles];
  hn::Store(x, DF64(), lanes);
#pragma GCC unroll 1
  for (double& lane : lanes) lane = function(lane);
  return hn::Load(DF64(), lanes);
}

// The sine of x + turns * pi / 2, for near numbers.
TENON_INLINE VF64 turned_sine(VF64 x, int64_t turns) {
  const DI64 i;
  const QuarterTurns64 q = quarter_turns(x);
  const auto number = hn::Add(q.number, hn::Set(i, turns)), one = hn::Set(i, 1);
  // The lowest bit chooses the function, the next one the sign.
  const auto odd = hn::RebindMask(DF64(), hn::Eq(hn::And(number, one), one));
  const VF64 sign = hn::BitCast(DF64(), hn::ShiftLeft<62>(hn::And(number, hn::Set(i, 2))));
  return hn::Xor(hn::IfThenElse(odd, small_cosine(q), small_sine(q)), sign);
}

TENON_INLINE VF64 sine(VF64 x) {
  return are_near(x) ? turned_sine(x, 0) : by_number(x, [](double v) { return __builtin_sin(v); });
}

TENON_INLINE VF64 cosine(VF64 x) {
  return are_near(x) ? turned_sine(x, 1) : by_number(x, [](double v) { return __builtin_cos(v); });
}

TENON_INLINE VF64 tangent(VF64 x) {
  if (!are_near(x)) return by_number(x, [](double v) { return __builtin_tan(v); });
  const QuarterTurns64 q = quarter_turns(x);
  const auto one = hn::Set(DI64(), 1);
  const auto odd = hn::RebindMask(DF64(), hn::Eq(hn::And(q.number, one), one));
  const VF64 s = small_sine(q), c = small_cosine(q);
  return hn::Div(hn::IfThenElse(odd, hn::Neg(c), s), hn::IfThenElse(odd, s, c));
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
