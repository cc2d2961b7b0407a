// An 8x8 transpose in registers. Only for simd/*_simd.cc, and only where there are 256-bit registers.
#pragma once

#ifdef __AVX__
#include <immintrin.h>

#include "ep/cpu/simd/f8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

TENON_INLINE void transpose8(__m256 (&r)[8]) {
  __m256 t[8], u[8];
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
    u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

// Eight rows of eight from memory to memory, `from_step` and `to_step` floats apart: loads that fill half a register
// each take the place of a third of the shuffles.
TENON_INLINE void transpose8(const float* from, int64_t from_step, float* to, int64_t to_step) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half, from += 4, to += 4 * to_step) {
    __m256 r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(from + i * from_step));
      r[i] = _mm256_insertf128_ps(low, _mm_loadu_ps(from + (i + 4) * from_step), 1);
    }
    const __m256 a = _mm256_unpacklo_ps(r[0], r[1]), b = _mm256_unpackhi_ps(r[0], r[1]);
    const __m256 c = _mm256_unpacklo_ps(r[2], r[3]), d = _mm256_unpackhi_ps(r[2], r[3]);
    _mm256_storeu_ps(to, _mm256_shuffle_ps(a, c, 0x44));
    _mm256_storeu_ps(to + to_step, _mm256_shuffle_ps(a, c, 0xee));
    _mm256_storeu_ps(to + 2 * to_step, _mm256_shuffle_ps(b, d, 0x44));
    _mm256_storeu_ps(to + 3 * to_step, _mm256_shuffle_ps(b, d, 0xee));
  }
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
#endif
