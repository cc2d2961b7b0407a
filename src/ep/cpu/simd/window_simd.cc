#include "ep/cpu/simd/window.h"

#include "ep/cpu/simd/f8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

#if HWY_MAX_BYTES >= 32
constexpr int kPixels = 12;
#else
constexpr int kPixels = 6;
#endif

template <int R>
TENON_INLINE void finish(const WindowRun& run, int64_t first, F8 (&sum)[R]) {
  const F8 low = set8(run.low), high = set8(run.high);
  const float* before = run.residual_before == nullptr ? nullptr : run.residual_before + first * run.y_pixel;
  const float* after = run.residual_after == nullptr ? nullptr : run.residual_after + first * run.y_pixel;
  float* y = run.y + first * run.y_pixel;
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) {
    F8 v = sum[i];
    if (before != nullptr) v = v + load8(before + i * run.y_pixel);
    v = min8(high, max8(low, v));
    if (after != nullptr) v = v + load8(after + i * run.y_pixel);
    store8(y + i * run.y_pixel, v);
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
  finish<R>(run, first, sum);
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
  finish<R>(run, first, sum);
}

template <int R>
void maximum_tile(const WindowRun& run, int64_t first) {
  const float* x = run.x + first * run.x_pixel;
  F8 best[R];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) best[i] = load8(x + i * run.x_pixel);
  for (int64_t r = 0; r < run.rows; ++r) {
    const float* tap = x + r * run.x_row;
    for (int64_t c = 0; c < run.cols; ++c, tap += run.x_col) {
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) best[i] = max_or_nan8(best[i], load8(tap + i * run.x_pixel));
    }
  }
  float* y = run.y + first * run.y_pixel;
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) store8(y + i * run.y_pixel, best[i]);
}

template <int R>
void average_tile(const WindowRun& run, int64_t first) {
  const float* x = run.x + first * run.x_pixel;
  F8 sum[R];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) sum[i] = zero8();
  for (int64_t r = 0; r < run.rows; ++r) {
    const float* tap = x + r * run.x_row;
    for (int64_t c = 0; c < run.cols; ++c, tap += run.x_col) {
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) sum[i] = sum[i] + load8(tap + i * run.x_pixel);
    }
  }
  const F8 scale = set8(run.scale);
  float* y = run.y + first * run.y_pixel;
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i) store8(y + i * run.y_pixel, sum[i] * scale);
}

using Tile = void (*)(const WindowRun&, int64_t);

// Tiles of kPixels, then 4, then single ones.
template <Tile kLarge, Tile kSmall, Tile kOne>
void run_tiles(const WindowRun& run) {
  int64_t first = 0;
  for (; first + kPixels <= run.pixels; first += kPixels) kLarge(run, first);
  for (; first + 4 <= run.pixels; first += 4) kSmall(run, first);
  for (; first < run.pixels; ++first) kOne(run, first);
}

template <int K>
void depthwise_dense(const WindowRun& run) {
  run_tiles<&depthwise_dense_tile<kPixels, K>, &depthwise_dense_tile<4, K>, &depthwise_dense_tile<1, K>>(run);
}

void depthwise(const WindowRun& run) {
  if (run.x_pixel == 8 && run.x_col == 8) {
    if (run.cols == 3) return depthwise_dense<3>(run);
    if (run.cols == 5) return depthwise_dense<5>(run);
    if (run.cols == 7) return depthwise_dense<7>(run);
  }
  run_tiles<&depthwise_tile<kPixels>, &depthwise_tile<4>, &depthwise_tile<1>>(run);
}

void maximum(const WindowRun& run) { run_tiles<&maximum_tile<kPixels>, &maximum_tile<4>, &maximum_tile<1>>(run); }
void average(const WindowRun& run) { run_tiles<&average_tile<kPixels>, &average_tile<4>, &average_tile<1>>(run); }

}  // namespace

extern const WindowTable window_table;
const WindowTable window_table = {&depthwise, &maximum, &average};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
