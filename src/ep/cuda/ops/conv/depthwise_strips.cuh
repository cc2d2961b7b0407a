// Depthwise convolutions with channels first. A thread makes one column of a few rows of the result and holds the
// window's weights in registers: each element that it reads serves all rows, and neighbouring threads read neighbouring
// elements.
#pragma once

#include "ep/cuda/ops/conv/plain_conv_params.h"
#include "ep/cuda/templates/window.cuh"

namespace tenon::cuda::device {

// The sizes that unroll the loops.
template <int rows, int kernel_h, int kernel_w, int stride_h, int dilation_h>
struct StripShape {
  static constexpr int kRows = rows, kKernelH = kernel_h, kKernelW = kernel_w, kStrideH = stride_h;
  static constexpr int kDilationH = dilation_h;
  static constexpr int kReads = (kRows - 1) * kStrideH + (kKernelH - 1) * kDilationH + 1;
};

// Calls finish(at, sum) for each element of the strip at coordinates i; `weight` and `element` give element `at` of the
// weights and of x.
template <typename Number, typename Strip, bool kWide, typename Weight, typename Element, typename Finish>
__device__ __forceinline__ void depthwise_strip(const DepthwiseParams& p, const index_t<kWide> (&i)[4],
                                                const Weight& weight, const Element& element, const Finish& finish) {
  using Index = index_t<kWide>;
  using Offset = offset_t<kWide>;
  constexpr int kTaps = Strip::kKernelH * Strip::kKernelW;
  const Offset height = static_cast<Offset>(p.in_h), width = static_cast<Offset>(p.in_w);
  Number weights[kTaps], sums[Strip::kRows] = {};
#pragma unroll
  for (int k = 0; k < kTaps; ++k) weights[k] = weight(i[1] * kTaps + k);
  const Index plane = (i[0] * static_cast<Index>(p.channels) + quotient(i[1], p.multiplier)) *
                      (static_cast<Index>(p.in_h) * static_cast<Index>(p.in_w));
  const Offset top = static_cast<Offset>(i[2]) * (Strip::kRows * Strip::kStrideH) - p.pad_h;
  const Offset left = static_cast<Offset>(i[3]) * p.stride_w - p.pad_w;
#pragma unroll
  for (int h = 0; h < Strip::kReads; ++h) {
    const Offset row = top + h;
    const bool in_row = row >= 0 && row < height;
#pragma unroll
    for (int s = 0; s < Strip::kKernelW; ++s) {
      const Offset column = left + s * p.dilation_w;
      Number v = 0;
      if (in_row && column >= 0 && column < width) v = element(plane + static_cast<Index>(row * width + column));
#pragma unroll
      for (int t = 0; t < Strip::kRows; ++t) {
        const int k = h - t * Strip::kStrideH;
        if (k >= 0 && k % Strip::kDilationH == 0 && k / Strip::kDilationH < Strip::kKernelH)
          sums[t] += weights[k / Strip::kDilationH * Strip::kKernelW + s] * v;
      }
    }
  }
  const Index line = (i[0] * static_cast<Index>(p.outputs) + i[1]) * static_cast<Index>(p.out_h);
#pragma unroll
  for (int t = 0; t < Strip::kRows; ++t) {
    const Index row = i[2] * Strip::kRows + t;
    if (row < static_cast<Index>(p.out_h)) finish((line + row) * static_cast<Index>(p.out_w) + i[3], sums[t]);
  }
}

// `bias` and `residual` may be null.
template <typename T, typename W, typename Bias, Activation kActivation, int kRows, int kKernelH, int kKernelW,
          int kStrideH, int kDilationH, bool kWide>
__global__ void __launch_bounds__(kMapThreads)
    depthwise_first(DepthwiseParams p, const T* x, const W* w, const Bias* bias, const T* residual, T* y) {
  using Index = index_t<kWide>;
  Index flat, i[4];
  if (!map_index(p.map, flat, i)) return;
  const float added = bias != nullptr ? load(bias[i[1]]) : 0.0f;
  depthwise_strip<float, StripShape<kRows, kKernelH, kKernelW, kStrideH, kDilationH>, kWide>(
      p, i, [&](Index at) { return load(w[at]); }, [&](Index at) { return load(x[at]); },
      [&](Index at, float sum) { y[at] = finish_sum<kActivation>(p.epilogue, sum + added, residual, at); });
}

}  // namespace tenon::cuda::device
