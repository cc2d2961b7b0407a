// Convolutions and matrix products on tensor cores, as one implicit product: rows are output pixels, columns output
// channels. A block computes a tile; where `splits` blocks share a tile, they are a cluster, each sums a part of the
// depth, and they add their sums through each other's shared memory.
//
// Both operands are contiguous along the depth, so that one ldmatrix serves 16-bit elements and floats alike.
#pragma once

#include <cooperative_groups.h>

#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/ops/common.cuh"

namespace tenon::cuda::device {

// Copies stages of both operands to shared memory in the background: windows of x and rows of weights, kDepthBytes of
// each at a time. A thread has the same chunk of 16 bytes in all rows that it copies.
template <typename T, int kRows, int kColumns, int kThreads, int kDepthBytes>
struct ConvLoader {
  static constexpr int kVector = 16 / sizeof(T);
  static constexpr int kChunks = kDepthBytes / 16;  // of a row of a stage
  static constexpr int kDepth = kDepthBytes / sizeof(T);
  static constexpr int kRowsAPass = kThreads / kChunks;
  static constexpr int kLoadsX = kRows / kRowsAPass, kLoadsW = (kColumns + kRowsAPass - 1) / kRowsAPass;
  static_assert(kRows % kRowsAPass == 0);

  const ConvParams& p;
  const T *x, *w;
  const int first_column, chunk, load_row;
  int image_offset[kLoadsX], top[kLoadsX], left[kLoadsX];
  // The position in the depth of this thread's chunk: kernel row, kernel column, channel.
  int depth_x, depth_w, kernel_row, kernel_column, channel;
  // A stage is so many kernel columns and channels further.
  int whole_columns, rest_channels;

  // Chunks of 16 bytes are permuted within a row, so that eight rows of one column lie in different banks.
  static __device__ __forceinline__ uint32_t swizzled(int row, int chunk) {
    const int swizzle = kChunks == 8 ? (row & 7) : ((row >> 1) & 3);
    return static_cast<uint32_t>(row * kDepthBytes + ((chunk ^ swizzle) << 4));
  }

  __device__ __forceinline__ ConvLoader(const ConvParams& p, int first_row, int first_column, int first_step)
      : p(p),
        x(static_cast<const T*>(p.x)),
        w(static_cast<const T*>(p.w)),
        first_column(first_column),
        chunk(threadIdx.x % kChunks),
        load_row(threadIdx.x / kChunks) {
#pragma unroll
    for (int i = 0; i < kLoadsX; ++i) {
      const int pixel = first_row + load_row + i * kRowsAPass;
      const int out_area = p.out_h * p.out_w;
      const int image = pixel / out_area, rest = pixel - image * out_area;
      const int oh = rest / p.out_w, ow = rest - oh * p.out_w;
      image_offset[i] = image * p.in_h * p.in_w * p.in_c;
      // A row past the end lies above every image.
      top[i] = pixel < p.pixels ? oh * p.stride_h - p.pad_h : -(1 << 28);
      left[i] = ow * p.stride_w - p.pad_w;
    }
    depth_x = depth_w = first_step * kDepth + chunk * kVector;
    const int row_depth = p.kernel_w * p.in_c;
    kernel_row = depth_x / row_depth;
    const int rest = depth_x - kernel_row * row_depth;
    kernel_column = rest / p.in_c;
    channel = rest - kernel_column * p.in_c;
    whole_columns = kDepth / p.in_c, rest_channels = kDepth - whole_columns * p.in_c;
  }

  __device__ __forceinline__ void load_w(uint32_t to) {
#pragma unroll
    for (int i = 0; i < kLoadsW; ++i) {
      const int row = load_row + i * kRowsAPass;
      if (kColumns % kRowsAPass != 0 && row >= kColumns) break;
      const int column = first_column + row;
      const bool valid = column < p.channels && depth_w < p.depth;
      copy_async(to + swizzled(row, chunk), w + (valid ? static_cast<int64_t>(column) * p.depth + depth_w : 0), valid);
    }
    depth_w += kDepth;
  }

  __device__ __forceinline__ void load_x(uint32_t to) {
    const int dy = kernel_row * p.dilation_h, dx = kernel_column * p.dilation_w;
#pragma unroll
    for (int i = 0; i < kLoadsX; ++i) {
      const int h = top[i] + dy, v = left[i] + dx;
      const bool valid = depth_x < p.depth && static_cast<unsigned>(h) < static_cast<unsigned>(p.in_h) &&
                         static_cast<unsigned>(v) < static_cast<unsigned>(p.in_w);
      const int offset = valid ? image_offset[i] + (h * p.in_w + v) * p.in_c + channel : 0;
      copy_async(to + swizzled(load_row + i * kRowsAPass, chunk), x + offset, valid);
    }
    depth_x += kDepth;
    channel += rest_channels;
    kernel_column += whole_columns;
    if (channel >= p.in_c) {
      channel -= p.in_c;
      ++kernel_column;
    }
    while (kernel_column >= p.kernel_w) {
      kernel_column -= p.kernel_w;
      ++kernel_row;
    }
  }
};

// The end of a tile of kRows x kColumns sums, which lie in shared memory in rows of kStride floats.
template <typename T, int kRows, int kColumns, int kThreads>
struct ConvResults {
  static constexpr int kVector = 16 / sizeof(T);
  static constexpr int kStride = kColumns + 8;  // the pad spreads rows over banks
  static constexpr int kBytes = kRows * kStride * 4;

  // Adds what the blocks of the cluster have summed; bias, residual and activation; whole vectors where they fit.
  static __device__ __forceinline__ void finish(const ConvParams& p, float* sums, int first_row, int first_column,
                                                int split, int splits) {
#if __CUDA_ARCH__ >= 900
    namespace cg = cooperative_groups;
    if (splits > 1) {
      cg::this_cluster().sync();
    } else {
      __syncthreads();
    }
#else
    __syncthreads();
#endif
    const int rows = kRows / splits;
    constexpr int kVectors = kColumns / kVector;
    for (int i = threadIdx.x; i < rows * kVectors; i += kThreads) {
      const int row = split * rows + i / kVectors, column = (i % kVectors) * kVector;
      const int pixel = first_row + row, channel = first_column + column;
      if (pixel >= p.pixels || channel >= p.channels) continue;
      float value[kVector];
      const float* const own = sums + row * kStride + column;
#pragma unroll
      for (int j = 0; j < kVector; j += 4)
        *reinterpret_cast<float4*>(value + j) = *reinterpret_cast<const float4*>(own + j);
#if __CUDA_ARCH__ >= 900
      for (int other = 1; other < splits; ++other) {
        const int peer = split + other < splits ? split + other : split + other - splits;
        const float* const theirs = cg::this_cluster().map_shared_rank(const_cast<float*>(own), peer);
#pragma unroll
        for (int j = 0; j < kVector; j += 4) {
          const float4 more = *reinterpret_cast<const float4*>(theirs + j);
          value[j] += more.x, value[j + 1] += more.y, value[j + 2] += more.z, value[j + 3] += more.w;
        }
      }
#endif
      const int64_t at = static_cast<int64_t>(pixel) * p.channels + channel;
      const bool whole = p.channels % kVector == 0;
      Vec<T> residual{};
      if (p.residual != nullptr) {
        const T* const from = static_cast<const T*>(p.residual) + at;
        if (whole) {
          residual = *reinterpret_cast<const Vec<T>*>(from);
        } else {
          for (int j = 0; j < kVector; ++j)
            if (channel + j < p.channels) residual.v[j] = from[j];
        }
      }
      Vec<T> result;
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        float z = value[j] * p.scale;
        if (p.bias != nullptr && channel + j < p.channels) z += p.bias[channel + j];
        const float r = to_float(residual.v[j]);
        if (!p.residual_after) z += r;
        z = activate(z, p.activation, p.alpha, p.beta);
        if (p.residual_after) z += r;
        result.v[j] = from_float<T>(z);
      }
      T* const to = static_cast<T*>(p.y) + at;
      if (whole) {
        *reinterpret_cast<Vec<T>*>(to) = result;
      } else {
        for (int j = 0; j < kVector; ++j)
          if (channel + j < p.channels) to[j] = result.v[j];
      }
    }
#if __CUDA_ARCH__ >= 900
    // Nobody may end while another block still reads its sums.
    if (splits > 1) cg::this_cluster().sync();
#endif
  }
};

// kDepthBytes: of one pipeline stage. kPrecise: 3xTF32, three TF32 products of parts a float product.
template <typename T, int kRows, int kColumns, int kWarpRows, int kWarpColumns, int kDepthBytes, int kStages,
          bool kPrecise>
struct ConvTile {
  static constexpr int kWarpsM = kRows / kWarpRows, kWarpsN = kColumns / kWarpColumns;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
  using Loader = ConvLoader<T, kRows, kColumns, kThreads, kDepthBytes>;
  using Results = ConvResults<T, kRows, kColumns, kThreads>;
  static constexpr int kStageBytes = (kRows + kColumns) * kDepthBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes > Results::kBytes ? kStages* kStageBytes : Results::kBytes;
  static constexpr int kTilesM = kWarpRows / 16, kTilesN = kWarpColumns / 8;
  static_assert(kTilesN % 2 == 0);

  static __device__ __forceinline__ void run(const ConvParams& p) {
    extern __shared__ __align__(128) unsigned char shared[];
    const uint32_t base = shared_address(shared);
    const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const int first_row = blockIdx.x * kRows, first_column = blockIdx.y * kColumns;
    const int splits = gridDim.z, split = blockIdx.z;

    const int steps_in_all = (p.depth + Loader::kDepth - 1) / Loader::kDepth;
    const int step_begin = steps_in_all * split / splits, step_end = steps_in_all * (split + 1) / splits;
    const int steps = step_end - step_begin;
    Loader loader(p, first_row, first_column, step_begin);
    const auto load_x = [&](int stage) { loader.load_x(base + stage * kStageBytes); };
    const auto load_w = [&](int stage) { loader.load_w(base + stage * kStageBytes + kRows * kDepthBytes); };

    let_next_kernel_start();
    if (!p.constant_weights) wait_for_previous_kernel();
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s)
      if (s < steps) load_w(s);
    if (p.constant_weights) wait_for_previous_kernel();
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      if (s < steps) load_x(s);
      commit_copies();
    }

    const int warp_row = (warp / kWarpsN) * kWarpRows, warp_column = (warp % kWarpsN) * kWarpColumns;
    float sum[kTilesM][kTilesN][4] = {};
    for (int step = 0; step < steps; ++step) {
      wait_for_copies<kStages - 2>();
      __syncthreads();
      if (step + kStages - 1 < steps) {
        load_w((step + kStages - 1) % kStages);
        load_x((step + kStages - 1) % kStages);
      }
      commit_copies();
      const uint32_t tile_x = base + (step % kStages) * kStageBytes, tile_w = tile_x + kRows * kDepthBytes;
      // Tensor cores cut what they add off, always towards zero: a precise sum gets it in small parts, rounded.
      float part[kTilesM][kTilesN][4] = {};
#pragma unroll
      for (int k = 0; k < kDepthBytes / 32; ++k) {
        uint32_t a[kTilesM][4], b[kTilesN / 2][4];
#pragma unroll
        for (int m = 0; m < kTilesM; ++m)
          load_matrices(a[m], tile_x + Loader::swizzled(warp_row + m * 16 + (lane & 15), 2 * k + (lane >> 4)));
#pragma unroll
        for (int n = 0; n < kTilesN / 2; ++n)
          load_matrices(b[n], tile_w + Loader::swizzled(warp_column + n * 16 + (lane & 7) + ((lane >> 4) << 3),
                                                        2 * k + ((lane >> 3) & 1)));
        multiply_tiles(kPrecise ? part : sum, a, b);
      }
      if constexpr (kPrecise) {
#pragma unroll
        for (int m = 0; m < kTilesM; ++m)
#pragma unroll
          for (int n = 0; n < kTilesN; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[m][n][i] += part[m][n][i];
      }
    }
    wait_for_copies<0>();
    __syncthreads();
    float* const sums = reinterpret_cast<float*>(shared);
#pragma unroll
    for (int m = 0; m < kTilesM; ++m)
#pragma unroll
      for (int n = 0; n < kTilesN; ++n) {
        const int row = warp_row + m * 16 + (lane >> 2), column = warp_column + n * 8 + (lane & 3) * 2;
        *reinterpret_cast<float2*>(sums + row * Results::kStride + column) = make_float2(sum[m][n][0], sum[m][n][1]);
        *reinterpret_cast<float2*>(sums + (row + 8) * Results::kStride + column) =
            make_float2(sum[m][n][2], sum[m][n][3]);
      }
    Results::finish(p, sums, first_row, first_column, split, splits);
  }

 private:
  static __device__ __forceinline__ void multiply_tiles(float (&sum)[kTilesM][kTilesN][4], uint32_t (&a)[kTilesM][4],
                                                        uint32_t (&b)[kTilesN / 2][4]) {
    if constexpr (sizeof(T) == 4) {
      uint32_t a_rest[kTilesM][4], b_rest[kTilesN / 2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) {
          const uint32_t exact = a[m][i];
          a[m][i] = round_to_tf32(exact);
          if constexpr (kPrecise) a_rest[m][i] = tf32_rest(exact, a[m][i]);
        }
#pragma unroll
        for (int n = 0; n < kTilesN / 2; ++n) {
          const uint32_t exact = b[n][i];
          b[n][i] = round_to_tf32(exact);
          if constexpr (kPrecise) b_rest[n][i] = tf32_rest(exact, b[n][i]);
        }
      }
      if constexpr (kPrecise) {
#pragma unroll
        for (int m = 0; m < kTilesM; ++m)
#pragma unroll
          for (int n = 0; n < kTilesN; ++n) {
            multiply<T>(sum[m][n], a_rest[m], b[n / 2][(n & 1) * 2], b[n / 2][(n & 1) * 2 + 1]);
            multiply<T>(sum[m][n], a[m], b_rest[n / 2][(n & 1) * 2], b_rest[n / 2][(n & 1) * 2 + 1]);
          }
      }
    }
#pragma unroll
    for (int m = 0; m < kTilesM; ++m)
#pragma unroll
      for (int n = 0; n < kTilesN; ++n) multiply<T>(sum[m][n], a[m], b[n / 2][(n & 1) * 2], b[n / 2][(n & 1) * 2 + 1]);
  }
};

}  // namespace tenon::cuda::device

// TENON_CONV_KERNEL(name, T, rows, columns, warp rows, warp columns, depth bytes, stages, precise)
#define TENON_CONV_KERNEL(name, ...)                                                                 \
  extern "C" __global__ void __launch_bounds__(tenon::cuda::device::ConvTile<__VA_ARGS__>::kThreads) \
      name(const __grid_constant__ tenon::cuda::ConvParams p) {                                      \
    tenon::cuda::device::ConvTile<__VA_ARGS__>::run(p);                                              \
  }
// The tiles of conv_tiles.h.
#define TENON_CONV_KERNELS(type, T, precise)                                    \
  TENON_CONV_KERNEL(conv_##type##_128x128, T, 128, 128, 64, 32, 64, 4, precise) \
  TENON_CONV_KERNEL(conv_##type##_128x64, T, 128, 64, 64, 32, 64, 4, precise)   \
  TENON_CONV_KERNEL(conv_##type##_64x128, T, 64, 128, 32, 64, 64, 4, precise)   \
  TENON_CONV_KERNEL(conv_##type##_64x64, T, 64, 64, 32, 32, 128, 4, precise)    \
  TENON_CONV_KERNEL(conv_##type##_64x32, T, 64, 32, 32, 16, 128, 4, precise)    \
  TENON_CONV_KERNEL(conv_##type##_32x64, T, 32, 64, 16, 32, 128, 4, precise)    \
  TENON_CONV_KERNEL(conv_##type##_32x32, T, 32, 32, 16, 16, 128, 4, precise)
