// The kernels of attention share this: masks, results, and the number of keys of a batch.
#pragma once

#include <type_traits>

#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/ops/matmul/split_f16.cuh"

namespace tenon::cuda::device {

constexpr float kLog2e = 1.4426950408889634f;

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Neighbours of a query's head, from `column` on, to wherever they are wanted.
template <typename T, int kCount>
__device__ __forceinline__ void store_values(const AttentionParams& p, int image, int head, int query, int column,
                                             const float (&values)[kCount]) {
  struct alignas(kCount * sizeof(T)) Values {
    T v[kCount];
  };
  if (p.y != nullptr) {
    Values result;
#pragma unroll
    for (int i = 0; i < kCount; ++i) result.v[i] = from_float<T>(values[i]);
    *reinterpret_cast<Values*>(static_cast<T*>(p.y) + image * p.y_batch + head * p.y_head + query * p.y_row + column) =
        result;
  }
  if constexpr (sizeof(T) == sizeof(float))
    if (p.parts != nullptr) {
      const int64_t row = static_cast<int64_t>(image) * p.queries + query;
      store_split(values, p.parts_factor,
                  static_cast<__half*>(p.parts) + row * p.y_row * p.terms + head * p.value_size + column,
                  static_cast<int>(p.y_row), p.terms);
    }
}

template <typename T>
__device__ __forceinline__ uint32_t pack_pair(float a, float b);
template <>
__device__ __forceinline__ uint32_t pack_pair<__half>(float a, float b) {
  const __half2 pair = __floats2half2_rn(a, b);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
template <>
__device__ __forceinline__ uint32_t pack_pair<__nv_bfloat16>(float a, float b) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <typename T>
__device__ __forceinline__ float2 unpack_pair(uint32_t pair);
template <>
__device__ __forceinline__ float2 unpack_pair<__half>(uint32_t pair) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}
template <>
__device__ __forceinline__ float2 unpack_pair<__nv_bfloat16>(uint32_t pair) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}

// The lowest finite number must not become infinite: a row of nothing else still has a mean. That of half does not.
template <typename T>
__device__ __forceinline__ float scaled_mask(float mask) {
  if constexpr (std::is_same_v<T, __half>) return mask * kLog2e;
  return mask == -INFINITY ? mask : max_or_nan(mask * kLog2e, -1e38f);
}

// A row of which every key is masked with -infinity adds up to 0 and is NaN, as Softmax has it; so is one with a NaN
// among its scores. Where the softmax is guarded such a row is zeros, and so is one without keys, which is an empty
// product.
__device__ __forceinline__ bool is_zero_row(const AttentionParams& p, float total) {
  return p.keys == 0 || (p.guarded != 0 && !(total > 0));
}

// The keys of a batch, and the position of its first query.
struct BatchKeys {
  int keys, before;
};
__device__ __forceinline__ BatchKeys keys_of(const AttentionParams& p, int image) {
  if (p.lengths == nullptr) return {p.keys, p.before};
  const int keys = min(max(p.lengths[image] + 1, 0), p.keys);
  return {keys, p.first_run != 0 ? 0 : keys - p.queries};
}

}  // namespace tenon::cuda::device
