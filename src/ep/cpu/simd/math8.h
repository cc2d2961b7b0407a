// Elementary functions on eight floats, or on an FW. Errors are relative to the true value and were measured against
// double over all of the range (eltwise_test.cc); NaN in gives NaN out. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/wide.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// Applies `op` to each hardware vector of `a`.
template <typename Op>
TENON_INLINE F8 each8(F8 a, Op op) {
#if HWY_MAX_BYTES >= 32
  return {op(a.v)};
#else
  return {op(a.v), op(a.w)};
#endif
}
#if HWY_MAX_BYTES >= 64
template <typename Op>
TENON_INLINE FW each8(FW a, Op op) {
  return {op(a.v)};
}
#endif

// Tags of such a hardware vector: its floats, and as many integers.
template <typename V>
using FloatTag = hn::DFromV<V>;
template <typename V>
using IntegerTag = hn::RebindToSigned<hn::DFromV<V>>;

// In this order of arguments a NaN in `x` stays one.
template <typename F>
TENON_INLINE F clamp8(F x, float low, float high) {
  return min8(splat<F>(high), max8(splat<F>(low), x));
}

// e^x within 1.6e-7 for x <= 89, as after subtracting a maximum. Results below 1.7e-38 are 0; exp8_bounded(-inf) = 0.
template <typename F>
TENON_INLINE F exp8_bounded(F x) {
  x = max8(splat<F>(-87.5f), x);
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits; with 126 more they are the exponent field of
  // 2^(n-1). The missing factor 2 is in the polynomial, so that n = 128 still has a field: results near the largest
  // float are right, and n = -126 gives field 0, which is the value 0.
  const F magic = splat<F>(12582912.0f + 126.0f);
  const F t = fma8(x, splat<F>(1.44269504f), magic);
  const F n = t - magic;
  F r = fnma8(n, splat<F>(0.693359375f), x);
  r = fnma8(n, splat<F>(-2.12194440e-4f), r);
  F q = splat<F>(2 * 0.0013814539f);
  q = fma8(q, r, splat<F>(2 * 0.0083687454f));
  q = fma8(q, r, splat<F>(2 * 0.0416683890f));
  q = fma8(q, r, splat<F>(2 * 0.1666652113f));
  q = fma8(q, r, splat<F>(2 * 0.4999999404f));
  const F p = fma8(q, r * r, fma8(splat<F>(2.0f), r, splat<F>(2.0f)));
  const F scale = each8(t, [](auto v) {
    return hn::BitCast(FloatTag<decltype(v)>(), hn::ShiftLeft<23>(hn::BitCast(IntegerTag<decltype(v)>(), v)));
  });
  return p * scale;
}

// The same for every x: above the largest float it is infinity.
template <typename F>
TENON_INLINE F exp8(F x) {
  return exp8_bounded(min8(splat<F>(89.0f), x));
}

// ln(x) within 2e-7, or 1e-7 absolute near 1. log8(0) = -inf, below 0 NaN; denormals are served.
template <typename F>
TENON_INLINE F log8(F x) {
  const F smallest_normal = splat<F>(1.17549435e-38f);
  const F shift = select_lt8(x, smallest_normal, splat<F>(-25.0f), splat<F>(0.0f));
  const F scaled = select_lt8(x, smallest_normal, x * splat<F>(33554432.0f), x);
  // m in [sqrt(1/2), sqrt(2)), x = m * 2^e.
  enum : int32_t { kSqrtHalf = 0x3f3504f3 };
  const F m = each8(scaled, [](auto v) {
    const auto i = hn::Sub(hn::BitCast(IntegerTag<decltype(v)>(), v), hn::Set(IntegerTag<decltype(v)>(), kSqrtHalf));
    return hn::BitCast(FloatTag<decltype(v)>(), hn::Add(hn::And(i, hn::Set(IntegerTag<decltype(v)>(), 0x7fffff)),
                                                        hn::Set(IntegerTag<decltype(v)>(), kSqrtHalf)));
  });
  const F e = shift + each8(scaled, [](auto v) {
                const auto i =
                    hn::Sub(hn::BitCast(IntegerTag<decltype(v)>(), v), hn::Set(IntegerTag<decltype(v)>(), kSqrtHalf));
                return hn::ConvertTo(FloatTag<decltype(v)>(), hn::ShiftRight<23>(i));
              });
  const F t = m - splat<F>(1.0f);
  F q = splat<F>(-0.0763449669f);
  q = fma8(q, t, splat<F>(0.1276157647f));
  q = fma8(q, t, splat<F>(-0.1316018254f));
  q = fma8(q, t, splat<F>(0.1420175731f));
  q = fma8(q, t, splat<F>(-0.1662335694f));
  q = fma8(q, t, splat<F>(0.2000122666f));
  q = fma8(q, t, splat<F>(-0.2500081956f));
  q = fma8(q, t, splat<F>(0.3333333135f));
  const F t2 = t * t;
  F y = fma8(e, splat<F>(-2.12194440e-4f), q * t2 * t);
  y = fnma8(splat<F>(0.5f), t2, y) + t;
  y = fma8(e, splat<F>(0.693359375f), y) + x * splat<F>(0.0f);  // the last term is NaN where x is
  y = select_lt8(splat<F>(3.40282347e38f), x, x, y);
  y = select_lt8(x, splat<F>(0.0f), splat<F>(__builtin_nanf("")), y);
  return select_lt8(abs8(x), splat<F>(1.4e-45f), splat<F>(-__builtin_inff()), y);
}

// The error function within 4e-7 and never beyond 1, where an arcsine has no result; exactly 1 or -1 from |x| = 3.92
// on, so that 1 + erf8(x) vanishes where it should.
template <typename F>
TENON_INLINE F erf8(F x) {
  const F c = clamp8(x, -3.92f, 3.92f);
  const F z = c * c;
  F p = splat<F>(2.050074726867e-06f);
  F q = splat<F>(3.80916282846577e-05f);
  p = fma8(p, z, splat<F>(0.0002848835138138f));
  q = fma8(q, z, splat<F>(0.0011625466868281f));
  p = fma8(p, z, splat<F>(0.0037656659260392f));
  q = fma8(q, z, splat<F>(0.0149693163111806f));
  p = fma8(p, z, splat<F>(0.0527488775551319f));
  q = fma8(q, z, splat<F>(0.1141095981001854f));
  p = fma8(p, z, splat<F>(0.1904076337814331f));
  q = fma8(q, z, splat<F>(0.5020771026611328f));
  p = fma8(p, z, splat<F>(1.1283791065216064f));
  q = fma8(q, z, splat<F>(1.0f));
  return select_lt8(splat<F>(3.9199f), abs8(x), copysign8(splat<F>(1.0f), x), clamp8(c * p / q, -1.0f, 1.0f));
}

// Within 4e-7 and never beyond 1; exactly 1 or -1 from |x| = 9.02 on.
template <typename F>
TENON_INLINE F tanh8(F x) {
  const F c = clamp8(x, -9.02f, 9.02f);
  const F z = c * c;
  F p = splat<F>(5.076246978319432e-08f);
  F q = splat<F>(7.374484356503785e-10f);
  p = fma8(p, z, splat<F>(3.158913386869244e-05f));
  q = fma8(q, z, splat<F>(1.6174908523680642e-06f));
  p = fma8(p, z, splat<F>(0.004008512012660503f));
  q = fma8(q, z, splat<F>(0.0004207413294352591f));
  p = fma8(p, z, splat<F>(0.13785366714000702f));
  q = fma8(q, z, splat<F>(0.02773752436041832f));
  p = fma8(p, z, splat<F>(1.0f));
  q = fma8(q, z, splat<F>(0.4711869955062866f));
  q = fma8(q, z, splat<F>(1.0f));
  return select_lt8(splat<F>(9.0199f), abs8(x), copysign8(splat<F>(1.0f), x), clamp8(c * p / q, -1.0f, 1.0f));
}

// 1 / (1 + e^-x) within 3e-7; results below 3e-39 are 0.
template <typename F>
TENON_INLINE F sigmoid8(F x) {
  return splat<F>(1.0f) / (splat<F>(1.0f) + exp8(neg8(x)));
}

// x = r + n * pi / 2 with |r| <= pi / 4, for |x| <= 8192; n is in the low bits of t.
template <typename F>
struct QuarterTurns8 {
  F r, t;
};
template <typename F>
TENON_INLINE QuarterTurns8<F> quarter_turns8(F x) {
  // As in exp8_bounded: the nearest multiple of pi / 2.
  const F magic = splat<F>(12582912.0f);
  const F t = fma8(x, splat<F>(0.636619772f), magic);
  const F n = t - magic;
  // Pi / 2 in three parts, short enough for their products with n to be exact.
  F r = fnma8(n, splat<F>(1.5703125f), x);
  r = fnma8(n, splat<F>(4.837512969970703125e-4f), r);
  r = fnma8(n, splat<F>(7.54978995489188216e-8f), r);
  return {r, t};
}
// 1 in the lanes where n + turns has the bit `which`, else 0.
template <typename F>
TENON_INLINE F turn_bit8(F t, int turns, int32_t which) {
  const F bit = each8(t, [&](auto v) {
    const auto number = hn::Add(hn::BitCast(IntegerTag<decltype(v)>(), v), hn::Set(IntegerTag<decltype(v)>(), turns));
    return hn::ConvertTo(FloatTag<decltype(v)>(), hn::And(number, hn::Set(IntegerTag<decltype(v)>(), which)));
  });
  return which == 1 ? bit : bit * splat<F>(1.0f / static_cast<float>(which));
}
template <typename F>
TENON_INLINE F short_sine8(F r) {
  const F z = r * r;
  const F sine = fma8(z, splat<F>(-1.9515295891e-4f), splat<F>(8.3321608736e-3f));
  // The sign is that of -0 too.
  return copysign8(fma8(fma8(sine, z, splat<F>(-1.6666654611e-1f)), z * r, r), r);
}
template <typename F>
TENON_INLINE F short_cosine8(F r) {
  const F z = r * r;
  const F cosine = fma8(z, splat<F>(2.443315711809948e-5f), splat<F>(-1.388731625493765e-3f));
  return fma8(fma8(cosine, z, splat<F>(4.166664568298827e-2f)), z * z, fnma8(splat<F>(0.5f), z, splat<F>(1.0f)));
}

// The sine of x + turns * pi / 2 within 1e-7 absolute, for |x| <= 8192.
template <typename F>
TENON_INLINE F turned_sine8(F x, int turns) {
  const QuarterTurns8<F> q = quarter_turns8(x);
  // Of the number of quarter turns, the lowest bit chooses the function and the next one the sign.
  const F value = select_lt8(splat<F>(0.5f), turn_bit8(q.t, turns, 1), short_cosine8(q.r), short_sine8(q.r));
  return value * fnma8(splat<F>(2.0f), turn_bit8(q.t, turns, 2), splat<F>(1.0f));
}

// Far from 0 the parts of pi / 2 are too few: the C library's function, number by number.
template <typename F>
TENON_INLINE bool all_near_zero8(F x) {
  return maximum8(abs8(x)) <= 8192.0f && !any_nan8(x);
}

template <typename F, typename Function>
TENON_INLINE F by_number8(F x, Function function) {
  float lanes[sizeof(F) / sizeof(float)];
  store8(lanes, x);
  for (float& lane : lanes) lane = function(lane);
  return load_as<F>(lanes);
}

template <typename F>
TENON_INLINE F sin8(F x) {
  if (!all_near_zero8(x)) return by_number8(x, [](float v) { return __builtin_sinf(v); });
  return turned_sine8(x, 0);
}

template <typename F>
TENON_INLINE F cos8(F x) {
  if (!all_near_zero8(x)) return by_number8(x, [](float v) { return __builtin_cosf(v); });
  return turned_sine8(x, 1);
}

// Within 4e-7.
template <typename F>
TENON_INLINE F tan8(F x) {
  if (!all_near_zero8(x)) return by_number8(x, [](float v) { return __builtin_tanf(v); });
  const QuarterTurns8<F> q = quarter_turns8(x);
  const F sine = short_sine8(q.r), cosine = short_cosine8(q.r), odd = turn_bit8(q.t, 0, 1), half = splat<F>(0.5f);
  return select_lt8(half, odd, neg8(cosine), sine) / select_lt8(half, odd, sine, cosine);
}

// Within 2e-7.
template <typename F>
TENON_INLINE F atan8(F x) {
  const F a = abs8(x), one = splat<F>(1.0f);
  // atan(a) = pi/4 + atan((a - 1) / (a + 1)) = pi/2 - atan(1 / a)
  const F large = splat<F>(2.414213562373095f), small = splat<F>(0.4142135623730950f);
  const F start =
      select_lt8(large, a, splat<F>(1.57079637f), select_lt8(small, a, splat<F>(0.785398185f), splat<F>(0.0f)));
  const F top = select_lt8(large, a, neg8(one), select_lt8(small, a, a - one, a));
  const F bottom = select_lt8(large, a, a, select_lt8(small, a, a + one, one));
  const F r = top / bottom, z = r * r;
  F p = fma8(z, splat<F>(8.05374449538e-2f), splat<F>(-1.38776856032e-1f));
  p = fma8(p, z, splat<F>(1.99777106478e-1f));
  p = fma8(p, z, splat<F>(-3.33329491539e-1f));
  return copysign8(fma8(p, z * r, r) + start, x);
}

// The arc sine within 1e-7 of 0 <= a <= 1/2.
template <typename F>
TENON_INLINE F short_asin8(F a) {
  const F z = a * a;
  F p = fma8(z, splat<F>(4.21663037581e-2f), splat<F>(2.4179517045e-2f));
  p = fma8(p, z, splat<F>(4.54703756153e-2f));
  p = fma8(p, z, splat<F>(7.49529764389e-2f));
  p = fma8(p, z, splat<F>(1.66667524821e-1f));
  return fma8(p, z * a, a);
}

// Within 3e-7; NaN beyond 1. From 1/2 on asin(a) = pi / 2 - 2 * asin(sqrt((1 - a) / 2)).
template <typename F>
TENON_INLINE F asin8(F x) {
  const F a = abs8(x), half = splat<F>(0.5f);
  const F outer = sqrt8(fnma8(half, a, half));
  const F inner = short_asin8(select_lt8(half, a, outer, a));
  return copysign8(select_lt8(half, a, fnma8(splat<F>(2.0f), inner, splat<F>(1.57079633f)), inner), x);
}

// Within 4e-7; NaN beyond 1.
template <typename F>
TENON_INLINE F acos8(F x) {
  const F a = abs8(x), half = splat<F>(0.5f);
  const F outer = sqrt8(fnma8(half, a, half));
  const F inner = short_asin8(select_lt8(half, a, outer, a));
  const F twice = inner + inner;
  const F far = select_lt8(x, splat<F>(0.0f), splat<F>(3.14159265f) - twice, twice);
  return select_lt8(half, a, far, splat<F>(1.57079633f) - copysign8(inner, x));
}

// ln(1 + x) within 4e-7 for x >= -1: the quotient makes up for the rounding of 1 + x.
template <typename F>
TENON_INLINE F log1p8(F x) {
  const F one = splat<F>(1.0f), u = one + x, d = u - one;
  const F y = log8(u) * (x / select_lt8(splat<F>(0.0f), abs8(d), d, one));
  return select_lt8(splat<F>(1e8f), x, log8(x), select_lt8(splat<F>(0.0f), abs8(d), y, x + x * splat<F>(0.0f)));
}

// (e^|x| + e^-|x|) / 2 or half of the difference, by the square of e^(|x| / 2), which does not overflow before they do.
template <typename F>
TENON_INLINE F half_exponentials8(F x, float sign) {
  const F root = exp8(abs8(x) * splat<F>(0.5f)), half = splat<F>(0.5f);
  return fma8(half * root, root, splat<F>(0.5f * sign) / (root * root));
}
// Within 5e-7.
template <typename F>
TENON_INLINE F cosh8(F x) {
  return half_exponentials8(x, 1.0f);
}
// Within 5e-7.
template <typename F>
TENON_INLINE F sinh8(F x) {
  const F z = x * x;
  F p = fma8(z, splat<F>(2.75573192e-6f), splat<F>(1.98412698e-4f));
  p = fma8(p, z, splat<F>(8.33333333e-3f));
  p = fma8(p, z, splat<F>(1.66666667e-1f));
  const F a = abs8(x);
  return select_lt8(a, splat<F>(1.0f), fma8(p, z * x, x), copysign8(half_exponentials8(x, -1.0f), x));
}

// Within 6e-7. A square would overflow where ln(2a) has long been as good.
template <typename F>
TENON_INLINE F asinh8(F x) {
  const F a = abs8(x), one = splat<F>(1.0f);
  const F near = log1p8(a + a * a / (one + sqrt8(fma8(a, a, one))));
  return copysign8(select_lt8(splat<F>(1e9f), a, log8(a) + splat<F>(0.693147181f), near), x);
}

// Within 6e-7; NaN below 1.
template <typename F>
TENON_INLINE F acosh8(F x) {
  const F one = splat<F>(1.0f), t = x - one;
  const F near = log1p8(t + sqrt8(fma8(t, t, t + t)));
  return select_lt8(x, one, splat<F>(__builtin_nanf("")),
                    select_lt8(splat<F>(1e9f), x, log8(x) + splat<F>(0.693147181f), near));
}

// Within 6e-7; infinite at 1, NaN beyond.
template <typename F>
TENON_INLINE F atanh8(F x) {
  const F a = abs8(x);
  return copysign8(splat<F>(0.5f) * log1p8((a + a) / (splat<F>(1.0f) - a)), x);
}

// x * (1 + erf(x / sqrt 2)) / 2 within 5e-7, or 1.5e-6 absolute where x < 0 (the sum cancels); 0 from x = -5.55 down.
template <typename F>
TENON_INLINE F gelu8(F x) {
  const F half = x * splat<F>(0.5f);
  return fma8(half, erf8(x * splat<F>(0.70710678f)), half);
}

// x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
template <typename F>
TENON_INLINE F gelu_tanh8(F x) {
  const F half = x * splat<F>(0.5f);
  const F inner = x * fma8(x * x, splat<F>(0.044715f * 0.79788456f), splat<F>(0.79788456f));
  return fma8(half, tanh8(inner), half);
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
