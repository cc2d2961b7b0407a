// The widest vectors that the instruction set has, and floats that become integers. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/f8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

using DI32 = hn::CappedTag<int32_t, 16>;
using DF32 = hn::Rebind<float, DI32>;
using VI32 = hn::Vec<DI32>;
using VF32 = hn::Vec<DF32>;
inline constexpr int64_t kLanes = HWY_MAX_BYTES >= 64 ? 16 : HWY_MAX_BYTES / 4;

// The nearest integers, ties to even, of numbers that an int32 holds: without what NearestInt does for the others.
TENON_INLINE VI32 nearest_small(VF32 x) {
#if HWY_ARCH_X86 && HWY_MAX_BYTES >= 64
  return VI32{_mm512_cvtps_epi32(x.raw)};
#elif HWY_ARCH_X86 && HWY_MAX_BYTES >= 32
  return VI32{_mm256_cvtps_epi32(x.raw)};
#elif HWY_ARCH_X86
  return VI32{_mm_cvtps_epi32(x.raw)};
#else
  return hn::NearestInt(x);
#endif
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
