// The implicit product of gemm.cuh by warpgroups (wgmma.cuh), for elements of 16 bits: twice as fast where the depth is
// long.
#pragma once

#include "ep/cuda/ops/conv/gemm.cuh"
#include "ep/cuda/ops/conv/wgmma.cuh"

namespace tenon::cuda::device {

// A warpgroup has 64 rows and all columns of the tile.
template <typename T, int kRows, int kColumns, int kStages>
struct HopperTile {
  static constexpr int kThreads = 2 * kRows, kDepthBytes = 128;
  using Loader = ConvLoader<T, kRows, kColumns, kThreads, kDepthBytes>;
  using Results = ConvResults<T, kRows, kColumns, kThreads>;
  static constexpr int kStageBytes = (kRows + kColumns) * kDepthBytes;
  // Stages begin at multiples of 1024 bytes, which the permutation of chunks counts from.
  static constexpr int kAlignment = 1024;
  static constexpr int kSharedBytes =
      kAlignment + (kStages * kStageBytes > Results::kBytes ? kStages * kStageBytes : Results::kBytes);
  static_assert(kRows % 64 == 0 && kStageBytes % kAlignment == 0);

  static __device__ __forceinline__ void run(const ConvParams& p) {
    extern __shared__ __align__(128) unsigned char unaligned[];
    unsigned char* const shared = unaligned + (-shared_address(unaligned) & (kAlignment - 1));
    const uint32_t base = shared_address(shared);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = warp / 4;
    const int first_row = blockIdx.x * kRows, first_column = blockIdx.y * kColumns;
    const int splits = gridDim.z, split = blockIdx.z;
    const int steps_in_all = (p.depth + Loader::kDepth - 1) / Loader::kDepth;
    const int step_begin = steps_in_all * split / splits, step_end = steps_in_all * (split + 1) / splits;
    const int steps = step_end - step_begin;
    Loader loader(p, first_row, first_column, step_begin);
    const auto load_x = [&](int stage) { loader.load_x(base + stage * kStageBytes); };
    const auto load_w = [&](int stage) { loader.load_w(base + stage * kStageBytes + kRows * kDepthBytes); };

    // While one stage is multiplied, the one before may still be read: copies go to the one before that.
    constexpr int kAhead = kStages - 2;
    let_next_kernel_start();
    if (!p.constant_weights) wait_for_previous_kernel();
#pragma unroll
    for (int s = 0; s < kAhead; ++s)
      if (s < steps) load_w(s);
    if (p.constant_weights) wait_for_previous_kernel();
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      if (s < steps) load_x(s);
      commit_copies();
    }
    float sum[kColumns / 2] = {};
    int stage = 0, next_stage = kAhead;
    for (int step = 0; step < steps; ++step) {
      wait_for_copies<kAhead - 1>();
      let_tensor_cores_read();
      __syncthreads();
      const uint64_t x = matrix_descriptor(base + stage * kStageBytes + group * 64 * kDepthBytes),
                     w = matrix_descriptor(base + stage * kStageBytes + kRows * kDepthBytes);
      begin_products();
#pragma unroll
      for (int k = 0; k < kDepthBytes / 32; ++k) GroupProduct<T, kColumns>::add(sum, x + 2 * k, w + 2 * k);
      commit_products();
      wait_for_products<1>();
      if (step + kAhead < steps) {
        load_w(next_stage);
        load_x(next_stage);
      }
      commit_copies();
      stage = stage + 1 == kStages ? 0 : stage + 1;
      next_stage = next_stage + 1 == kStages ? 0 : next_stage + 1;
    }
    wait_for_products<0>();
    wait_for_copies<0>();
    __syncthreads();
    float* const sums = reinterpret_cast<float*>(shared);
    const int row = warp * 16 + lane / 4;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
      float* const to = sums + row * Results::kStride + n * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(to) = make_float2(sum[4 * n], sum[4 * n + 1]);
      *reinterpret_cast<float2*>(to + 8 * Results::kStride) = make_float2(sum[4 * n + 2], sum[4 * n + 3]);
    }
    Results::finish(p, sums, first_row, first_column, split, splits);
  }
};

}  // namespace tenon::cuda::device
