// Where the pixels of a convolution's tile lie. Only for simd/conv_simd.cc.
#pragma once

#include "ep/cpu/simd/f8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// Keeps the compiler from folding an address into others: left alone, gcc makes one induction variable for each pixel
// and channel, and spills them all.
template <typename T>
TENON_INLINE T opaque(T value) {
#if defined(__GNUC__)
  asm("" : "+r"(value));
#endif
  return value;
}

// Addresses of R pixels of one tap: by threes, so that each is one of R / 3 bases plus 0, 1 or 2 times the stride.
template <int R>
struct Pixels {
  const float* base[(R + 2) / 3];
  int64_t stride;

  TENON_INLINE Pixels(const float* x, int64_t pixel) : stride(opaque(pixel)) {
#pragma GCC unroll 4
    for (int i = 0; i < (R + 2) / 3; ++i) base[i] = opaque(x + i * 3 * stride);
  }
  TENON_INLINE float at(int i, int k) const { return base[i / 3][(i % 3) * stride + k]; }
};

// The same for neighbours in memory: all offsets are constants.
template <int R>
struct DensePixels {
  const float* base;
  TENON_INLINE DensePixels(const float* x, int64_t) : base(x) {}
  TENON_INLINE float at(int i, int k) const { return base[i * 8 + k]; }
};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
