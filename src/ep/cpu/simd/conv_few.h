// Tiles of convolutions with few outputs: vectors hold the input channels of one pixel, or of two neighbours, and are
// added up at the end, because vectors of output channels would be nearly empty. Only for simd/conv_simd.cc.
#pragma once

#include "ep/cpu/simd/conv.h"
#include "ep/cpu/simd/halves.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

inline constexpr int kFewVectors = 8;
inline constexpr int64_t kFewPixels = kFewVectors * (kWide / 8);
// As many as there are registers for.
inline constexpr int kFewOutputs = kWide == 16 ? 3 : 1;

// Keeps gcc from loading a value again for each product that it is in.
template <typename V>
TENON_INLINE V loaded_once(V value) {
#if HWY_MAX_BYTES >= 64
  asm("" : "+v"(value.v.raw));
#endif
  return value;
}

// The sum over the channels of a pixel, added up as in sums_of_pixels(): which of the two a pixel meets depends on the
// number of threads.
TENON_INLINE float sum_of_channels(F8 v) {
  alignas(32) float c[8];
  store8(c, v);
  return ((c[0] + c[2]) + (c[1] + c[3])) + ((c[4] + c[6]) + (c[5] + c[7]));
}

// The sums over the channels of kFewPixels pixels, in their order.
TENON_INLINE FW sums_of_pixels(const FW (&v)[kFewVectors]) {
#if HWY_MAX_BYTES >= 32
  const hn::DFromV<decltype(FW::v)> d;
  const hn::Repartition<double, decltype(d)> halves;
  decltype(FW::v) pair[4], four[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto a = v[2 * i].v, b = v[2 * i + 1].v;
    pair[i] = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const auto a = hn::BitCast(halves, pair[2 * i]), b = hn::BitCast(halves, pair[2 * i + 1]);
    four[i] =
        hn::Add(hn::BitCast(d, hn::InterleaveLower(halves, a, b)), hn::BitCast(d, hn::InterleaveUpper(halves, a, b)));
  }
  FW sums;
#if HWY_MAX_BYTES >= 64
  sums.v.raw = _mm512_add_ps(_mm512_shuffle_f32x4(four[0].raw, four[1].raw, 0x88),
                             _mm512_shuffle_f32x4(four[0].raw, four[1].raw, 0xdd));
  const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  sums.v.raw = _mm512_permutexvar_ps(order, sums.v.raw);
#else
  sums.v.raw = _mm256_add_ps(_mm256_permute2f128_ps(four[0].raw, four[1].raw, 0x20),
                             _mm256_permute2f128_ps(four[0].raw, four[1].raw, 0x31));
#endif
  return sums;
#else
  float sums[kFewVectors];
  for (int i = 0; i < kFewVectors; ++i) sums[i] = sum_of_channels(v[i]);
  return load8(sums);
#endif
}

// The vectors of one run of neighbours, or of a single pixel.
template <int O, int R, typename V>
struct FewSums {
  V sum[O][R];

  TENON_INLINE FewSums() {
#pragma GCC unroll 3
    for (int o = 0; o < O; ++o) {
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) sum[o][i] = splat<V>(0);
    }
  }

  // All taps of one block of channels. Of the last block the first `tail` channels count: others may hold anything.
  template <bool kTail>
  TENON_INLINE void add_block(const ConvRun& run, const float* x, const float* w) {
    alignas(64) float counted[16] = {};
    for (int64_t i = 0; kTail && i < 16; ++i) counted[i] = i % 8 < run.tail ? 1.0f : 0.0f;
    const V counts = load_as<V>(counted), zero = splat<V>(0);
    for (int64_t r = 0; r < run.rows; ++r, x += run.x_row, w += run.w_row) {
      const float *tap = x, *weights = w;
      for (int64_t c = 0; c < run.cols; ++c, tap += run.x_col, weights += run.w_col) {
        V weight[O];
#pragma GCC unroll 3
        for (int o = 0; o < O; ++o) weight[o] = repeat8<V>(weights + o * 8);
#pragma GCC unroll 8
        for (int i = 0; i < R; ++i) {
          V value = loaded_once(load_as<V>(tap + i * static_cast<int>(sizeof(V) / sizeof(float))));
          if constexpr (kTail) value = select_lt8(zero, counts, value, zero);
#pragma GCC unroll 3
          for (int o = 0; o < O; ++o) sum[o][i] = fma8(value, weight[o], sum[o][i]);
        }
      }
    }
  }

  TENON_INLINE void add(const ConvRun& run, const float* x) {
    const float* w = run.w;
    for (int64_t b = 0; b < run.blocks; ++b, x += run.x_block, w += run.w_block) add_block<false>(run, x, w);
    if (run.tail > 0) add_block<true>(run, x, w);
  }
};

template <int O>
TENON_INLINE void few_pixels(const ConvRun& run, int64_t first) {
  FewSums<O, kFewVectors, FW> sums;
  sums.add(run, run.x + first * 8);
#pragma GCC unroll 3
  for (int o = 0; o < O; ++o) {
    FW value = sums_of_pixels(sums.sum[o]) + splat<FW>(run.bias[o]);
    value = min8(splat<FW>(run.high), max8(splat<FW>(run.low), value));
    float* const y = run.y + o * run.y_block + first * run.y_pixel;
    if (run.y_pixel == 1) {
      store_wide(y, value);
    } else {
      alignas(64) float each[kFewPixels];
      store_wide(each, value);
      for (int64_t i = 0; i < kFewPixels; ++i) y[i * run.y_pixel] = each[i];
    }
  }
}

template <int O>
TENON_INLINE void one_of_few(const ConvRun& run, int64_t pixel) {
  FewSums<O, 1, F8> sums;
  sums.add(run, run.x + pixel * run.x_pixel);
#pragma GCC unroll 3
  for (int o = 0; o < O; ++o) {
    float value = sum_of_channels(sums.sum[o][0]) + run.bias[o];
    value = value < run.low ? run.low : value;
    run.y[o * run.y_block + pixel * run.y_pixel] = value > run.high ? run.high : value;
  }
}

// Neighbours by as many as a tile has, the last ones some of which are computed twice; others one by one.
template <int O>
void run_few(const ConvRun& run) {
  if (run.x_pixel != 8 || run.pixels < kFewPixels) {
    for (int64_t pixel = 0; pixel < run.pixels; ++pixel) one_of_few<O>(run, pixel);
    return;
  }
  for (int64_t first = 0; first < run.pixels; first += kFewPixels)
    few_pixels<O>(run, first + kFewPixels <= run.pixels ? first : run.pixels - kFewPixels);
}

// Plain input: vectors of neighbouring pixels, R of them.
template <int O, int R>
TENON_INLINE void plain_pixels(const ConvRun& run, int64_t first) {
  FewSums<O, R, FW> sums;
  const float *x = run.x + first, *w = run.w;
  for (int64_t b = 0; b < run.blocks; ++b, x += run.x_block) {
    const float* row = x;
    for (int64_t r = 0; r < run.rows; ++r, row += run.x_row) {
      const float* tap = row;
      for (int64_t c = 0; c < run.cols; ++c, tap += run.x_col, w += O) {
#pragma GCC unroll 4
        for (int i = 0; i < R; ++i) {
          const FW value = loaded_once(load_wide(tap + i * kWide));
#pragma GCC unroll 3
          for (int o = 0; o < O; ++o) sums.sum[o][i] = fma8(value, splat<FW>(w[o]), sums.sum[o][i]);
        }
      }
    }
  }
#pragma GCC unroll 3
  for (int o = 0; o < O; ++o) {
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      const int64_t at = first + i * kWide, left = run.pixels - at;
      FW value = sums.sum[o][i] + splat<FW>(run.bias[o]);
      value = min8(splat<FW>(run.high), max8(splat<FW>(run.low), value));
      if (left >= kWide) {
        store_wide(run.y + o * run.y_block + at, value);
      } else if (left > 0) {
        store_part_wide(run.y + o * run.y_block + at, left, value);
      }
    }
  }
}

template <int O>
void run_few_plain(const ConvRun& run) {
  constexpr int kVectors = 4;
  int64_t first = 0;
  for (; first + (kVectors - 1) * kWide < run.pixels; first += kVectors * kWide) plain_pixels<O, kVectors>(run, first);
  for (; first < run.pixels; first += kWide) plain_pixels<O, 1>(run, first);
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
