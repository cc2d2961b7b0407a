// Elementary functions on eight floats. Errors are relative to the true value and were measured against double over all
// of the range (eltwise_test.cc); NaN in gives NaN out. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/f8.h"

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

// In this order of arguments a NaN in `x` stays one.
TENON_INLINE F8 clamp8(F8 x, float low, float high) { return min8(set8(high), max8(set8(low), x)); }

// e^x within 1.6e-7 for x <= 89, as after subtracting a maximum. Results below 1.7e-38 are 0; exp8_bounded(-inf) = 0.
TENON_INLINE F8 exp8_bounded(F8 x) {
  x = max8(set8(-87.5f), x);
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits; with 126 more they are the exponent field of
  // 2^(n-1). The missing factor 2 is in the polynomial, so that n = 128 still has a field: results near the largest
  // float are right, and n = -126 gives field 0, which is the value 0.
  const F8 magic = set8(12582912.0f + 126.0f);
  const F8 t = fma8(x, set8(1.44269504f), magic);
  const F8 n = t - magic;
  F8 r = fnma8(n, set8(0.693359375f), x);
  r = fnma8(n, set8(-2.12194440e-4f), r);
  F8 q = set8(2 * 0.0013814539f);
  q = fma8(q, r, set8(2 * 0.0083687454f));
  q = fma8(q, r, set8(2 * 0.0416683890f));
  q = fma8(q, r, set8(2 * 0.1666652113f));
  q = fma8(q, r, set8(2 * 0.4999999404f));
  const F8 p = fma8(q, r * r, fma8(set8(2.0f), r, set8(2.0f)));
  const F8 scale = each8(t, [](auto v) { return hn::BitCast(DF(), hn::ShiftLeft<23>(hn::BitCast(DI(), v))); });
  return p * scale;
}

// The same for every x: above the largest float it is infinity.
TENON_INLINE F8 exp8(F8 x) { return exp8_bounded(min8(set8(89.0f), x)); }

// ln(x) within 2e-7, or 1e-7 absolute near 1. log8(0) = -inf, below 0 NaN; denormals are served.
TENON_INLINE F8 log8(F8 x) {
  const F8 smallest_normal = set8(1.17549435e-38f);
  const F8 shift = select_lt8(x, smallest_normal, set8(-25.0f), zero8());
  const F8 scaled = select_lt8(x, smallest_normal, x * set8(33554432.0f), x);
  // m in [sqrt(1/2), sqrt(2)), x = m * 2^e.
  enum : int32_t { kSqrtHalf = 0x3f3504f3 };
  const F8 m = each8(scaled, [](auto v) {
    const auto i = hn::Sub(hn::BitCast(DI(), v), hn::Set(DI(), kSqrtHalf));
    return hn::BitCast(DF(), hn::Add(hn::And(i, hn::Set(DI(), 0x7fffff)), hn::Set(DI(), kSqrtHalf)));
  });
  const F8 e = shift + each8(scaled, [](auto v) {
                 const auto i = hn::Sub(hn::BitCast(DI(), v), hn::Set(DI(), kSqrtHalf));
                 return hn::ConvertTo(DF(), hn::ShiftRight<23>(i));
               });
  const F8 t = m - set8(1.0f);
  F8 q = set8(-0.0763449669f);
  q = fma8(q, t, set8(0.1276157647f));
  q = fma8(q, t, set8(-0.1316018254f));
  q = fma8(q, t, set8(0.1420175731f));
  q = fma8(q, t, set8(-0.1662335694f));
  q = fma8(q, t, set8(0.2000122666f));
  q = fma8(q, t, set8(-0.2500081956f));
  q = fma8(q, t, set8(0.3333333135f));
  const F8 t2 = t * t;
  F8 y = fma8(e, set8(-2.12194440e-4f), q * t2 * t);
  y = fnma8(set8(0.5f), t2, y) + t;
  y = fma8(e, set8(0.693359375f), y) + x * zero8();  // the last term is NaN where x is
  y = select_lt8(set8(3.40282347e38f), x, x, y);
  y = select_lt8(x, zero8(), set8(__builtin_nanf("")), y);
  return select_lt8(abs8(x), set8(1.4e-45f), set8(-__builtin_inff()), y);
}

// The error function within 4e-7; exactly 1 or -1 from |x| = 3.92 on, so that 1 + erf8(x) vanishes where it should.
TENON_INLINE F8 erf8(F8 x) {
  const F8 c = clamp8(x, -3.92f, 3.92f);
  const F8 z = c * c;
  F8 p = set8(2.050074726867e-06f);
  F8 q = set8(3.80916282846577e-05f);
  p = fma8(p, z, set8(0.0002848835138138f));
  q = fma8(q, z, set8(0.0011625466868281f));
  p = fma8(p, z, set8(0.0037656659260392f));
  q = fma8(q, z, set8(0.0149693163111806f));
  p = fma8(p, z, set8(0.0527488775551319f));
  q = fma8(q, z, set8(0.1141095981001854f));
  p = fma8(p, z, set8(0.1904076337814331f));
  q = fma8(q, z, set8(0.5020771026611328f));
  p = fma8(p, z, set8(1.1283791065216064f));
  q = fma8(q, z, set8(1.0f));
  return select_lt8(set8(3.9199f), abs8(x), copysign8(set8(1.0f), x), c * p / q);
}

// Within 4e-7; exactly 1 or -1 from |x| = 9.02 on.
TENON_INLINE F8 tanh8(F8 x) {
  const F8 c = clamp8(x, -9.02f, 9.02f);
  const F8 z = c * c;
  F8 p = set8(5.076246978319432e-08f);
  F8 q = set8(7.374484356503785e-10f);
  p = fma8(p, z, set8(3.158913386869244e-05f));
  q = fma8(q, z, set8(1.6174908523680642e-06f));
  p = fma8(p, z, set8(0.004008512012660503f));
  q = fma8(q, z, set8(0.0004207413294352591f));
  p = fma8(p, z, set8(0.13785366714000702f));
  q = fma8(q, z, set8(0.02773752436041832f));
  p = fma8(p, z, set8(1.0f));
  q = fma8(q, z, set8(0.4711869955062866f));
  q = fma8(q, z, set8(1.0f));
  return select_lt8(set8(9.0199f), abs8(x), copysign8(set8(1.0f), x), c * p / q);
}

// 1 / (1 + e^-x) within 3e-7; results below 3e-39 are 0.
TENON_INLINE F8 sigmoid8(F8 x) { return set8(1.0f) / (set8(1.0f) + exp8(neg8(x))); }

// The sine of x + turns * pi / 2 within 1e-7 absolute, for |x| <= 8192.
TENON_INLINE F8 turned_sine8(F8 x, int turns) {
  // As in exp8_bounded: the nearest multiple of pi / 2, whose number is in the low bits of t.
  const F8 magic = set8(12582912.0f);
  const F8 t = fma8(x, set8(0.636619772f), magic);
  const F8 n = t - magic;
  // Pi / 2 in three parts, short enough for their products with n to be exact.
  F8 r = fnma8(n, set8(1.5703125f), x);
  r = fnma8(n, set8(4.837512969970703125e-4f), r);
  r = fnma8(n, set8(7.54978995489188216e-8f), r);
  const F8 z = r * r;
  F8 sine = fma8(z, set8(-1.9515295891e-4f), set8(8.3321608736e-3f));
  sine = fma8(fma8(sine, z, set8(-1.6666654611e-1f)), z * r, r);
  F8 cosine = fma8(z, set8(2.443315711809948e-5f), set8(-1.388731625493765e-3f));
  cosine = fma8(fma8(cosine, z, set8(4.166664568298827e-2f)), z * z, fnma8(set8(0.5f), z, set8(1.0f)));
  // Of the number of quarter turns, the lowest bit chooses the function and the next one the sign.
  const auto bit = [&](int32_t which) {
    return each8(t, [&](auto v) {
      const auto number = hn::Add(hn::BitCast(DI(), v), hn::Set(DI(), turns));
      return hn::ConvertTo(DF(), hn::And(number, hn::Set(DI(), which)));
    });
  };
  return select_lt8(set8(0.5f), bit(1), cosine, sine) * (set8(1.0f) - bit(2));
}

// Far from 0 the parts of pi / 2 are too few: the C library's function, number by number.
TENON_INLINE bool all_near_zero8(F8 x) { return maximum8(abs8(x)) <= 8192.0f && !any_nan8(x); }

template <typename Function>
TENON_INLINE F8 by_number8(F8 x, Function function) {
  float lanes[8];
  store8(lanes, x);
  for (float& lane : lanes) lane = function(lane);
  return load8(lanes);
}

TENON_INLINE F8 sin8(F8 x) {
  if (!all_near_zero8(x)) return by_number8(x, [](float v) { return __builtin_sinf(v); });
  return turned_sine8(x, 0);
}

TENON_INLINE F8 cos8(F8 x) {
  if (!all_near_zero8(x)) return by_number8(x, [](float v) { return __builtin_cosf(v); });
  return turned_sine8(x, 1);
}

// Within 2e-7.
TENON_INLINE F8 atan8(F8 x) {
  const F8 a = abs8(x), one = set8(1.0f);
  // atan(a) = pi/4 + atan((a - 1) / (a + 1)) = pi/2 - atan(1 / a)
  const F8 large = set8(2.414213562373095f), small = set8(0.4142135623730950f);
  const F8 start = select_lt8(large, a, set8(1.57079637f), select_lt8(small, a, set8(0.785398185f), zero8()));
  const F8 top = select_lt8(large, a, neg8(one), select_lt8(small, a, a - one, a));
  const F8 bottom = select_lt8(large, a, a, select_lt8(small, a, a + one, one));
  const F8 r = top / bottom, z = r * r;
  F8 p = fma8(z, set8(8.05374449538e-2f), set8(-1.38776856032e-1f));
  p = fma8(p, z, set8(1.99777106478e-1f));
  p = fma8(p, z, set8(-3.33329491539e-1f));
  return copysign8(fma8(p, z * r, r) + start, x);
}

// x * (1 + erf(x / sqrt 2)) / 2 within 5e-7, or 1.5e-6 absolute where x < 0 (the sum cancels); 0 from x = -5.55 down.
TENON_INLINE F8 gelu8(F8 x) {
  const F8 half = x * set8(0.5f);
  return fma8(half, erf8(x * set8(0.70710678f)), half);
}

// x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
TENON_INLINE F8 gelu_tanh8(F8 x) {
  const F8 half = x * set8(0.5f);
  const F8 inner = x * fma8(x * x, set8(0.044715f * 0.79788456f), set8(0.79788456f));
  return fma8(half, tanh8(inner), half);
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
