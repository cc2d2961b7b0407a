// FW: kWide floats, 16 where the set has registers of 512 bits, else an F8. Loops that step by kWide use the widest
// registers on every machine; the functions of math8.h take both. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/f8.h"
#include "ep/cpu/simd/tail8.h"

#if HWY_MAX_BYTES >= 64
#include <immintrin.h>
#endif

namespace tenon::cpu::TENON_ISA_NAMESPACE {

#if HWY_MAX_BYTES >= 64
using DW = hn::FixedTag<float, 16>;
struct FW {
  hn::Vec<DW> v;
};
inline constexpr int64_t kWide = 16;
TENON_INLINE FW load_wide(const float* p) { return {hn::LoadU(DW(), p)}; }
TENON_INLINE void store_wide(float* p, FW a) { hn::StoreU(a.v, DW(), p); }
// p[0, count), count in [0, 16]; `fill` in the other lanes. Touches nothing past p + count.
TENON_INLINE FW load_part_wide(const float* p, int64_t count, float fill) {
  const auto mask = static_cast<__mmask16>((1u << count) - 1);
  return {hn::Vec<DW>{_mm512_mask_loadu_ps(_mm512_set1_ps(fill), mask, p)}};
}
TENON_INLINE void store_part_wide(float* p, int64_t count, FW a) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), a.v.raw);
}
TENON_INLINE FW operator+(FW a, FW b) { return {hn::Add(a.v, b.v)}; }
TENON_INLINE FW operator-(FW a, FW b) { return {hn::Sub(a.v, b.v)}; }
TENON_INLINE FW operator*(FW a, FW b) { return {hn::Mul(a.v, b.v)}; }
TENON_INLINE FW operator/(FW a, FW b) { return {hn::Div(a.v, b.v)}; }
TENON_INLINE FW min8(FW a, FW b) { return {hn::Min(a.v, b.v)}; }
TENON_INLINE FW max8(FW a, FW b) { return {hn::Max(a.v, b.v)}; }
TENON_INLINE FW fma8(FW a, FW b, FW c) { return {hn::MulAdd(a.v, b.v, c.v)}; }
TENON_INLINE FW fnma8(FW a, FW b, FW c) { return {hn::NegMulAdd(a.v, b.v, c.v)}; }
TENON_INLINE FW fms8(FW a, FW b, FW c) { return {hn::MulSub(a.v, b.v, c.v)}; }
TENON_INLINE FW abs8(FW a) { return {hn::Abs(a.v)}; }
TENON_INLINE FW neg8(FW a) { return {hn::Neg(a.v)}; }
TENON_INLINE FW sqrt8(FW a) { return {hn::Sqrt(a.v)}; }
TENON_INLINE FW round8(FW a) { return {hn::Round(a.v)}; }
TENON_INLINE FW floor8(FW a) { return {hn::Floor(a.v)}; }
TENON_INLINE FW copysign8(FW magnitude, FW sign) { return {hn::CopySign(magnitude.v, sign.v)}; }
TENON_INLINE FW select_lt8(FW a, FW b, FW yes, FW no) { return {hn::IfThenElse(hn::Lt(a.v, b.v), yes.v, no.v)}; }
TENON_INLINE FW keep_nan8(FW a, FW b) { return {hn::IfThenElse(hn::IsNaN(a.v), a.v, b.v)}; }
TENON_INLINE bool any_nan8(FW a) { return !hn::AllFalse(DW(), hn::IsNaN(a.v)); }
TENON_INLINE float sum8(FW a) { return hn::GetLane(hn::SumOfLanes(DW(), a.v)); }
TENON_INLINE float maximum8(FW a) { return hn::GetLane(hn::MaxOfLanes(DW(), a.v)); }
TENON_INLINE float minimum8(FW a) { return hn::GetLane(hn::MinOfLanes(DW(), a.v)); }
TENON_INLINE FW min_or_nan8(FW a, FW b) { return keep_nan8(a, min8(a, b)); }
TENON_INLINE FW max_or_nan8(FW a, FW b) { return keep_nan8(a, max8(a, b)); }
TENON_INLINE float minimum_or_nan8(FW a) { return any_nan8(a) ? __builtin_nanf("") : minimum8(a); }
TENON_INLINE float maximum_or_nan8(FW a) { return any_nan8(a) ? __builtin_nanf("") : maximum8(a); }
#else
using FW = F8;
inline constexpr int64_t kWide = 8;
TENON_INLINE FW load_wide(const float* p) { return load8(p); }
TENON_INLINE void store_wide(float* p, FW a) { store8(p, a); }
TENON_INLINE FW load_part_wide(const float* p, int64_t count, float fill) { return load_part8(p, count, fill); }
TENON_INLINE void store_part_wide(float* p, int64_t count, FW a) { store_part8(p, count, a); }
#endif

// The same number in every lane of an F8 or an FW.
template <typename F>
TENON_INLINE F splat(float x) {
#if HWY_MAX_BYTES >= 64
  if constexpr (sizeof(F) == 64) return {hn::Set(DW(), x)};
#endif
  if constexpr (sizeof(F) == 32) return set8(x);
}

template <typename F>
TENON_INLINE F load_as(const float* p) {
#if HWY_MAX_BYTES >= 64
  if constexpr (sizeof(F) == 64) return load_wide(p);
#endif
  if constexpr (sizeof(F) == 32) return load8(p);
}

#if HWY_MAX_BYTES >= 64
TENON_INLINE void store8(float* p, FW a) { store_wide(p, a); }
#endif
TENON_INLINE FW set_wide(float x) { return splat<FW>(x); }
TENON_INLINE FW zero_wide() { return splat<FW>(0.0f); }

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
