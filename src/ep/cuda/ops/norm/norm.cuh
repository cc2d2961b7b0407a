// Normalisations over dimensions that lie anywhere.
#pragma once

#include "ep/cuda/ops/norm/group.cuh"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

// `s` and `b` are scale and bias; `m` and `r` take each group's mean and factor, and may be null.
template <typename T, typename S, typename B, typename M, NormMeasure kMeasure, bool kScale, bool kBias,
          unsigned kThreads, int kTurns, int kVector, int kReduced, bool kWide>
__global__ void __launch_bounds__(kThreads)
    normalise(NormParams p, const T* a, const S* s, const B* b, T* y, M* m, M* r) {
  using N = number_t<T>;
  __shared__ N parts[kThreads];
  begin_kernel();
  const NormGroup<T, kThreads, kTurns, kVector, kReduced, kWide> group(p, a, parts);
  N inverse_count, mean = 0, factor;
  if constexpr (sizeof(N) == sizeof(double)) {
    inverse_count = p.inverse_count;
  } else {
    inverse_count = p.inverse_count_float;
  }
  if constexpr (kMeasure == NormMeasure::kDeviation) mean = group.sum([](N v) { return v; }) * inverse_count;
  if constexpr (kMeasure == NormMeasure::kDeviation || kMeasure == NormMeasure::kSquares) {
    const N squares = group.sum([&](N v) { return (v - mean) * (v - mean); });
    factor = 1 / sqrt_of(squares * inverse_count + (N)p.epsilon);
  } else if constexpr (kMeasure == NormMeasure::kOne) {
    const N size = group.sum([](N v) { return v < 0 ? -v : v; });
    factor = size == 0 ? (N)0 : 1 / size;
  } else {
    const N size = group.sum([](N v) { return v * v; });
    factor = size == 0 ? (N)0 : 1 / sqrt_of(size);
  }
  if (group.mine && group.lane == 0) {
    if (m != nullptr) m[group.group] = store<M>(mean);
    if (r != nullptr) r[group.group] = store<M>(factor);
  }
  group.write(y, [&](N v, auto parameter) {
    N scale = 1, bias = 0;
    if constexpr (kScale) scale = (N)load(s[parameter]);
    if constexpr (kBias) bias = (N)load(b[parameter]);
    return (v - mean) * factor * scale + bias;
  });
}

}  // namespace tenon::cuda::device
