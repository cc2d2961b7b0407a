// The tiles keep pixels x width accumulators in registers: on AVX2 12 of 16, with the weights and one broadcast input.
#include "ep/cpu/simd/conv.h"
#include "ep/cpu/simd/f8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// Pixels a tile for each width (in blocks of 8 output channels).
#if HWY_MAX_BYTES >= 32
constexpr int kPixels[kConvWidths] = {12, 6, 4};
#else
constexpr int kPixels[kConvWidths] = {6, 3, 2};
#endif

enum class Source { kPoint, kWindow, kPlain };

// Keeps the compiler from folding an address into others: left alone, gcc makes one induction variable for each pixel
// and channel, and spills them all.
template <typename T>
TENON_INLINE T opaque(T value) {
#if defined(__GNUC__)
  asm("" : "+r"(value));
#endif
  return value;
}

// Keeps gcc from folding three weights a channel into each product as memory operands: 16 loads instead of 7 for 12
// products cost 1.3 times.
TENON_INLINE F8 in_register(F8 value) {
#if defined(__AVX__) && HWY_MAX_BYTES >= 32
  asm("" : "+x"(value.v.raw));
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

// The weights of 8 input channels, one cache line after the other.
template <int J>
TENON_INLINE void fetch_weights(const float* w) {
#pragma GCC unroll 12
  for (int i = 0; i < J * 4; ++i) __builtin_prefetch(w + i * 16);
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
  if constexpr (kSource == Source::kPoint) {
    for (int64_t b = 0; b < run.blocks; ++b, x += run.x_block, w += J * 64) {
      // The next tile's pixels: each block of channels is a stream of its own, more than the hardware follows.
#pragma GCC unroll 6
      for (int i = 0; i < R; i += 2) __builtin_prefetch(x + (R + i) * 8);
      if (run.w_ahead != 0) fetch_weights<J>(w + run.w_ahead);
      step8(sum, DensePixels<R>(x, 8), w);
    }
    for (int64_t k = 0; k < run.tail; ++k) step(sum, DensePixels<R>(x + k, 8), 0, w + k * J * 8);
  } else {
    for (int64_t b = 0; b < run.blocks; ++b, x += run.x_block, w += run.w_block) {
      for (int64_t r = 0; r < run.rows; ++r) {
        const float* tap = x + r * run.x_row;
        const float* weight = w + r * run.w_row;
        for (int64_t c = 0; c < run.cols; ++c, tap += run.x_col, weight += run.w_col) {
          if constexpr (kSource == Source::kPlain)
            step(sum, Pixels<R>(tap, x_pixel), 0, weight);
          else {
            if (run.w_ahead != 0) fetch_weights<J>(weight + run.w_ahead);
            step8(sum, Pixels<R>(tap, x_pixel), weight);
          }
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

using Tile = void (*)(const ConvRun&, int64_t);

template <int J, Source kSource, int R = 1>
constexpr Tile tile_of(int pixels) {
  if constexpr (R > kPixels[J - 1])
    return nullptr;
  else
    return pixels == R ? &tile<R, J, kSource> : tile_of<J, kSource, R + 1>(pixels);
}

template <int J, Source kSource>
struct Tiles {
  Tile at[kPixels[J - 1] + 1];
  constexpr Tiles() : at() {
    for (int r = 1; r <= kPixels[J - 1]; ++r) at[r] = tile_of<J, kSource>(r);
  }
};

// Cuts the pixels into as few tiles as possible, all nearly equal: 25 pixels are five tiles of 5, not four of 6 and a
// slow one of 1.
template <int J, Source kSource>
void run_tiles(const ConvRun& run) {
  static constexpr Tiles<J, kSource> kTiles;
  const int64_t tiles = (run.pixels + kPixels[J - 1] - 1) / kPixels[J - 1];
  if (tiles == 0) return;
  const int64_t small = run.pixels / tiles, larger = run.pixels % tiles;
  int64_t first = 0;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t size = small + (t < larger ? 1 : 0);
    kTiles.at[size](run, first);
    first += size;
  }
}

template <int J>
void run_blocked(const ConvRun& run) {
  if (run.rows == 1 && run.cols == 1 && run.x_pixel == 8 && run.w_block == J * 64)
    run_tiles<J, Source::kPoint>(run);
  else
    run_tiles<J, Source::kWindow>(run);
}

}  // namespace

extern const ConvTable conv_table;
const ConvTable conv_table = {
    {&run_blocked<1>, &run_blocked<2>, &run_blocked<3>},
    {&run_tiles<1, Source::kPlain>, &run_tiles<2, Source::kPlain>, &run_tiles<3, Source::kPlain>},
};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
