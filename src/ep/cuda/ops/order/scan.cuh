// Sums and products along an axis. The totals of all chunks are made first, where there are several, and each chunk
// begins with those before it.
#pragma once

#include "ep/cuda/ops/order/scan_params.h"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

// How the elements of a line are joined, and in which order.
template <bool kMultiplies, bool kFromTheEnd, bool kWithoutItself>
struct ScanKind {
  static constexpr bool kProduct = kMultiplies, kReverse = kFromTheEnd, kExclusive = kWithoutItself;
};

template <typename Kind, typename N>
__device__ __forceinline__ N scan_start() {
  return N(Kind::kProduct ? 1 : 0);
}
template <typename Kind, typename N>
__device__ __forceinline__ N scan_join(N a, N b) {
  return Kind::kProduct ? a * b : a + b;
}

// Where element k of a line is.
template <typename Kind, typename Index>
__device__ __forceinline__ Index scan_place(const ScanParams& p, Index outer, Index k, Index inner) {
  const Index length = static_cast<Index>(p.length);
  return (outer * length + (Kind::kReverse ? length - 1 - k : k)) * static_cast<Index>(p.inner) + inner;
}

template <typename Index>
__device__ __forceinline__ Index chunk_end(const ScanParams& p, Index first) {
  const Index end = first + static_cast<Index>(p.chunk), length = static_cast<Index>(p.length);
  return end > length ? length : end;
}

// Lines beside each other: a thread goes through a chunk of one. Leaves with the chunk's coordinates.
template <typename Index>
__device__ __forceinline__ void column_of(const ScanParams& p, Index flat, Index& outer, Index& chunk, Index& inner) {
  outer = flat;
  inner = split(outer, p.inner_size);
  chunk = split(outer, p.chunks);
}

template <typename Kind, typename T, typename Total, bool kWide>
__global__ void __launch_bounds__(kMapThreads) scan_column_totals(ScanParams p, const T* a, Total* totals) {
  using N = number_t<T>;
  using Index = index_t<kWide>;
  const Index flat = flat_index<Index>();
  begin_kernel();
  if (flat >= static_cast<Index>(p.count)) return;
  Index outer, chunk, inner;
  column_of(p, flat, outer, chunk, inner);
  const Index first = chunk * static_cast<Index>(p.chunk), last = chunk_end(p, first);
  N acc = scan_start<Kind, N>();
#pragma unroll 8
  for (Index k = first; k < last; ++k) acc = scan_join<Kind>(acc, load(a[scan_place<Kind>(p, outer, k, inner)]));
  totals[flat] = acc;
}

// `totals`: of each chunk; null where there is one.
template <typename Kind, typename T, typename Total, bool kWide>
__global__ void __launch_bounds__(kMapThreads) scan_columns(ScanParams p, const T* a, const Total* totals, T* y) {
  using N = number_t<T>;
  using Index = index_t<kWide>;
  const Index flat = flat_index<Index>();
  begin_kernel();
  if (flat >= static_cast<Index>(p.count)) return;
  Index outer, chunk, inner;
  column_of(p, flat, outer, chunk, inner);
  const Index first = chunk * static_cast<Index>(p.chunk), last = chunk_end(p, first);
  N acc = scan_start<Kind, N>();
  if (totals != nullptr) {
    const Index line = outer * static_cast<Index>(p.chunks.size);
#pragma unroll 8
    for (Index n = 0; n < chunk; ++n)
      acc = scan_join<Kind>(acc, static_cast<N>(totals[(line + n) * static_cast<Index>(p.inner) + inner]));
  }
#pragma unroll 8
  for (Index k = first; k < last; ++k) {
    const Index at = scan_place<Kind>(p, outer, k, inner);
    const N before = acc;
    acc = scan_join<Kind>(acc, load(a[at]));
    y[at] = store<T>(Kind::kExclusive ? before : acc);
  }
}

// All threads' `mine`, joined; all of them get it.
template <typename Kind, typename N>
__device__ __forceinline__ N joined_by_block(N mine, N* parts) {
  parts[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned n = kMapThreads / 2; n > 0; n /= 2) {
    if (threadIdx.x < n) parts[threadIdx.x] = scan_join<Kind>(parts[threadIdx.x], parts[threadIdx.x + n]);
    __syncthreads();
  }
  const N all = parts[0];
  __syncthreads();
  return all;
}

// Lines whose elements are neighbours (inner is 1): a block for each chunk.
template <typename Kind, typename T, typename Total, bool kWide>
__global__ void __launch_bounds__(kMapThreads) scan_row_totals(ScanParams p, const T* a, Total* totals) {
  using N = number_t<T>;
  using Index = index_t<kWide>;
  __shared__ N parts[kMapThreads];
  begin_kernel();
  Index outer = blockIdx.x;
  const Index chunk = split(outer, p.chunks), first = chunk * static_cast<Index>(p.chunk), last = chunk_end(p, first);
  N mine = scan_start<Kind, N>();
#pragma unroll 8
  for (Index k = first + threadIdx.x; k < last; k += kMapThreads)
    mine = scan_join<Kind>(mine, load(a[scan_place<Kind>(p, outer, k, Index(0))]));
  const N total = joined_by_block<Kind>(mine, parts);
  if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

// A block goes through its chunk in tiles of four elements a thread.
template <typename Kind, typename T, typename Total, bool kWide>
__global__ void __launch_bounds__(kMapThreads) scan_rows(ScanParams p, const T* a, const Total* totals, T* y) {
  using N = number_t<T>;
  using Index = index_t<kWide>;
  constexpr unsigned kEach = 4;
  __shared__ N parts[kMapThreads];
  begin_kernel();
  Index outer = blockIdx.x;
  const Index chunk = split(outer, p.chunks), first = chunk * static_cast<Index>(p.chunk), last = chunk_end(p, first);
  N carry = scan_start<Kind, N>();
  if (totals != nullptr) {
    N mine = scan_start<Kind, N>();
    for (Index n = threadIdx.x; n < chunk; n += kMapThreads)
      mine = scan_join<Kind>(mine, static_cast<N>(totals[outer * static_cast<Index>(p.chunks.size) + n]));
    carry = joined_by_block<Kind>(mine, parts);
  }
  for (Index base = first; base < last; base += kMapThreads * kEach) {
    const Index begin = base + threadIdx.x * kEach;
    N v[kEach];
#pragma unroll
    for (unsigned j = 0; j < kEach; ++j)
      v[j] = begin + j < last ? load(a[scan_place<Kind>(p, outer, begin + j, Index(0))]) : scan_start<Kind, N>();
    parts[threadIdx.x] = scan_join<Kind>(scan_join<Kind>(scan_join<Kind>(v[0], v[1]), v[2]), v[3]);
    __syncthreads();
    for (unsigned n = 1; n < kMapThreads; n *= 2) {
      const N other = threadIdx.x >= n ? parts[threadIdx.x - n] : scan_start<Kind, N>();
      __syncthreads();
      parts[threadIdx.x] = scan_join<Kind>(other, parts[threadIdx.x]);
      __syncthreads();
    }
    N acc = threadIdx.x > 0 ? scan_join<Kind>(carry, parts[threadIdx.x - 1]) : carry;
    carry = scan_join<Kind>(carry, parts[kMapThreads - 1]);
    __syncthreads();
#pragma unroll
    for (unsigned j = 0; j < kEach; ++j) {
      if (begin + j >= last) continue;
      const N before = acc;
      acc = scan_join<Kind>(acc, v[j]);
      y[scan_place<Kind>(p, outer, begin + j, Index(0))] = store<T>(Kind::kExclusive ? before : acc);
    }
  }
}

}  // namespace tenon::cuda::device
