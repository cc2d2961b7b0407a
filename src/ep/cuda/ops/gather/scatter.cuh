// Scatters: updates are stored at, or combined with, elements of the output. The results do not depend on the order in
// which the device works.
#pragma once

#include "ep/cuda/ops/gather/scatter_params.h"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

// The element of the output for the index tuple of `kWidth` numbers at `tuple`, or false for one out of range: such an
// update is left out.
template <int kWidth, typename I, typename Index>
__device__ __forceinline__ bool add_indices(const ScatterParams& p, const I* tuple, Index& at) {
#pragma unroll
  for (int d = 0; d < kWidth; ++d) {
    long long index = tuple[d];
    if (index < 0) index += p.limits[d];
    if (index < 0 || index >= p.limits[d]) return false;
    at += static_cast<Index>(index) * static_cast<Index>(p.strides[d]);
  }
  return true;
}

// ScatterElements: each update has an index, at the same position. kRank: of the updates.
template <int kRank, bool kWideIndex>
struct ElementScatter {
  using Index = index_t<kWideIndex>;
  // Step k of a line, whose first update is at `from`.
  template <typename I>
  static __device__ __forceinline__ bool step(const ScatterParams& p, const I* indices, Index line, Index k,
                                              Index& from, Index& at) {
    Index i[kRank];
    split_index<kRank>(line, p.loops.dims, i);
    from = offset_of<kRank>(i, p.loops.strides[0]) + k * static_cast<Index>(p.update_step);
    at = offset_of<kRank>(i, p.loops.strides[1]);
    return add_indices<1>(p, indices + from, at);
  }
};

// ScatterND: each slice of updates has a tuple of kWidth indices.
template <int kWidth, bool kWideIndex>
struct SliceScatter {
  using Index = index_t<kWideIndex>;
  template <typename I>
  static __device__ __forceinline__ bool step(const ScatterParams& p, const I* indices, Index line, Index k,
                                              Index& from, Index& at) {
    from = line + k * static_cast<Index>(p.update_step);
    Index tuple = from;
    at = split(tuple, p.slice);
    return add_indices<kWidth>(p, indices + tuple * kWidth, at);
  }
};

template <ScatterCombine kCombine, typename T>
__device__ __forceinline__ T combined(T old_value, T update) {
  using N = number_t<T>;
  const N a = load(old_value), b = load(update);
  if constexpr (kCombine == ScatterCombine::kAdd) return store<T>(a + b);
  if constexpr (kCombine == ScatterCombine::kMultiply) return store<T>(a * b);
  if constexpr (kCombine == ScatterCombine::kMax) return store<T>(max_of<N>(a, b));
  if constexpr (kCombine == ScatterCombine::kMin) return store<T>(min_of<N>(a, b));
  return update;
}

// Each thread does all updates that may meet in an element, in order. Also for kReplace with a thread an update.
template <typename Scatter, ScatterCombine kCombine, typename T, typename I>
__global__ void __launch_bounds__(kMapThreads)
    scatter_in_order(ScatterParams p, const I* indices, const T* updates, T* y) {
  using Index = typename Scatter::Index;
  const Index line = flat_index<Index>();
  begin_kernel();
  if (line >= static_cast<Index>(p.count)) return;
  for (Index k = 0; k < static_cast<Index>(p.steps); ++k) {
    Index from, at;
    if (Scatter::step(p, indices, line, k, from, at)) y[at] = combined<kCombine>(y[at], updates[from]);
  }
}

// Sums of whole numbers, and the greatest and least of 32 or 64 bits, are the same in any order. Of equal floats, which
// are zeros, the greatest is +0 and the least -0; all NaN become one.
template <ScatterCombine kCombine, typename T>
__device__ __forceinline__ void combine_atomically(T* element, T update) {
  if constexpr (kCombine == ScatterCombine::kAdd) {
    if constexpr (sizeof(T) == 8) {
      atomicAdd(reinterpret_cast<unsigned long long*>(element), static_cast<unsigned long long>(update));
    } else {
      atomicAdd(element, update);
    }
  } else if constexpr (kCombine == ScatterCombine::kMax) {
    atomicMax(element, update);
  } else {
    atomicMin(element, update);
  }
}
template <ScatterCombine kCombine>
__device__ __forceinline__ void combine_atomically(float* element, float update) {
  auto* const word = reinterpret_cast<unsigned*>(element);
  constexpr bool kLeast = kCombine == ScatterCombine::kMin;
  const unsigned bits = update != update ? 0x7fffffffu : __float_as_uint(update);
  unsigned seen = *word;
  for (;;) {
    const float now = __uint_as_float(seen);
    const bool better = kLeast ? update < now : update > now,
               same = update == now && (kLeast ? bits > seen : bits < seen);
    if (seen == bits || !(better || update != update || same)) break;
    const unsigned found = atomicCAS(word, seen, bits);
    if (found == seen) break;
    seen = found;
  }
}

template <typename Scatter, ScatterCombine kCombine, typename T, typename I>
__global__ void __launch_bounds__(kMapThreads)
    scatter_atomically(ScatterParams p, const I* indices, const T* updates, T* y) {
  using Index = typename Scatter::Index;
  const Index line = flat_index<Index>();
  begin_kernel();
  if (line >= static_cast<Index>(p.count)) return;
  Index from, at;
  if (Scatter::step(p, indices, line, Index(0), from, at)) combine_atomically<kCombine>(y + at, updates[from]);
}

// Floats are added as whole numbers of 64 bits, which are the same in any order: first the greatest exponent of all
// that meet in an element, then their sum in units of 2^(greatest - kept bits), then the element itself.
template <bool kWide>
__global__ void __launch_bounds__(kMapThreads) scatter_clear(ScatterParams p, unsigned* greatest, long long* sums) {
  const index_t<kWide> flat = flat_index<index_t<kWide>>();
  begin_kernel();
  if (flat >= static_cast<index_t<kWide>>(p.count)) return;
  greatest[flat] = 0;
  sums[flat] = 0;
}

template <typename Scatter, typename T, typename I>
__global__ void __launch_bounds__(kMapThreads)
    scatter_exponents(ScatterParams p, const I* indices, const T* updates, unsigned* greatest) {
  using Index = typename Scatter::Index;
  const Index line = flat_index<Index>();
  begin_kernel();
  if (line >= static_cast<Index>(p.count)) return;
  Index from, at;
  if (!Scatter::step(p, indices, line, Index(0), from, at)) return;
  const unsigned bits = __float_as_uint(load(updates[from]));
  unsigned exponent = bits >> 23 & 255u;
  if (exponent == 255u || bits << 1 == 0) return;
  if (exponent == 0) exponent = 1;
  if (greatest[at] < exponent) atomicMax(greatest + at, exponent);
}

// Flags of an element's updates, in the word that holds their greatest exponent.
constexpr unsigned kInfinity = 1u << 28, kMinusInfinity = 1u << 29, kNoNumber = 1u << 30;

template <typename Scatter, typename T, typename I>
__global__ void __launch_bounds__(kMapThreads)
    scatter_sums(ScatterSumParams params, const I* indices, const T* updates, unsigned* greatest, long long* sums) {
  using Index = typename Scatter::Index;
  const ScatterParams& p = params.scatter;
  const Index line = flat_index<Index>();
  begin_kernel();
  if (line >= static_cast<Index>(p.count)) return;
  Index from, at;
  if (!Scatter::step(p, indices, line, Index(0), from, at)) return;
  const unsigned bits = __float_as_uint(load(updates[from]));
  unsigned exponent = bits >> 23 & 255u;
  if (exponent == 255u) atomicOr(greatest + at, bits << 9 != 0 ? kNoNumber : bits >> 31 ? kMinusInfinity : kInfinity);
  if (exponent == 255u || bits << 1 == 0) return;  // zeros change nothing
  long long v = bits & 0x7fffffu;
  if (exponent != 0) {
    v |= 0x800000;
  } else {
    exponent = 1;
  }
  const int shift = params.kept_bits - 23 - static_cast<int>((greatest[at] & 255u) - exponent);
  if (shift < -24) return;
  v = shift >= 0 ? v << shift : (v + (1ll << (-shift - 1))) >> -shift;
  atomicAdd(reinterpret_cast<unsigned long long*>(sums) + at, static_cast<unsigned long long>(bits >> 31 ? -v : v));
}

template <typename T, bool kWide>
__global__ void __launch_bounds__(kMapThreads)
    scatter_add(ScatterSumParams p, const T* a, const unsigned* greatest, const long long* sums, T* y) {
  const index_t<kWide> flat = flat_index<index_t<kWide>>();
  begin_kernel();
  if (flat >= static_cast<index_t<kWide>>(p.scatter.count)) return;
  const unsigned seen = greatest[flat], exponent = seen & 255u;
  double sum = load(a[flat]);
  if (exponent != 0) {
    const long long unit = static_cast<long long>(exponent) + 1023 - 127 - p.kept_bits;
    sum += static_cast<double>(sums[flat]) * __longlong_as_double(unit << 52);
  }
  if ((seen & kInfinity) != 0) sum += infinity_();
  if ((seen & kMinusInfinity) != 0) sum -= infinity_();
  if ((seen & kNoNumber) != 0) sum = infinity_() - infinity_();
  if (seen == 0) {
    y[flat] = a[flat];
  } else {
    y[flat] = store<T>(static_cast<float>(sum));
  }
}

}  // namespace tenon::cuda::device
