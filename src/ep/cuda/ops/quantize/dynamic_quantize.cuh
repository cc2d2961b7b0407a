// The scale and the zero point of DynamicQuantizeLinear: the limits of parts of x, then those of all.
#pragma once

#include "ep/cuda/ops/quantize/integer_maps_params.h"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

// The limits of a block's threads, in its first thread. False for the others.
__device__ __forceinline__ bool block_limits(float& low, float& high) {
  __shared__ float lows[kMapThreads], highs[kMapThreads];
  lows[threadIdx.x] = low;
  highs[threadIdx.x] = high;
  __syncthreads();
  for (unsigned n = kMapThreads / 2; n > 0; n /= 2) {
    if (threadIdx.x < n) {
      lows[threadIdx.x] = fminf(lows[threadIdx.x], lows[threadIdx.x + n]);
      highs[threadIdx.x] = fmaxf(highs[threadIdx.x], highs[threadIdx.x + n]);
    }
    __syncthreads();
  }
  low = lows[0], high = highs[0];
  return threadIdx.x == 0;
}

// A block a part; y are the lowest elements, then the highest. 0 is always among the elements.
template <bool kWide>
__global__ void __launch_bounds__(kMapThreads) part_limits(LimitsParams p, const float* x, float* y) {
  using Index = index_t<kWide>;
  begin_kernel();
  float low = 0.0f, high = 0.0f;
  for (Index k = static_cast<Index>(blockIdx.x) * kMapThreads + threadIdx.x; k < static_cast<Index>(p.count);
       k += static_cast<Index>(p.parts) * kMapThreads) {
    low = fminf(low, x[k]);
    high = fmaxf(high, x[k]);
  }
  if (!block_limits(low, high)) return;
  y[blockIdx.x] = low;
  y[blockIdx.x + p.parts] = high;
}

template <typename Zero>
__global__ void __launch_bounds__(kMapThreads)
    dynamic_scale(LimitsParams p, const float* limits, float* scale, Zero* zero) {
  begin_kernel();
  float low = 0.0f, high = 0.0f;
  for (unsigned k = threadIdx.x; k < static_cast<unsigned>(p.parts); k += kMapThreads) {
    low = fminf(low, limits[k]);
    high = fmaxf(high, limits[k + p.parts]);
  }
  if (!block_limits(low, high)) return;
  const float size = high == low ? 1.0f : (high - low) / 255.0f;
  scale[0] = size;
  zero[0] = static_cast<Zero>(rintf(fminf(fmaxf(0.0f - low / size, 0.0f), 255.0f)));
}

}  // namespace tenon::cuda::device
