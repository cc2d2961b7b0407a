// Tiles whose accumulators are vectors of eight: pixels x width of them, on AVX2 12 of 16 registers, with the weights
// and one broadcast input. Only for simd/conv_simd.cc.
#pragma once

#include "ep/cpu/simd/conv.h"
#include "ep/cpu/simd/conv_pixels.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

inline constexpr int kConvWidths = 3;
// One pass over a panel stays in L1 (32 KiB) beside the inputs.
inline constexpr int64_t kConvPanelBytes = 20 * 1024;
inline constexpr int64_t kConvFarProducts = 16;

// Pixels a tile for each width (in blocks of 8 output channels).
#if HWY_MAX_BYTES >= 32
inline constexpr int kConvPixels[kConvWidths] = {12, 6, 4};
#else
inline constexpr int kConvPixels[kConvWidths] = {6, 3, 2};
#endif

enum class Source { kPoint, kWindow, kPlain };

// Pixels a tile.
constexpr int most_pixels(int width, Source) { return kConvPixels[width - 1]; }

// Keeps gcc from folding three weights a channel into each product as memory operands: 16 loads instead of 7 for 12
// products cost 1.3 times.
TENON_INLINE F8 in_register(F8 value) {
#if defined(__AVX__) && HWY_MAX_BYTES >= 32
  asm("" : "+x"(value.v.raw));
#endif
  return value;
}

// One input channel: R broadcasts, J weight vectors, R * J products.
template <int R, int J, typename Source>
TENON_INLINE void step(F8 (&sum)[R][J], const Source& x, int k, const float* w) {
  F8 weight[J];
#pragma GCC unroll 3
  for (int j = 0; j < J; ++j) weight[j] = J == 3 ? in_register(load8(w + j * 8)) : load8(w + j * 8);
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) {
    const F8 value = set8(x.at(i, k));
#pragma GCC unroll 3
    for (int j = 0; j < J; ++j) sum[i][j] = fma8(value, weight[j], sum[i][j]);
  }
}

template <int R, int J, typename Source>
TENON_INLINE void step8(F8 (&sum)[R][J], const Source& x, const float* w) {
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) step<R, J>(sum, x, k, w + k * J * 8);
}

template <int R, int J, Source kSource>
void tile(const ConvRun& run, int64_t first) {
  const int64_t x_pixel = kSource == Source::kPoint ? 8 : run.x_pixel;
  const float* x = run.x + first * x_pixel;
  float* y = run.y + first * run.y_pixel;
  F8 sum[R][J];
  if (run.bias != nullptr) {
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < J; ++j) sum[i][j] = load8(run.bias + j * 8);
    }
    if (run.residual_before != nullptr) {
      const float* residual = run.residual_before + first * run.y_pixel;
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
        for (int j = 0; j < J; ++j) sum[i][j] = sum[i][j] + load8(residual + i * run.y_pixel + j * run.y_block);
      }
    }
  } else {
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < J; ++j) sum[i][j] = load8(y + i * run.y_pixel + j * run.y_block);
    }
  }
  const float* w = run.w;
  FetchAhead ahead(run, first, R, run.blocks * run.rows);
  if constexpr (kSource == Source::kPoint) {
    for (int64_t b = 0; b < run.blocks; ++b, x += run.x_block, w += J * 64) {
      // The next tile's pixels: each block of channels is a stream of its own, more than the hardware follows.
#pragma GCC unroll 6
      for (int i = 0; i < R; i += 2) __builtin_prefetch(x + (R + i) * 8);
      ahead.next();
      step8(sum, DensePixels<R>(x, 8), w);
    }
    for (int64_t k = 0; k < run.tail; ++k) step(sum, DensePixels<R>(x + k, 8), 0, w + k * J * 8);
  } else {
    for (int64_t b = 0; b < run.blocks; ++b, x += run.x_block, w += run.w_block) {
      for (int64_t r = 0; r < run.rows; ++r) {
        const float* tap = x + r * run.x_row;
        const float* weight = w + r * run.w_row;
        if constexpr (kSource != Source::kPlain) ahead.next();
        for (int64_t c = 0; c < run.cols; ++c, tap += run.x_col, weight += run.w_col) {
          if constexpr (kSource == Source::kPlain)
            step(sum, Pixels<R>(tap, x_pixel), 0, weight);
          else
            step8(sum, Pixels<R>(tap, x_pixel), weight);
        }
      }
    }
    if (run.tail > 0) {
      for (int64_t r = 0; r < run.rows; ++r) {
        const float* tap = x + r * run.x_row;
        const float* weight = w + r * run.w_row;
        for (int64_t c = 0; c < run.cols; ++c, tap += run.x_col, weight += run.w_col)
          for (int64_t k = 0; k < run.tail; ++k) step(sum, Pixels<R>(tap + k, x_pixel), 0, weight + k * J * 8);
      }
    }
  }
  const F8 low = set8(run.low), high = set8(run.high);
  // A NaN passes the clamp: both instructions return their second operand then.
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < J; ++j) sum[i][j] = min8(high, max8(low, sum[i][j]));
  }
  if (run.residual_after != nullptr) {
    const float* residual = run.residual_after + first * run.y_pixel;
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < J; ++j) sum[i][j] = sum[i][j] + load8(residual + i * run.y_pixel + j * run.y_block);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < J; ++j) store8(y + i * run.y_pixel + j * run.y_block, sum[i][j]);
  }
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
