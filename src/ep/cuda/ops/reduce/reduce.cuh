// Reductions: a group of a block's threads for each result, laid out so that neighbours read neighbours.
#pragma once

#include "ep/cuda/ops/reduce/reduce_params.h"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

// Which result a thread has a share in, and its steps.
template <typename Index>
struct ReduceThread {
  Index flat, part, step, last, from, to;  // from, to: where the result begins in the input, and where it goes
  unsigned lane, lanes, distance;          // distance: of the threads that share a result

  __device__ __forceinline__ ReduceThread(const ReduceParams& p) {
    lanes = 1u << p.lane_bits;
    const unsigned results = kReduceThreads >> p.lane_bits;
    const unsigned result = p.beside ? threadIdx.x & (results - 1) : threadIdx.x >> p.lane_bits;
    lane = p.beside ? threadIdx.x / results : threadIdx.x & (lanes - 1);
    distance = p.beside ? results : 1;
    unsigned block = blockIdx.x;
    part = split(block, p.parts);
    flat = (Index)block * results + result;
    last = part * (Index)p.steps_a_part + (Index)p.steps_a_part;
    if (last > (Index)p.steps) last = (Index)p.steps;
    step = part * (Index)p.steps_a_part + lane;
    find_offsets(flat, p.kept, from, to);
    to += part;
  }
  __device__ __forceinline__ bool has_result(const ReduceParams& p) const { return flat < (Index)p.outputs; }
  // The thread that gets the result.
  __device__ __forceinline__ unsigned first() const { return threadIdx.x - lane * distance; }
};

// Where vector `step` of the reduced elements lies, from the result's begin.
template <int kReduced, typename Index>
__device__ __forceinline__ Index reduced_offset(const ReduceParams& p, Index step) {
  Index at[kReduced + 1];
  split_index<kReduced>(step, p.reduced.dims, at);
  return offset_of<kReduced>(at, p.reduced.strides[0]);
}

// One pass over the elements: `start`, `take` an element, `join` two threads' numbers. kLogSumExp adds up beside
// `most`.
template <ReduceKind kKind, typename T>
struct Reducing {
  using N = number_t<T>;
  static __device__ __forceinline__ N start() {
    if constexpr (kKind == ReduceKind::kMax) return lowest<T>();
    if constexpr (kKind == ReduceKind::kMin) return highest<T>();
    return kKind == ReduceKind::kProd;
  }
  static __device__ __forceinline__ N join(N acc, N v) {
    if constexpr (kKind == ReduceKind::kMax) {
      return max_of(acc, v);
    } else if constexpr (kKind == ReduceKind::kMin) {
      return min_of(acc, v);
    } else if constexpr (kKind == ReduceKind::kProd) {
      return acc * v;
    } else {
      return acc + v;
    }
  }
  static __device__ __forceinline__ N take(N acc, N v, N most) {
    if constexpr (kKind == ReduceKind::kL1) {
      return acc + (v < 0 ? -v : v);
    } else if constexpr (kKind == ReduceKind::kL2 || kKind == ReduceKind::kSumSquare) {
      return acc + v * v;
    } else if constexpr (kKind == ReduceKind::kLogSumExp) {
      return acc + exp_of(v - most);
    } else {
      return join(acc, v);
    }
  }
  static __device__ __forceinline__ N end(N acc, N most, int64_t count) {
    if constexpr (kKind == ReduceKind::kMean) {
      // Of integers the mean of nothing is 0, as the CPU EP has it; of floats it is no number.
      if constexpr (N(0.5) == N(0)) {
        if (count == 0) return N(0);
      }
      return acc / (N)count;
    } else if constexpr (kKind == ReduceKind::kL2 || kKind == ReduceKind::kRoot) {
      // Of integers in float32.
      if constexpr (sizeof(N) == sizeof(double) && N(0.5) != N(0)) {
        return sqrt_of(acc);
      } else {
        return (N)sqrt_of((float)acc);
      }
    } else if constexpr (kKind == ReduceKind::kLogSum) {
      return log_of(acc);
    } else if constexpr (kKind == ReduceKind::kLogSumExp) {
      return most + log_of(acc);
    } else {
      return acc;
    }
  }
};

// The first lane returns the result of all.
template <ReduceKind kKind, int kReduced, int kVector, typename T, typename Thread, typename N>
__device__ __forceinline__ N reduce_pass(const ReduceParams& p, const Thread& thread, const T* a, N most, N* parts) {
  using Of = Reducing<kKind, T>;
  N acc = Of::start();
  if (thread.has_result(p)) {
#pragma unroll 4
    for (auto step = thread.step; step < thread.last; step += thread.lanes) {
      const Pack<T, kVector> pack = *(const Pack<T, kVector>*)(a + (thread.from + reduced_offset<kReduced>(p, step)));
#pragma unroll
      for (int j = 0; j < kVector; ++j) acc = Of::take(acc, load(pack.v[j]), most);
    }
  }
  if (thread.lanes == 1) return acc;
  parts[threadIdx.x] = acc;
  __syncthreads();
  for (unsigned n = thread.lanes / 2; n > 0; n /= 2) {
    if (thread.lane < n) {
      acc = Of::join(acc, parts[threadIdx.x + n * thread.distance]);
      parts[threadIdx.x] = acc;
    }
    __syncthreads();
  }
  return acc;
}

template <typename T, typename Out, ReduceKind kKind, int kReduced, int kVector, bool kWide>
__global__ void __launch_bounds__(kReduceThreads) reduce(ReduceParams p, const T* a, Out* y) {
  using N = number_t<T>;
  __shared__ N parts[kReduceThreads];
  begin_kernel();
  const ReduceThread<index_t<kWide>> thread(p);
  N most = 0;
  if constexpr (kKind == ReduceKind::kLogSumExp) {
    // Beside the greatest, or beside 0 where that is no number.
    most = reduce_pass<ReduceKind::kMax, kReduced, kVector>(p, thread, a, most, parts);
    if (thread.lanes > 1) most = parts[thread.first()];
    if (most - most != 0) most = 0;
    __syncthreads();
  }
  const N acc = reduce_pass<kKind, kReduced, kVector>(p, thread, a, most, parts);
  if (thread.lane != 0 || !thread.has_result(p)) return;
  y[thread.to] = store<Out>(Reducing<kKind, T>::end(acc, most, p.count));
}

// The position of the largest or smallest element. A NaN is beyond every number, whichever extreme is asked for; of
// equal ones the first counts, or the last where kLast. `w`: the candidates' positions, where there are some.
template <typename T, typename Out, ReduceKind kKind, bool kLast, int kReduced, int kVector, bool kWide>
__device__ __forceinline__ void choose_element(const ReduceParams& p, const T* a, const int64_t* w, Out* y) {
  using N = number_t<T>;
  using Index = index_t<kWide>;
  begin_kernel();
  const ReduceThread<Index> thread(p);
  const auto better = [](N v, N best) { return kKind == ReduceKind::kArgMax ? v > best : v < best; };
  N best = 0;
  int64_t where = -1;
  if (thread.has_result(p)) {
#pragma unroll 4
    for (Index step = thread.step; step < thread.last; step += thread.lanes) {
      int64_t k = step;
      if (w != nullptr) k = w[thread.flat * (Index)p.candidates + step];
      if (k < 0) continue;
      const Pack<T, kVector> pack =
          *(const Pack<T, kVector>*)(a + (thread.from + reduced_offset<kReduced>(p, (Index)k)));
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const N v = load(pack.v[j]);
        // Of one thread's elements, which come in order.
        const bool takes = kLast ? better(v, best) || v == best || v != v : better(v, best) || (v != v && best == best);
        if (where < 0 || takes) {
          best = v;
          where = k * kVector + j;
        }
      }
    }
  }
  if (thread.lanes > 1) {
    __shared__ N bests[kReduceThreads];
    __shared__ int64_t positions[kReduceThreads];
    bests[threadIdx.x] = best;
    positions[threadIdx.x] = where;
    __syncthreads();
    for (unsigned n = thread.lanes / 2; n > 0; n /= 2) {
      if (thread.lane < n) {
        const unsigned other = threadIdx.x + n * thread.distance;
        const N v = bests[other];
        const int64_t at = positions[other];
        const bool nan = v != v, worse = best == best, same = v == best || (nan && !worse);
        if (at >= 0 &&
            (where < 0 || better(v, best) || (nan && worse) || (same && (kLast ? at > where : at < where)))) {
          best = v;
          where = at;
          bests[threadIdx.x] = best;
          positions[threadIdx.x] = where;
        }
      }
      __syncthreads();
    }
  }
  if (thread.lane != 0 || !thread.has_result(p)) return;
  y[thread.to] = store<Out>(where);
}

template <typename T, typename Out, ReduceKind kKind, bool kLast, int kReduced, int kVector, bool kWide>
__global__ void __launch_bounds__(kReduceThreads) choose(ReduceParams p, const T* a, Out* y) {
  choose_element<T, Out, kKind, kLast, kReduced, kVector, kWide>(p, a, nullptr, y);
}

template <typename T, typename Out, ReduceKind kKind, bool kLast, int kReduced, bool kWide>
__global__ void __launch_bounds__(kReduceThreads)
    choose_candidate(ReduceParams p, const T* a, const int64_t* w, Out* y) {
  choose_element<T, Out, kKind, kLast, kReduced, 1, kWide>(p, a, w, y);
}

}  // namespace tenon::cuda::device
