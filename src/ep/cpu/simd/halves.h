// Two eights of floats in one FW of sixteen: on the blocked layout two neighbouring pixels, two tiles or two blocks of
// 8 channels. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/wide.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

#if HWY_MAX_BYTES >= 64
TENON_INLINE FW load_halves(const float* low, const float* high) {
  return {hn::Combine(DW(), hn::LoadU(DF(), high), hn::LoadU(DF(), low))};
}
TENON_INLINE void store_halves(float* low, float* high, FW a) {
  hn::StoreU(hn::LowerHalf(DF(), a.v), DF(), low);
  hn::StoreU(hn::UpperHalf(DF(), a.v), DF(), high);
}
// The last eight of a and the first eight of b.
TENON_INLINE FW middle_halves(FW a, FW b) { return {hn::Vec<DW>{_mm512_shuffle_f32x4(a.v.raw, b.v.raw, 0x4e)}}; }
TENON_INLINE F8 low8(FW a) { return {hn::LowerHalf(DF(), a.v)}; }
TENON_INLINE F8 high8(FW a) { return {hn::UpperHalf(DF(), a.v)}; }
// a * b + c in the first eight; the last eight are those of c, whatever is in a.
TENON_INLINE FW fma_low8(FW a, FW b, FW c) {
  return {hn::Vec<DW>{_mm512_mask3_fmadd_ps(a.v.raw, b.v.raw, c.v.raw, 0xff)}};
}
#endif

// The same eight floats in an F8, or in each half of an FW.
template <typename F>
TENON_INLINE F repeat8(const float* p) {
#if HWY_MAX_BYTES >= 64
  if constexpr (sizeof(F) == 64) return {hn::Vec<DW>{_mm512_broadcast_f32x8(_mm256_loadu_ps(p))}};
#endif
  if constexpr (sizeof(F) == 32) return load8(p);
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
