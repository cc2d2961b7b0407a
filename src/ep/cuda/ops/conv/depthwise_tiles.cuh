// Depthwise convolutions with channels last. The window's taps one after the other would wait for memory each time, so
// a block copies all that it reads of the image, some channels of a tile with its halo, to shared memory at once, and
// the weights as float32, which it loads before the kernel ahead has ended. A thread then makes two channels of
// neighbouring outputs of a row, and holds in registers what they read of a row.
#pragma once

#include "ep/cuda/ops/conv/depthwise_tiles_params.h"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

// Two channels as they lie in memory. As words: the compiler would take 16-bit elements apart where they are loaded,
// and wait for each load there.
template <typename T>
using ChannelPair = Pack<unsigned, sizeof(T) / 2>;

template <typename T>
__device__ __forceinline__ void pair_numbers(const ChannelPair<T>& pair, float (&numbers)[2]) {
  if constexpr (sizeof(T) == 2) {
    numbers[0] = load(T{static_cast<unsigned short>(pair.v[0])});
    numbers[1] = load(T{static_cast<unsigned short>(pair.v[0] >> 16)});
  } else {
    numbers[0] = __uint_as_float(pair.v[0]);
    numbers[1] = __uint_as_float(pair.v[1]);
  }
}

template <typename T>
__device__ __forceinline__ ChannelPair<T> pair_of(const float (&numbers)[2]) {
  ChannelPair<T> pair;
  if constexpr (sizeof(T) == 2) {
    pair.v[0] = store<T>(numbers[0]).bits | static_cast<unsigned>(store<T>(numbers[1]).bits) << 16;
  } else {
    pair.v[0] = __float_as_uint(numbers[0]);
    pair.v[1] = __float_as_uint(numbers[1]);
  }
  return pair;
}

// The sizes that unroll the loops, and where pixels lie in shared memory, in elements. A thread makes `outputs` of a
// row, a block `across` times as many in `down` rows.
template <typename T, int chunk, int kernel_h, int kernel_w, int stride_h, int stride_w, int outputs, int across,
          int down>
struct TileShape {
  static constexpr int kReads = (outputs - 1) * stride_w + kernel_w;  // of a row, by a thread
  static constexpr int kHeight = (down - 1) * stride_h + kernel_h;
  static constexpr int kWidth = (across * outputs - 1) * stride_w + kernel_w;
  static constexpr int kPixels = kHeight * kWidth, kTaps = kernel_h * kernel_w;
  // The half warps of 16-bit numbers read 64 bytes each, a stride apart: padding puts them into different banks.
  static constexpr int kPadding = sizeof(T) != 2      ? 0
                                  : stride_h % 2 == 0 ? kTileChannels / 2
                                  : kWidth % 2 == 0   ? kTileChannels
                                                      : 0;
  static constexpr int kRow = kWidth * kTileChannels + kPadding;
  static constexpr int kSharedWords = kHeight * kRow * sizeof(T) / 4;
  // The chunks of a pixel or tap that threads copy, and how many pixels or taps they copy at once.
  static constexpr int kThreads = across * down * kTileLanes;
  static constexpr int kChunks = kTileChannels / chunk, kStep = kThreads / kChunks;
  static constexpr int kPixelTurns = (kPixels + kStep - 1) / kStep, kTapTurns = (kTaps + kStep - 1) / kStep;
};

// Weights are [kernel row][kernel column][channel]; kChunk channels are copied at once. kRowsUnrolled: of the window,
// one or all. `bias` and `residual` may be null.
template <typename T, Activation kActivation, int kChunk, int kKernelH, int kKernelW, int kStrideH, int kStrideW,
          int kOutputs, int kAcross, int kDown, int kRowsUnrolled>
__global__ void __launch_bounds__((kAcross * kDown) * kTileLanes)
    depthwise_tiles(DepthwiseTilesParams p, const T* x, const T* w, const float* bias, const T* residual, T* y) {
  using Tile = TileShape<T, kChunk, kKernelH, kKernelW, kStrideH, kStrideW, kOutputs, kAcross, kDown>;
  using Words = Pack<unsigned, kChunk * sizeof(T) / 4>;
  using Pair = ChannelPair<T>;
  __shared__ Pack<float, 4> shared_weights[Tile::kTaps * kTileChannels / 4];
  __shared__ Pack<unsigned, 4> shared_pixels[Tile::kSharedWords / 4];
  float* const weights = &shared_weights[0].v[0];
  T* const pixels = reinterpret_cast<T*>(shared_pixels);
  unsigned block[4];
  split_index<4>(blockIdx.x, p.map.dims, block);
  const int slice = static_cast<int>(block[3]) * kTileChannels, channels_left = p.channels - slice;
  let_next_kernel_start();

  // Of channels beyond the last one any others are loaded, which nothing uses.
  const unsigned first = threadIdx.x / Tile::kChunks;
  const int c = static_cast<int>(threadIdx.x % Tile::kChunks) * kChunk;
  const bool copies = c < channels_left;
  Words raw[Tile::kTapTurns];
  if (!p.constant) wait_for_previous_kernel();
#pragma unroll
  for (int i = 0; i < Tile::kTapTurns; ++i) {
    const int tap = static_cast<int>(first) + i * Tile::kStep;
    const int at = copies && tap < Tile::kTaps ? tap * p.channels + slice + c : 0;
    raw[i] = *reinterpret_cast<const Words*>(w + at);
  }
  const int lane = static_cast<int>(threadIdx.x % kTileLanes) * 2,
            position = static_cast<int>(threadIdx.x / kTileLanes);
  // The half warps are in neighbouring rows where a tile has several.
  const int down = position % kDown, across = position / kDown;
  const int row = static_cast<int>(block[1]) * kDown + down;
  const int column = (static_cast<int>(block[2]) * kAcross + across) * kOutputs;
  const int channel = slice + lane;
  const bool mine = lane < channels_left && row < p.out_h && column < p.out_w;
  float added[2] = {};
  if (bias != nullptr && mine) added[0] = bias[channel], added[1] = bias[channel + 1];
  // Where the thread's pixels come from; below 0: outside of the image. What can be computed before the wait is.
  const int top = static_cast<int>(block[1]) * (kDown * kStrideH) - p.pad_h;
  const int left = static_cast<int>(block[2]) * (kAcross * kOutputs * kStrideW) - p.pad_w;
  int from[Tile::kPixelTurns];
#pragma unroll
  for (int i = 0; i < Tile::kPixelTurns; ++i) {
    const unsigned pixel = first + i * Tile::kStep;
    const int h = top + static_cast<int>(pixel / Tile::kWidth), v = left + static_cast<int>(pixel % Tile::kWidth);
    const bool inside = copies && static_cast<unsigned>(h) < static_cast<unsigned>(p.in_h) &&
                        static_cast<unsigned>(v) < static_cast<unsigned>(p.in_w);
    from[i] = inside ? h * p.x_row + v * p.x_column + slice + c : -1;
    asm volatile("" : "+r"(from[i]));  // or the compiler computes it behind the wait
  }
  if (p.constant) wait_for_previous_kernel();
  const T* const image = x + static_cast<int>(block[0]) * p.x_image;
#pragma unroll
  for (int i = 0; i < Tile::kPixelTurns; ++i) {
    const unsigned pixel = first + i * Tile::kStep;
    if ((i + 1) * Tile::kStep <= Tile::kPixels || pixel < Tile::kPixels)
      copy_to_shared<kChunk * sizeof(T)>(
          pixels + (pixel / Tile::kWidth * Tile::kRow + pixel % Tile::kWidth * kTileChannels + c),
          image + (from[i] < 0 ? 0 : from[i]), from[i] >= 0);
  }
  const int at = static_cast<int>(block[0]) * p.y_image + row * p.y_row + column * p.y_column + channel;
  Pair others[kOutputs];
#pragma unroll
  for (int t = 0; t < kOutputs; ++t) {
    others[t] = Pair{};
    if (residual != nullptr && mine && column + t < p.out_w)
      others[t] = *reinterpret_cast<const Pair*>(residual + (at + t * p.y_column));
  }
#pragma unroll
  for (int i = 0; i < Tile::kTapTurns; ++i) {
    const int tap = static_cast<int>(first) + i * Tile::kStep;
    if ((i + 1) * Tile::kStep <= Tile::kTaps || tap < Tile::kTaps) {
#pragma unroll
      for (int j = 0; j < kChunk; j += 2) {
        Pair pair;
#pragma unroll
        for (int k = 0; k < static_cast<int>(sizeof(T) / 2); ++k)
          pair.v[k] = raw[i].v[j * static_cast<int>(sizeof(T)) / 4 + k];
        float numbers[2];
        pair_numbers<T>(pair, numbers);
        *reinterpret_cast<Pack<float, 2>*>(weights + (tap * kTileChannels + c + j)) = {numbers[0], numbers[1]};
      }
    }
  }
  wait_for_copies();
  __syncthreads();
  if (!mine) return;

  const T* line = pixels + (down * kStrideH * Tile::kRow + across * kOutputs * kStrideW * kTileChannels + lane);
  const float* taps = weights + lane;
  float sums[kOutputs][2] = {};
#pragma unroll(kRowsUnrolled)
  for (int r = 0; r < kKernelH; ++r, line += Tile::kRow, taps += kKernelW * kTileChannels) {
    float values[Tile::kReads][2];
#pragma unroll
    for (int s = 0; s < Tile::kReads; ++s)
      pair_numbers<T>(*reinterpret_cast<const Pair*>(line + s * kTileChannels), values[s]);
#pragma unroll
    for (int s = 0; s < kKernelW; ++s) {
      const Pack<float, 2> tap = *reinterpret_cast<const Pack<float, 2>*>(taps + s * kTileChannels);
#pragma unroll
      for (int t = 0; t < kOutputs; ++t)
#pragma unroll
        for (int j = 0; j < 2; ++j) sums[t][j] += tap.v[j] * values[t * kStrideW + s][j];
    }
  }
#pragma unroll
  for (int t = 0; t < kOutputs; ++t) {
    float other[2];
    pair_numbers<T>(others[t], other);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float& sum = sums[t][j];
      sum += added[j];
      if (!p.epilogue.residual_after) sum += other[j];
      sum = activate<kActivation>(sum, p.epilogue.alpha, p.epilogue.beta);
      if (p.epilogue.residual_after) sum += other[j];
    }
    if (column + t < p.out_w) *reinterpret_cast<Pair*>(y + (at + t * p.y_column)) = pair_of<T>(sums[t]);
  }
}

}  // namespace tenon::cuda::device
