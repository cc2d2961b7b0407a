// A group of elements that lie anywhere, and its sums. A lane keeps its elements in registers where they are few
// (kTurns vectors of kVector elements), and else reads them once a pass (kTurns 0).
#pragma once

#include "ep/cuda/ops/norm/norm_params.h"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

template <typename T, unsigned kThreads, int kTurns, int kVector, int kReduced, bool kWide>
struct NormGroup {
  using N = number_t<T>;
  using Index = index_t<kWide>;

  // The block has all its threads until the end, because they meet.
  __device__ __forceinline__ NormGroup(const NormParams& params, const T* from, N* shared)
      : p(params), a(from), parts(shared) {
    lanes = 1u << p.lane_bits;
    const unsigned groups = kThreads >> p.lane_bits;
    lane = p.beside ? threadIdx.x / groups : threadIdx.x & (lanes - 1);
    distance = p.beside ? groups : 1;
    group = (Index)blockIdx.x * groups + (p.beside ? threadIdx.x & (groups - 1) : threadIdx.x >> p.lane_bits);
    mine = group < (Index)p.outputs;
    find_offsets(group, p.kept, begin, parameter);
    if constexpr (kTurns != 0) {
#pragma unroll
      for (unsigned n = 0; n < kTurns; ++n) {
        const Index step = n * lanes + lane;
        if (!mine || step >= (Index)p.steps) continue;
        const Pack<T, kVector> pack = *(const Pack<T, kVector>*)(a + offset(step));
#pragma unroll
        for (int j = 0; j < kVector; ++j) held[n * kVector + j] = load(pack.v[j]);
      }
    }
  }

  // Goes through the lane's elements.
  template <typename Take>
  __device__ __forceinline__ void each(Take take) const {
    if (!mine) return;
    if constexpr (kTurns != 0) {
#pragma unroll
      for (unsigned n = 0; n < kTurns; ++n) {
        if (n * lanes + lane >= (Index)p.steps) continue;
#pragma unroll
        for (int j = 0; j < kVector; ++j) take(held[n * kVector + j]);
      }
    } else {
#pragma unroll 4
      for (Index step = lane; step < (Index)p.steps; step += lanes) {
        const Pack<T, kVector> pack = *(const Pack<T, kVector>*)(a + offset(step));
#pragma unroll
        for (int j = 0; j < kVector; ++j) take(load(pack.v[j]));
      }
    }
  }

  // Stores put(element, its index among the parameters).
  template <typename Put>
  __device__ __forceinline__ void write(T* y, Put put) const {
    if (!mine) return;
    const auto store_step = [&](Index step, const auto& element) {
      Index at[kReduced + 1];
      split_index<kReduced>(step, p.reduced.dims, at);
      const Index first = parameter + offset_of<kReduced>(at, p.reduced.strides[1]);
      Pack<T, kVector> out;
#pragma unroll
      for (int j = 0; j < kVector; ++j) out.v[j] = store<T>(put(element(j), first + j * (Index)p.parameter_step));
      *(Pack<T, kVector>*)(y + (begin + offset_of<kReduced>(at, p.reduced.strides[0]))) = out;
    };
    if constexpr (kTurns != 0) {
#pragma unroll
      for (unsigned n = 0; n < kTurns; ++n) {
        const Index step = n * lanes + lane;
        if (step >= (Index)p.steps) continue;
        store_step(step, [&](int j) { return held[n * kVector + j]; });
      }
    } else {
#pragma unroll 4
      for (Index step = lane; step < (Index)p.steps; step += lanes) {
        const Pack<T, kVector> pack = *(const Pack<T, kVector>*)(a + offset(step));
        store_step(step, [&](int j) { return load(pack.v[j]); });
      }
    }
  }

  // Joins the lanes' numbers; all lanes of the group have the result.
  template <typename Join>
  __device__ __forceinline__ N together(N acc, Join join) const {
    if (lanes == 1) return acc;
    parts[threadIdx.x] = acc;
    __syncthreads();
    for (unsigned n = lanes / 2; n > 0; n /= 2) {
      if (lane < n) parts[threadIdx.x] = join(parts[threadIdx.x], parts[threadIdx.x + n * distance]);
      __syncthreads();
    }
    const N all = parts[threadIdx.x - lane * distance];
    __syncthreads();
    return all;
  }
  template <typename Term>
  __device__ __forceinline__ N sum(Term term) const {
    N acc = 0;
    each([&](N v) { acc = acc + term(v); });
    return together(acc, [](N x, N y) { return x + y; });
  }

  const NormParams& p;
  const T* a;
  N* parts;
  Index group, begin, parameter;  // begin: of the group in the input; parameter: in scale and bias
  unsigned lane, lanes, distance;
  bool mine;
  N held[kTurns == 0 ? 1 : kTurns * kVector];

 private:
  __device__ __forceinline__ Index offset(Index step) const {
    Index at[kReduced + 1];
    split_index<kReduced>(step, p.reduced.dims, at);
    return begin + offset_of<kReduced>(at, p.reduced.strides[0]);
  }
};

}  // namespace tenon::cuda::device
