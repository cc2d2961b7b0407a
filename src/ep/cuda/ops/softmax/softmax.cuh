// Softmax and LogSoftmax over a dimension that lies anywhere.
#pragma once

#include "ep/cuda/ops/norm/group.cuh"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

template <typename T, bool kLogarithm, unsigned kThreads, int kTurns, int kVector, int kReduced, bool kWide>
__global__ void __launch_bounds__(kThreads) softmax(NormParams p, const T* a, T* y) {
  using N = number_t<T>;
  __shared__ N parts[kThreads];
  begin_kernel();
  const NormGroup<T, kThreads, kTurns, kVector, kReduced, kWide> group(p, a, parts);
  N largest = lowest<T>();
  group.each([&](N v) { largest = max_of(largest, v); });
  largest = group.together(largest, [](N x, N y) { return max_of(x, y); });
  const N total = group.sum([&](N v) { return exp_of(v - largest); });
  if constexpr (kLogarithm) {
    const N log_total = log_of(total);
    group.write(y, [&](N v, auto) { return (v - largest) - log_total; });
  } else {
    const N factor = 1 / total;
    const bool zeros = p.guarded && factor != factor;
    group.write(y, [&](N v, auto) { return zeros ? (N)0 : exp_of(v - largest) * factor; });
  }
}

}  // namespace tenon::cuda::device
