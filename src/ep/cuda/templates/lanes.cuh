// Sums and maxima over neighbouring threads of a warp. All threads of a block call these equally often: in the fake
// plugin, which has a file of the same name for the host, they are meetings as __syncthreads() is.
#pragma once

namespace tenon::cuda::device {

// Over each kLanes neighbours, a power of two up to 32; all of them get the result.
template <int kLanes>
__device__ __forceinline__ float lane_sum(float v) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  return v;
}
// Several sums, none of which waits for another one.
template <int kLanes, int kCount>
__device__ __forceinline__ void lane_sums(float (&v)[kCount]) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2)
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] += __shfl_xor_sync(~0u, v[i], step);
}
template <int kLanes>
__device__ __forceinline__ float lane_max(float v) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, step));
  return v;
}
// Over the lanes of a warp that have the same place in their group of kLanes.
template <int kLanes>
__device__ __forceinline__ float group_sum(float v) {
#pragma unroll
  for (int step = 16; step >= kLanes; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  return v;
}
template <int kLanes, int kCount>
__device__ __forceinline__ void group_sums(float (&v)[kCount]) {
#pragma unroll
  for (int step = 16; step >= kLanes; step /= 2)
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] += __shfl_xor_sync(~0u, v[i], step);
}
template <int kLanes, int kCount>
__device__ __forceinline__ void group_maxima(float (&v)[kCount]) {
#pragma unroll
  for (int step = 16; step >= kLanes; step /= 2)
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = fmaxf(v[i], __shfl_xor_sync(~0u, v[i], step));
}

}  // namespace tenon::cuda::device
