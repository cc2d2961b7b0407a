// GridSample: elements of plain images at computed positions. A thread makes one element.
#pragma once

#include "ep/cuda/ops/sample/grid_sample_params.h"
#include "ep/cuda/templates/window.cuh"

namespace tenon::cuda::device {

// A coordinate beyond the edges as one between them, reflected at each as often as needed.
__device__ __forceinline__ float reflected(float c, const GridSampleParams::Axis& axis) {
  const float range = axis.high - axis.low;
  if (!(range > 0.0f) || !(c < axis.low || c > axis.high)) return c;
  const bool below = c < axis.low;
  const float over = below ? axis.low - c : c - axis.high;
  const long long turns = static_cast<long long>(over / range);
  const float rest = over - turns * range;
  return (turns % 2 == 0) == below ? axis.low + rest : axis.high - rest;
}

template <SampleMode kMode, typename Offset>
struct SampledAxis {
  static constexpr int kTaps = kMode == SampleMode::kNearest ? 1 : kMode == SampleMode::kLinear ? 2 : 4;
  float weights[kTaps];
  Offset positions[kTaps];  // below 0: outside, where elements are 0

  template <SamplePadding kPadding>
  __device__ __forceinline__ void set(const GridSampleParams::Axis& axis, float c, bool align_corners) {
    c = align_corners ? (c + 1.0f) / 2.0f * axis.last : ((c + 1.0f) * axis.whole - 1.0f) / 2.0f;
    if (kMode == SampleMode::kNearest) c = rintf(c);
    if (kPadding == SamplePadding::kBorder && kMode != SampleMode::kCubic && (c < axis.low || c > axis.high))
      c = fminf(fmaxf(c, 0.0f), axis.last);
    if (kPadding == SamplePadding::kReflection) c = reflected(c, axis);
    // A coordinate far outside, or NaN, must not become a position. The four neighbours of cubic ones are bounded
    // below.
    const float first = fminf(fmaxf(floorf(c), -8.0f), axis.whole + 8.0f);
    if constexpr (kMode == SampleMode::kNearest) {
      weights[0] = 1.0f;
    } else if constexpr (kMode == SampleMode::kLinear) {
      weights[1] = c - first;
      weights[0] = 1.0f - weights[1];
    } else {
      // Four neighbours at the distance t behind the second.
      const float t = c - floorf(c), u = 1.0f - t;
      weights[0] = ((-0.75f * (t + 1.0f) + 3.75f) * (t + 1.0f) - 6.0f) * (t + 1.0f) + 3.0f;
      weights[1] = (1.25f * t - 2.25f) * t * t + 1.0f;
      weights[2] = (1.25f * u - 2.25f) * u * u + 1.0f;
      weights[3] = ((-0.75f * (u + 1.0f) + 3.75f) * (u + 1.0f) - 6.0f) * (u + 1.0f) + 3.0f;
    }
#pragma unroll
    for (int k = 0; k < kTaps; ++k) {
      float q = first + static_cast<float>(k - (kMode == SampleMode::kCubic ? 1 : 0));
      if (kPadding == SamplePadding::kReflection) q = reflected(q, axis);
      if (kPadding == SamplePadding::kZeros)
        positions[k] = q < 0.0f || q > axis.last ? static_cast<Offset>(-1) : static_cast<Offset>(q);
      else
        positions[k] = static_cast<Offset>(fminf(fmaxf(q, 0.0f), axis.last));
    }
  }
};

// Adds the elements at all combinations of the axes' taps from kAxis on, the last axis fastest.
template <int kAxes, int kAxis = 0, typename T, typename Axis, typename Offset>
__device__ __forceinline__ void add_samples(const GridSampleParams& p, const Axis (&axes)[kAxes], int (&k)[kAxes],
                                            Offset offset, const T* x, float& sum) {
  if constexpr (kAxis == kAxes) {
    float v = load(x[offset]);
#pragma unroll
    for (int d = 0; d < kAxes; ++d) v *= axes[d].weights[k[d]];
    sum += v;
  } else {
#pragma unroll
    for (int n = 0; n < Axis::kTaps; ++n) {
      k[kAxis] = n;
      const Offset at = axes[kAxis].positions[n];
      if (at >= 0)
        add_samples<kAxes, kAxis + 1>(p, axes, k, offset * static_cast<Offset>(p.axes[kAxis].size) + at, x, sum);
    }
  }
}

template <typename T, typename Grid, SampleMode kMode, SamplePadding kPadding, int kAxes, bool kWide>
__global__ void __launch_bounds__(kMapThreads) grid_sample(GridSampleParams p, const T* x, const Grid* grid, T* y) {
  using Index = index_t<kWide>;
  using Offset = offset_t<kWide>;
  Index flat, i[kAxes + 2];
  if (!map_index(p.map, flat, i)) return;
  Index at = i[0];
#pragma unroll
  for (int d = 0; d < kAxes; ++d) at = at * static_cast<Index>(p.out[d]) + i[d + 2];
  SampledAxis<kMode, Offset> axes[kAxes];
  // The grid names the last axis first.
#pragma unroll
  for (int d = 0; d < kAxes; ++d)
    axes[d].template set<kPadding>(p.axes[d], load(grid[at * kAxes + (kAxes - 1 - d)]), p.align_corners != 0);
  int k[kAxes];
  float sum = 0;
  add_samples<kAxes>(p, axes, k, static_cast<Offset>(i[0] * static_cast<Index>(p.channels) + i[1]), x, sum);
  y[flat] = store<T>(sum);
}

}  // namespace tenon::cuda::device
