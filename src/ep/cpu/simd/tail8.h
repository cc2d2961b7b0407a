// The last values of a row that is no multiple of eight. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/f8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// p[0, count), count in [0, 8]; `fill` in the other lanes. Reads nothing past p + count.
TENON_INLINE F8 load_part8(const float* p, int64_t count, float fill) {
  float lanes[8];
  for (int i = 0; i < 8; ++i) lanes[i] = i < count ? p[i] : fill;
  return load8(lanes);
}

TENON_INLINE void store_part8(float* p, int64_t count, F8 a) {
  float lanes[8];
  store8(lanes, a);
  for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
