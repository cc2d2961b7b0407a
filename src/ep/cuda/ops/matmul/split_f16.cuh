// Splits float32 numbers into f16 parts (matmul/split_product.h), and the layout of the parts.
#pragma once

#include "ep/cuda/ops/common.cuh"

namespace tenon::cuda::device {

constexpr uint32_t kInfinity = 0x7f800000U;

__device__ __forceinline__ uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7fffffffU; }

// kCount neighbours of a row of `depth` numbers, times `factor`, into the parts of the row's terms; `to` is their
// position in the first one, aligned to them.
template <int kCount>
__device__ __forceinline__ void store_split(const float (&values)[kCount], float factor, __half* to, int depth,
                                            int terms) {
  struct alignas(2 * kCount) Part {
    __half v[kCount];
  };
  Part high, finite, low;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const float scaled = values[j] * factor;
    const bool is_finite = magnitude(scaled) < kInfinity;
    const __half half = __float2half_rn(scaled), zero = __float2half_rn(0.0f);
    high.v[j] = half;
    // An infinity or NaN is in one term alone: there it makes of the product what it makes in float32.
    finite.v[j] = is_finite ? half : zero;
    low.v[j] = is_finite ? __float2half_rn(scaled - __half2float(half)) : zero;
  }
  if (terms == 3) {
    *reinterpret_cast<Part*>(to) = low;
    to += depth;
  }
  *reinterpret_cast<Part*>(to) = finite;
  *reinterpret_cast<Part*>(to + depth) = high;
}

}  // namespace tenon::cuda::device
