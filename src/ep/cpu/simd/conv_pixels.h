// Where the pixels of a convolution's tile lie. Only for simd/conv_simd.cc.
#pragma once

#include "ep/cpu/simd/conv.h"
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

// Fetches what run.ahead holds for `pixels` pixels, an equal part of it with each call of next().
class FetchAhead {
 public:
  TENON_INLINE FetchAhead(const ConvRun& run, int64_t first, int64_t pixels, int64_t parts)
      : next_(run.ahead + first * run.ahead_pixel), end_(next_ + pixels * run.ahead_pixel) {
    if (run.ahead_pixel > 0 && parts > 0) step_ = ((end_ - next_ + parts * kLine - 1) / (parts * kLine)) * kLine;
  }
  TENON_INLINE void next() {
    if (step_ == 0) return;
    const float* const end = end_ - next_ < step_ ? end_ : next_ + step_;
    for (; next_ < end; next_ += kLine) __builtin_prefetch(next_, 0, 2);
  }

 private:
  static constexpr int64_t kLine = 16;
  const float* next_;
  const float* end_;
  int64_t step_ = 0;
};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
