// The largest or smallest elements of each row, in order; equal ones in the order of their positions.
//
// A block serves a row: the key of the last element that belongs is found digit by digit, what belongs is gathered and
// sorted in shared memory.
#include "ep/cuda/ops/common.cuh"
#include "ep/cuda/ops/order/topk_params.h"

namespace tenon::cuda::device {

constexpr int kDigits = 256, kTopKThreads = 512;

// Keys that are ordered as the elements are; no number is the largest.
__device__ __forceinline__ uint32_t ordered_key(float v) {
  const uint32_t bits = v != v ? 0x7fffffffu : __float_as_uint(v == 0.0f ? 0.0f : v);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ uint32_t ordered_key(__half v) { return ordered_key(__half2float(v)); }
__device__ __forceinline__ uint32_t ordered_key(__nv_bfloat16 v) { return ordered_key(__bfloat162float(v)); }
__device__ __forceinline__ uint32_t ordered_key(int32_t v) { return static_cast<uint32_t>(v) ^ 0x80000000u; }
__device__ __forceinline__ uint64_t ordered_key(int64_t v) { return static_cast<uint64_t>(v) ^ 0x8000000000000000ull; }

template <typename T>
__device__ __forceinline__ void top_k(const TopKParams& p) {
  using Key = decltype(ordered_key(T()));
  __shared__ Key keys[kMaxTopK];
  __shared__ uint32_t positions[kMaxTopK];
  __shared__ uint32_t counts[kDigits];
  __shared__ uint32_t warps[kTopKThreads / 32];
  __shared__ uint32_t digit, left, taken;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int thread = threadIdx.x;
  const int64_t outer = blockIdx.x / p.inner, inner = blockIdx.x % p.inner;
  const T* const row = static_cast<const T*>(p.x) + outer * p.count * p.inner + inner;
  const auto key_at = [&](int i) {
    const Key key = ordered_key(row[i * p.inner]);
    return p.largest != 0 ? key : static_cast<Key>(~key);
  };
  Key prefix = 0, mask = 0;
  uint32_t wanted = p.k;
  for (int shift = sizeof(Key) * 8 - 8; shift >= 0; shift -= 8) {
    if (thread < kDigits) counts[thread] = 0;
    __syncthreads();
    for (int i = thread; i < p.count; i += kTopKThreads) {
      const Key key = key_at(i);
      if ((key & mask) == prefix) atomicAdd(&counts[(key >> shift) & (kDigits - 1)], 1u);
    }
    __syncthreads();
    // How many have this digit or a larger one.
    for (int step = 1; step < kDigits; step *= 2) {
      const uint32_t more = thread + step < kDigits ? counts[thread + step] : 0;
      __syncthreads();
      if (thread < kDigits) counts[thread] += more;
      __syncthreads();
    }
    if (thread < kDigits) {
      const uint32_t larger = thread + 1 < kDigits ? counts[thread + 1] : 0;
      if (counts[thread] >= wanted && larger < wanted) {
        digit = thread;
        left = wanted - larger;
      }
    }
    __syncthreads();
    prefix |= static_cast<Key>(digit) << shift;
    mask |= static_cast<Key>(kDigits - 1) << shift;
    wanted = left;
    __syncthreads();
  }
  // All beyond that key, and the first `wanted` with it.
  if (thread == 0) taken = 0;
  __syncthreads();
  const uint32_t beyond = p.k - wanted;
  uint32_t equal = 0;
  for (int first = 0; first < p.count; first += kTopKThreads) {
    const int i = first + thread;
    const Key key = i < p.count ? key_at(i) : 0;
    const bool same = i < p.count && key == prefix;
    if (i < p.count && key > prefix) {
      const uint32_t slot = atomicAdd(&taken, 1u);
      keys[slot] = key;
      positions[slot] = i;
    }
    const uint32_t votes = __ballot_sync(~0u, same);
    if (thread % 32 == 0) warps[thread / 32] = __popc(votes);
    __syncthreads();
    uint32_t before = equal, all = equal;
    for (int w = 0; w < kTopKThreads / 32; ++w) {
      if (w < thread / 32) before += warps[w];
      all += warps[w];
    }
    const uint32_t rank = before + __popc(votes & ((1u << (thread % 32)) - 1));
    if (same && rank < wanted) {
      keys[beyond + rank] = key;
      positions[beyond + rank] = i;
    }
    equal = all;
    __syncthreads();
  }
  int size = 1;
  while (size < p.k) size *= 2;
  for (int i = p.k + thread; i < size; i += kTopKThreads) {
    keys[i] = 0;
    positions[i] = ~0u;
  }
  __syncthreads();
  const auto belongs_before = [&](int a, int b) {
    return keys[a] > keys[b] || (keys[a] == keys[b] && positions[a] < positions[b]);
  };
  for (int width = 2; width <= size; width *= 2) {
    for (int step = width / 2; step > 0; step /= 2) {
      for (int i = thread; i < size; i += kTopKThreads) {
        const int other = i ^ step;
        if (other <= i) continue;
        const bool descending = (i & width) == 0;
        if (belongs_before(other, i) == descending) {
          const Key key = keys[i];
          const uint32_t position = positions[i];
          keys[i] = keys[other], positions[i] = positions[other];
          keys[other] = key, positions[other] = position;
        }
      }
      __syncthreads();
    }
  }
  const int64_t out = outer * p.k * p.inner + inner;
  for (int i = thread; i < p.k; i += kTopKThreads) {
    if (p.y != nullptr) static_cast<T*>(p.y)[out + i * p.inner] = row[positions[i] * p.inner];
    if (p.indices != nullptr) p.indices[out + i * p.inner] = positions[i];
  }
}

}  // namespace tenon::cuda::device

#define TENON_TOP_K(name, type)                                                                                       \
  extern "C" __global__ void __launch_bounds__(512) top_k_##name(const __grid_constant__ tenon::cuda::TopKParams p) { \
    tenon::cuda::device::top_k<type>(p);                                                                              \
  }
TENON_TOP_K(f32, float)
TENON_TOP_K(f16, __half)
TENON_TOP_K(bf16, __nv_bfloat16)
TENON_TOP_K(i32, int32_t)
TENON_TOP_K(i64, int64_t)
