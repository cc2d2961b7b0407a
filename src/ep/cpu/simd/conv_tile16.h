// Tiles whose accumulators are 512-bit vectors: each holds two blocks of output channels of one pixel; an odd last
// block has a vector of eight. Up to 28 accumulators, with the weights and one broadcast input, fill 32 registers. Only
// for simd/conv_simd.cc.
#pragma once

#include "ep/cpu/simd/halves.h"

#if HWY_MAX_BYTES >= 64
#include "ep/cpu/simd/conv.h"
#include "ep/cpu/simd/conv_pixels.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

inline constexpr int kConvWidths = 6;
// Nine pixels need 192 bytes of weights in 14 cycles, which L2 gives; these leave most of it for inputs.
inline constexpr int64_t kConvPanelBytes = 256 * 1024;
// Four products a cycle, and 10 GB/s at 2.8 GHz.
inline constexpr int64_t kConvFarProducts = 36;

enum class Source { kDense, kStrided };

// Pixels a tile: as many as the registers hold, so that the loops around them and the stores cost little.
constexpr int most_pixels(int width, Source) { return width > 4 ? 9 : 14; }

// The first sums of a tile that more than the bias is added to: `width` vectors of eight for each pixel. In memory,
// because registers would want code for every size of tile.
__attribute__((noinline)) inline void begin_tile(const ConvRun& run, float* sums, int64_t first, int pixels,
                                                 int width) {
  for (int j = 0; j < width; ++j) {
    const int64_t block = first * run.y_pixel + j * run.y_block;
    const float* from = run.bias != nullptr ? run.bias + j * 8 : run.y + block;
    const float* residual = run.residual_before != nullptr ? run.residual_before + block : nullptr;
    const int64_t step = run.bias != nullptr ? 0 : run.y_pixel;
    for (int i = 0; i < pixels; ++i) {
      F8 value = load8(from + i * step);
      if (residual != nullptr) value = value + load8(residual + i * run.y_pixel);
      store8(sums + (i * width + j) * 8, value);
    }
  }
}

// Adds the residual that comes after the clamp.
__attribute__((noinline)) inline void finish_tile(const ConvRun& run, int64_t first, int pixels, int width) {
  for (int j = 0; j < width; ++j) {
    for (int i = 0; i < pixels; ++i) {
      const int64_t at = (first + i) * run.y_pixel + j * run.y_block;
      store8(run.y + at, load8(run.y + at) + load8(run.residual_after + at));
    }
  }
}

template <int R, int J>
struct Sums {
  static constexpr int kPairs = J / 2, kOdd = J % 2;
  FW pair[R][kPairs + 1];
  F8 odd[R];

  // The same J blocks of eight for every pixel, or those of one pixel after the other.
  TENON_INLINE Sums(const float* row, bool repeats) {
    if (repeats) {
#pragma GCC unroll 14
      for (int i = 0; i < R; ++i) set(i, row);
    } else {
#pragma GCC unroll 14
      for (int i = 0; i < R; ++i) set(i, row + i * J * 8);
    }
  }

  TENON_INLINE void set(int i, const float* row) {
#pragma GCC unroll 3
    for (int j = 0; j < kPairs; ++j) pair[i][j] = load_wide(row + j * 16);
    if constexpr (kOdd) odd[i] = load8(row + kPairs * 16);
  }

  // One input channel: R broadcasts, J blocks of weights.
  template <typename Pixels>
  TENON_INLINE void step(const Pixels& x, const float* w) {
    FW weight[kPairs + 1];
    F8 last = zero8();
#pragma GCC unroll 3
    for (int j = 0; j < kPairs; ++j) weight[j] = load_wide(w + j * 16);
    if constexpr (kOdd) last = load8(w + kPairs * 16);
#pragma GCC unroll 14
    for (int i = 0; i < R; ++i) {
      if constexpr (kPairs == 0) {
        odd[i] = fma8(set8(x.at(i, 0)), last, odd[i]);
      } else {
        const FW value = set_wide(x.at(i, 0));
#pragma GCC unroll 3
        for (int j = 0; j < kPairs; ++j) pair[i][j] = fma8(value, weight[j], pair[i][j]);
        if constexpr (kOdd) odd[i] = fma8(low8(value), last, odd[i]);
      }
    }
  }

  // A NaN passes the clamp: both instructions return their second operand then.
  TENON_INLINE void store(float* y, int64_t pixel, int64_t block, float least, float most) const {
    const FW low = set_wide(least), high = set_wide(most);
#pragma GCC unroll 14
    for (int i = 0; i < R; ++i, y += pixel) {
      float* to = y;
#pragma GCC unroll 3
      for (int j = 0; j < kPairs; ++j, to += 2 * block) store_halves(to, to + block, min8(high, max8(low, pair[i][j])));
      if constexpr (kOdd) store8(to, min8(low8(high), max8(low8(low), odd[i])));
    }
  }
};

// Up to 8 input channels of one tap. Unrolled, this is no faster. Weights are fetched from L2 two blocks of channels
// ahead: the hardware follows them too late. Narrow tiles are bound by their loads, and need few.
template <int R, int J, Source kSource>
TENON_INLINE void run_channels(Sums<R, J>& sums, const float* x, int64_t x_pixel, const float* w, int64_t channels) {
#pragma GCC unroll 1
  for (int64_t k = 0; k < channels; ++k, w += J * 8) {
#pragma GCC unroll 3
    for (int j = 0; j < (J < 4 ? 0 : J); j += 2) __builtin_prefetch(w + (16 * J + j) * 8);
    if constexpr (kSource == Source::kDense)
      sums.step(DensePixels<R>(x + k, 8), w);
    else
      sums.step(Pixels<R>(x + k, x_pixel), w);
  }
}

template <int R, int J, Source kSource>
void tile(const ConvRun& run, int64_t first) {
  alignas(64) float begun[R * J * 8];
  const bool adds = run.bias == nullptr || run.residual_before != nullptr;
  if (adds) begin_tile(run, begun, first, R, J);
  const int64_t x_pixel = kSource == Source::kDense ? 8 : run.x_pixel;
  const float* x = run.x + first * x_pixel;
  const float* w = run.w;
  Sums<R, J> sums(adds ? begun : run.bias, !adds);
  const int64_t unit = run.block_channels;
  FetchAhead ahead(run, first, R, (run.blocks + (run.tail > 0 ? 1 : 0)) * run.rows);
  for (int64_t left = run.blocks * unit + run.tail; left > 0; left -= unit, x += run.x_block, w += run.w_block) {
    const int64_t channels = opaque(left < unit ? left : unit);
    const float* row = x;
    const float* row_weights = w;
    for (int64_t r = 0; r < run.rows; ++r, row += run.x_row, row_weights += run.w_row) {
      const float* tap = row;
      const float* weights = row_weights;
      ahead.next();
      // The next tile's pixels: each row of each block of channels is a stream of its own, more than the hardware
      // follows.
      if constexpr (kSource == Source::kDense) {
#pragma GCC unroll 7
        for (int i = 0; i < R; i += 2) __builtin_prefetch(row + (R + i) * 8);
      }
      for (int64_t c = 0; c < run.cols; ++c, tap += run.x_col, weights += run.w_col) {
        run_channels<R, J, kSource>(sums, tap, x_pixel, weights, channels);
      }
    }
  }
  sums.store(run.y + first * run.y_pixel, run.y_pixel, run.y_block, run.low, run.high);
  if (run.residual_after != nullptr) finish_tile(run, first, R, J);
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
#endif
