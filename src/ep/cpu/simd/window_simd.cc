#include "ep/cpu/simd/window.h"

#include <algorithm>

#include "ep/cpu/simd/halves.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

#if HWY_MAX_BYTES >= 32
constexpr int kPixels = 12;
#else
constexpr int kPixels = 6;
#endif

// R vectors of one pixel (F8), or of two neighbours (FW).
template <int R, typename V>
TENON_INLINE void finish(const WindowRun& run, int64_t first, V (&sum)[R]) {
  const V low = splat<V>(run.low), high = splat<V>(run.high);
  const int64_t step = sizeof(V) == sizeof(F8) ? run.y_pixel : kWide;
  const float* before = run.residual_before == nullptr ? nullptr : run.residual_before + first * run.y_pixel;
  const float* after = run.residual_after == nullptr ? nullptr : run.residual_after + first * run.y_pixel;
  float* y = run.y + first * run.y_pixel;
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) {
    V v = sum[i];
    if (before != nullptr) v = v + load_as<V>(before + i * step);
    v = min8(high, max8(low, v));
    if (after != nullptr) v = v + load_as<V>(after + i * step);
    store8(y + i * step, v);
  }
}

template <int R>
void depthwise_tile(const WindowRun& run, int64_t first) {
  F8 sum[R];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) sum[i] = load8(run.bias);
  const float* x = run.x + first * run.x_pixel;
  for (int64_t r = 0; r < run.rows; ++r) {
    const float* tap = x + r * run.x_row;
    const float* w = run.w + r * run.w_row;
    for (int64_t c = 0; c < run.cols; ++c, tap += run.x_col, w += 8) {
      const F8 weight = load8(w);
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) sum[i] = fma8(load8(tap + i * run.x_pixel), weight, sum[i]);
    }
  }
  finish<R, F8>(run, first, sum);
}

// Neighbours in memory, K taps a row: each input is loaded once for up to K products.
template <int R, int K>
void depthwise_dense_tile(const WindowRun& run, int64_t first) {
  F8 sum[R];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) sum[i] = load8(run.bias);
  const float* x = run.x + first * 8;
  const float* w = run.w;
  for (int64_t r = 0; r < run.rows; ++r, x += run.x_row, w += run.w_row) {
#pragma GCC unroll 7
    for (int c = 0; c < K; ++c) {
      const F8 weight = load8(w + c * 8);
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) sum[i] = fma8(load8(x + (i + c) * 8), weight, sum[i]);
    }
  }
  finish<R, F8>(run, first, sum);
}

#if HWY_MAX_BYTES >= 64
// The same for R pairs of pixels: pairs that begin at an odd tap are made of the halves of two others, because loads
// across the ends of cache lines take twice as long.
template <int R, int K>
void depthwise_pairs_tile(const WindowRun& run, int64_t first) {
  static_assert(K % 2 == 1);
  FW sum[R];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) sum[i] = repeat8<FW>(run.bias);
  const float* x = run.x + first * 8;
  const float* w = run.w;
  for (int64_t r = 0; r < run.rows; ++r, x += run.x_row, w += run.w_row) {
    FW weight[K];
#pragma GCC unroll 7
    for (int c = 0; c < K; ++c) weight[c] = repeat8<FW>(w + c * 8);
    FW even = load_wide(x);
#pragma GCC unroll 15
    for (int m = 0; m < R + K / 2; ++m) {
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i)
        if (m >= i && 2 * (m - i) < K) sum[i] = fma8(even, weight[2 * (m - i)], sum[i]);
      if (m + 1 == R + K / 2) break;
      const FW next = load_wide(x + (m + 1) * 16), odd = middle_halves(even, next);
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i)
        if (m >= i && 2 * (m - i) + 1 < K) sum[i] = fma8(odd, weight[2 * (m - i) + 1], sum[i]);
      even = next;
    }
  }
  finish<R, FW>(run, first, sum);
}

// R pixels that are two apart: pairs of taps are multiplied as they lie in memory, each pair for up to K / 2 + 1
// pixels, and the two sums of a pixel are added in the end.
template <int R, int K>
void depthwise_strided_tile(const WindowRun& run, int64_t first) {
  static_assert(K % 2 == 1);
  constexpr int kPairs = K / 2;
  FW sum[R];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) sum[i] = load_part_wide(run.bias, 8, 0.0f);
  const float* x = run.x + first * 16;
  const float* w = run.w;
  for (int64_t r = 0; r < run.rows; ++r, x += run.x_row, w += run.w_row) {
    FW weight[kPairs + 1];
#pragma GCC unroll 4
    for (int c = 0; c < kPairs; ++c) weight[c] = load_wide(w + c * 16);
    weight[kPairs] = load_part_wide(w + kPairs * 16, 8, 0.0f);
#pragma GCC unroll 15
    for (int m = 0; m < R + kPairs; ++m) {
      // There may be nothing after the last tap.
      const FW pair = m + 1 == R + kPairs ? load_part_wide(x + m * 16, 8, 0.0f) : load_wide(x + m * 16);
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) {
        if (m >= i && m - i < kPairs) sum[i] = fma8(pair, weight[m - i], sum[i]);
        if (m - i == kPairs) sum[i] = fma_low8(pair, weight[kPairs], sum[i]);
      }
    }
  }
  F8 sums[R];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) sums[i] = low8(sum[i]) + high8(sum[i]);
  finish<R, F8>(run, first, sums);
}
#endif

#if HWY_MAX_BYTES >= 64
constexpr int kLines = 2;  // side by side, because the sums of one line would wait for each other

// Adds K taps of each row to R pairs of pixels of each line: pairs that begin at an odd tap are made of the halves of
// two others, because loads across the ends of cache lines take twice as long.
template <int R, int K>
TENON_INLINE void add_taps(const WindowRun& run, const float* x, int64_t x_line, const float* w, FW (&sum)[kLines][R]) {
  for (int64_t r = 0; r < run.rows; ++r, x += run.x_row, w += run.w_row) {
    FW weight[K], even[kLines];
#pragma GCC unroll 7
    for (int c = 0; c < K; ++c) weight[c] = repeat8<FW>(w + c * 8);
#pragma GCC unroll 2
    for (int l = 0; l < kLines; ++l) even[l] = load_wide(x + l * x_line);
#pragma GCC unroll 15
    for (int m = 0; m < R + K / 2; ++m) {
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
        for (int l = 0; l < kLines; ++l)
          if (m >= i && 2 * (m - i) < K) sum[l][i] = fma8(even[l], weight[2 * (m - i)], sum[l][i]);
      if (m + 1 == R + K / 2) break;
      FW odd[kLines];
#pragma GCC unroll 2
      for (int l = 0; l < kLines; ++l) {
        const FW next = load_wide(x + l * x_line + (m + 1) * 16);
        odd[l] = middle_halves(even[l], next);
        even[l] = next;
      }
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
        for (int l = 0; l < kLines; ++l)
          if (m >= i && 2 * (m - i) + 1 < K) sum[l][i] = fma8(odd[l], weight[2 * (m - i) + 1], sum[l][i]);
    }
  }
}

// Stores sums of `pixels` pixels `at` floats behind the first output.
void finish_line(const WindowRun& run, int64_t at, const float* sums, int64_t pixels) {
  const FW low = splat<FW>(run.low), high = splat<FW>(run.high);
  const auto* const before = run.residual_before == nullptr ? nullptr : run.residual_before + at;
  const auto* const after = run.residual_after == nullptr ? nullptr : run.residual_after + at;
  for (int64_t i = 0; i < pixels; i += 2) {
    // The last pixel may have none beside it.
    const int64_t floats = std::min<int64_t>(2, pixels - i) * 8;
    FW v = load_wide(sums + i * 8);
    if (before != nullptr) v = v + load_part_wide(before + i * 8, floats, 0.0f);
    v = min8(high, max8(low, v));
    if (after != nullptr) v = v + load_part_wide(after + i * 8, floats, 0.0f);
    store_part_wide(run.y + at + i * 8, floats, v);
  }
}

// R pairs of pixels from pixel `first` on, of which the last may be one pixel, in two lines from `line` on; a single
// line is computed twice.
template <int R>
void lines_tile(const WindowRun& run, int64_t line, int64_t first) {
  const bool is_single = run.lines == 1;
  const int64_t x_line = is_single ? 0 : run.x_line, y_line = is_single ? 0 : run.y_line;
  FW sum[kLines][R];
#pragma GCC unroll 2
  for (int l = 0; l < kLines; ++l)
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) sum[l][i] = repeat8<FW>(run.bias);
  const float* x = run.x + line * run.x_line + first * 8;
  const float* w = run.w;
  int64_t left = run.cols;
  for (; left > 5; left -= 7, x += 7 * 8, w += 7 * 8) add_taps<R, 7>(run, x, x_line, w, sum);
  if (left > 3)
    add_taps<R, 5>(run, x, x_line, w, sum);
  else if (left > 0)
    add_taps<R, 3>(run, x, x_line, w, sum);
  alignas(64) float sums[kLines][2 * R * 8];
#pragma GCC unroll 2
  for (int l = 0; l < kLines; ++l)
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) store8(sums[l] + i * kWide, sum[l][i]);
  const int64_t pixels = std::min<int64_t>(2 * R, run.pixels - first);
  for (int l = 0; l < kLines; ++l) finish_line(run, line * run.y_line + l * y_line + first * 8, sums[l], pixels);
}

// Tiles of R pairs of two lines, of which the last ones begin earlier where they would not fit.
template <int R>
void run_lines(const WindowRun& run, int64_t pairs) {
  for (int64_t line = 0; line < run.lines; line += kLines)
    for (int64_t pair = 0; pair < pairs; pair += R)
      lines_tile<R>(run, std::max<int64_t>(0, std::min(line, run.lines - kLines)), 2 * std::min(pair, pairs - R));
}

void depthwise_lines(const WindowRun& run) {
  struct Choice {
    int64_t pairs, cost;  // of seven taps, in cycles
    void (*run)(const WindowRun&, int64_t);
  };
  constexpr Choice kChoices[] = {{8, 33, &run_lines<8>}, {7, 29, &run_lines<7>}, {6, 25, &run_lines<6>},
                                 {5, 21, &run_lines<5>}, {4, 17, &run_lines<4>}, {2, 14, &run_lines<2>},
                                 {1, 14, &run_lines<1>}};
  const int64_t pairs = (run.pixels + 1) / 2;
  const Choice* best = nullptr;
  int64_t least = INT64_MAX;
  for (const Choice& choice : kChoices) {
    const int64_t cost = (pairs + choice.pairs - 1) / choice.pairs * choice.cost;
    if (choice.pairs > pairs || cost >= least) continue;
    least = cost;
    best = &choice;
  }
  if (best != nullptr) best->run(run, pairs);
}
#endif

// R vectors of one pixel (F8), or of two neighbours (FW).
template <int R, typename V>
void maximum_tile(const WindowRun& run, int64_t first) {
  const int64_t step = sizeof(V) == sizeof(F8) ? run.x_pixel : kWide;
  const float* x = run.x + first * run.x_pixel;
  V best[R];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) best[i] = load_as<V>(x + i * step);
  for (int64_t r = 0; r < run.rows; ++r) {
    const float* tap = x + r * run.x_row;
    for (int64_t c = 0; c < run.cols; ++c, tap += run.x_col) {
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) best[i] = max_or_nan8(best[i], load_as<V>(tap + i * step));
    }
  }
  float* y = run.y + first * run.y_pixel;
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) store8(y + i * (sizeof(V) == sizeof(F8) ? run.y_pixel : kWide), best[i]);
}

template <int R, typename V>
void average_tile(const WindowRun& run, int64_t first) {
  const int64_t step = sizeof(V) == sizeof(F8) ? run.x_pixel : kWide;
  const float* x = run.x + first * run.x_pixel;
  V sum[R];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) sum[i] = splat<V>(0.0f);
  for (int64_t r = 0; r < run.rows; ++r) {
    const float* tap = x + r * run.x_row;
    for (int64_t c = 0; c < run.cols; ++c, tap += run.x_col) {
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) sum[i] = sum[i] + load_as<V>(tap + i * step);
    }
  }
  const V scale = splat<V>(run.scale);
  float* y = run.y + first * run.y_pixel;
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) store8(y + i * (sizeof(V) == sizeof(F8) ? run.y_pixel : kWide), sum[i] * scale);
}

using Tile = void (*)(const WindowRun&, int64_t);

// Tiles of kPixels, then 4, then single ones, from pixel `first` on.
template <Tile kLarge, Tile kSmall, Tile kOne>
void run_tiles(const WindowRun& run, int64_t first = 0) {
  for (; first + kPixels <= run.pixels; first += kPixels) kLarge(run, first);
  for (; first + 4 <= run.pixels; first += 4) kSmall(run, first);
  for (; first < run.pixels; ++first) kOne(run, first);
}

#if HWY_MAX_BYTES >= 64
// Pixels of whole pairs, in tiles of 12, 4 and 1 of them; none where pixels are not neighbours in memory.
template <Tile kLarge, Tile kSmall, Tile kOne>
int64_t run_pairs(const WindowRun& run) {
  if (run.x_pixel != 8 || run.y_pixel != 8) return 0;
  int64_t first = 0;
  for (; first + 24 <= run.pixels; first += 24) kLarge(run, first);
  for (; first + 8 <= run.pixels; first += 8) kSmall(run, first);
  for (; first + 2 <= run.pixels; first += 2) kOne(run, first);
  return first;
}
#endif

template <int K>
void depthwise_dense(const WindowRun& run) {
#if HWY_MAX_BYTES >= 64
  int64_t first =
      run_pairs<&depthwise_pairs_tile<12, K>, &depthwise_pairs_tile<4, K>, &depthwise_pairs_tile<1, K>>(run);
  for (; first < run.pixels; ++first) depthwise_dense_tile<1, K>(run, first);
#else
  run_tiles<&depthwise_dense_tile<kPixels, K>, &depthwise_dense_tile<4, K>, &depthwise_dense_tile<1, K>>(run);
#endif
}

#if HWY_MAX_BYTES >= 64
template <int K>
void depthwise_strided(const WindowRun& run) {
  run_tiles<&depthwise_strided_tile<kPixels, K>, &depthwise_strided_tile<4, K>, &depthwise_strided_tile<1, K>>(run);
}
#endif

void depthwise(const WindowRun& run) {
  if (run.x_pixel == 8 && run.x_col == 8 && run.y_pixel == 8) {
    if (run.cols == 3) return depthwise_dense<3>(run);
    if (run.cols == 5) return depthwise_dense<5>(run);
    if (run.cols == 7) return depthwise_dense<7>(run);
  }
#if HWY_MAX_BYTES >= 64
  if (run.x_pixel == 16 && run.x_col == 8) {
    if (run.cols == 3) return depthwise_strided<3>(run);
    if (run.cols == 5) return depthwise_strided<5>(run);
  }
#endif
  run_tiles<&depthwise_tile<kPixels>, &depthwise_tile<4>, &depthwise_tile<1>>(run);
}

#if HWY_MAX_BYTES < 64
// Lines are rounded up to whole tiles where the next one, which lies behind, overwrites what they store too far.
void depthwise_lines(const WindowRun& run) {
  constexpr int64_t kTile = 4;
  const bool joined = run.y_line == run.pixels * 8;
  const int64_t wanted = joined && run.pixels % kTile == 3 ? run.pixels + 1 : run.pixels;
  WindowRun line = run;
  for (int64_t i = 0; i < run.lines; ++i) {
    line.pixels = i + 1 < run.lines ? wanted : run.pixels;
    depthwise(line);
    line.x += run.x_line;
    line.y += run.y_line;
    if (run.residual_before != nullptr) line.residual_before += run.y_line;
    if (run.residual_after != nullptr) line.residual_after += run.y_line;
  }
}
#endif

void maximum(const WindowRun& run) {
  int64_t first = 0;
#if HWY_MAX_BYTES >= 64
  first = run_pairs<&maximum_tile<12, FW>, &maximum_tile<4, FW>, &maximum_tile<1, FW>>(run);
#endif
  run_tiles<&maximum_tile<kPixels, F8>, &maximum_tile<4, F8>, &maximum_tile<1, F8>>(run, first);
}

void average(const WindowRun& run) {
  int64_t first = 0;
#if HWY_MAX_BYTES >= 64
  first = run_pairs<&average_tile<12, FW>, &average_tile<4, FW>, &average_tile<1, FW>>(run);
#endif
  run_tiles<&average_tile<kPixels, F8>, &average_tile<4, F8>, &average_tile<1, F8>>(run, first);
}

}  // namespace

extern const WindowTable window_table;
const WindowTable window_table = {&depthwise, &depthwise_lines, &maximum, &average};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
