// Elements that are chosen by computed indices, or by their coordinates alone: a thread for each of the result.
#pragma once

#include "ep/cuda/ops/gather/gather_params.h"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

// An index, from the end where negative. A bad one gives the nearest element: the host's operators check it, here
// nobody can be told.
__device__ __forceinline__ long long held_index(long long index, long long limit) {
  if (index < 0) index += limit;
  return index < 0 ? 0 : index >= limit ? (limit > 0 ? limit - 1 : 0) : index;
}

template <typename T, typename I, int kRank, bool kWide>
__global__ void __launch_bounds__(kMapThreads)
    gather_elements(GatherElementsParams p, const T* a, const I* indices, T* y) {
  using Index = index_t<kWide>;
  const Index flat = flat_index<Index>();
  begin_kernel();
  if (flat >= static_cast<Index>(p.count)) return;
  Index i[kRank];
  split_index<kRank>(flat, p.loops.dims, i);
  const Index index = static_cast<Index>(held_index(indices[flat], p.limit));
  y[flat] = a[offset_of<kRank>(i, p.loops.strides[0]) + index * static_cast<Index>(p.step)];
}

// Each of the index tuples of kWidth numbers names a slice.
template <typename T, typename I, int kWidth, bool kWide>
__global__ void __launch_bounds__(kMapThreads) gather_nd(GatherNdParams p, const T* a, const I* indices, T* y) {
  using Index = index_t<kWide>;
  const Index flat = flat_index<Index>();
  begin_kernel();
  if (flat >= static_cast<Index>(p.count)) return;
  Index tuple = flat;
  const Index inside = split(tuple, p.slice);
  Index batch = tuple;
  (void)split(batch, p.tuples);
  Index slice = batch;
#pragma unroll
  for (int d = 0; d < kWidth; ++d)
    slice = slice * static_cast<Index>(p.limits[d]) +
            static_cast<Index>(held_index(indices[tuple * kWidth + d], p.limits[d]));
  y[flat] = a[slice * static_cast<Index>(p.slice.size) + inside];
}

// The first `lengths` steps of each sequence come in reverse. kTimeFirst: time is the first dimension, else the batch.
template <typename T, bool kTimeFirst, bool kWide>
__global__ void __launch_bounds__(kMapThreads)
    reverse_sequence(ReverseSequenceParams p, const T* a, const long long* lengths, T* y) {
  using Index = index_t<kWide>;
  const Index flat = flat_index<Index>();
  begin_kernel();
  if (flat >= static_cast<Index>(p.count)) return;
  Index first = flat;
  const Index inner = split(first, p.inner), second = split(first, p.second);
  long long time = kTimeFirst ? first : second, length = lengths[kTimeFirst ? second : first];
  if (length > p.time) length = p.time;
  if (time < length) time = length - 1 - time;
  const Index at = kTimeFirst ? static_cast<Index>(time) * static_cast<Index>(p.second.size) + second
                              : first * static_cast<Index>(p.second.size) + static_cast<Index>(time);
  y[flat] = a[at * static_cast<Index>(p.inner.size) + inner];
}

// values: off, then on.
template <typename T, typename I, bool kWide>
__global__ void __launch_bounds__(kMapThreads) one_hot(OneHotParams p, const I* indices, const T* values, T* y) {
  using Index = index_t<kWide>;
  const Index flat = flat_index<Index>();
  begin_kernel();
  if (flat >= static_cast<Index>(p.count)) return;
  Index outer = flat;
  const Index inner = split(outer, p.inner), position = split(outer, p.size);
  const long long size = static_cast<long long>(p.size.size);
  const auto given = load(indices[outer * static_cast<Index>(p.inner.size) + inner]);
  long long index = static_cast<long long>(given);
  const bool whole = static_cast<decltype(+given)>(index) == given;  // no row has an index with a fraction
  if (index < 0) index += size;
  y[flat] = values[whole && index == static_cast<long long>(position) ? 1 : 0];
}

// `diagonal` may be null: then it is a parameter.
template <typename T, bool kUpper, bool kWide>
__global__ void __launch_bounds__(kMapThreads) trilu(DiagonalParams p, const T* a, const long long* diagonal, T* y) {
  using Index = index_t<kWide>;
  const Index flat = flat_index<Index>();
  begin_kernel();
  if (flat >= static_cast<Index>(p.count)) return;
  Index rest = flat;
  const Index column = split(rest, p.columns), row = split(rest, p.rows);
  const long long beside = static_cast<long long>(column) - static_cast<long long>(row);
  const long long from = diagonal != nullptr ? diagonal[0] : p.diagonal;
  const T nothing = {};
  y[flat] = (kUpper ? beside >= from : beside <= from) ? a[flat] : nothing;
}

template <typename T, bool kWide>
__global__ void __launch_bounds__(kMapThreads) eye_like(DiagonalParams p, T* y) {
  using Index = index_t<kWide>;
  const Index flat = flat_index<Index>();
  begin_kernel();
  if (flat >= static_cast<Index>(p.count)) return;
  Index row = flat;
  const Index column = split(row, p.columns);
  const bool on = static_cast<long long>(column) - static_cast<long long>(row) == p.diagonal;
  y[flat] = store<T>(number_t<T>(on ? 1 : 0));
}

}  // namespace tenon::cuda::device
