// Pools of any rank and type over plain images. A thread makes one element.
#pragma once

#include "ep/cuda/ops/pool/general_pool_params.h"
#include "ep/cuda/templates/window.cuh"

namespace tenon::cuda::device {

// How many taps of the axis lie before the end of its padding.
template <typename Offset>
__device__ __forceinline__ int taps_with_padding(const WindowParams::Axis& axis, Offset o) {
  int count = 0;
  for (int k = 0; k < axis.kernel; ++k)
    count += o * axis.stride - axis.pad_begin + static_cast<Offset>(k) * axis.dilation <
             static_cast<Offset>(axis.in) + axis.pad_end;
  return count;
}

// The index of the element at `offset` of x where the axes of its image are counted in reverse order.
template <int kAxes>
__device__ __forceinline__ long long column_major_index(const WindowParams& window, long long offset) {
  long long reversed = 0, step = 1, inner = 1;
#pragma unroll
  for (int d = 0; d < kAxes; ++d) inner *= window.axes[d].in;
  const long long image = offset / inner * inner;
  long long rest = offset - image;
#pragma unroll
  for (int d = 0; d < kAxes; ++d) {
    inner /= window.axes[d].in;
    reversed += rest / inner * step;
    rest %= inner;
    step *= window.axes[d].in;
  }
  return image + reversed;
}

// The largest of no elements.
template <typename Number>
__device__ __forceinline__ Number empty_maximum(Number) {
  return 0;
}
__device__ __forceinline__ float empty_maximum(float) { return -infinity_(); }
__device__ __forceinline__ double empty_maximum(double) { return -infinity_(); }

// `indices` may be null.
template <typename T, PoolMode kMode, bool kWide, int... kKernel>
__global__ void __launch_bounds__(kMapThreads) general_pool(GeneralPoolParams p, const T* x, T* y, long long* indices) {
  using Number = number_t<T>;
  using Offset = offset_t<kWide>;
  constexpr int kAxes = sizeof...(kKernel);
  index_t<kWide> flat, i[kAxes + 2];
  if (!map_index(p.map, flat, i)) return;
  Offset o[kAxes];
#pragma unroll
  for (int d = 0; d < kAxes; ++d) o[d] = static_cast<Offset>(i[d + 2]);
  Number sum = 0;
  Offset best = 0;
  int count = 0;
  visit_taps<Kernel<kKernel...>>(p.window, o,
                                 static_cast<Offset>(i[0] * static_cast<index_t<kWide>>(p.channels) + i[1]), 0,
                                 [&](Offset offset, int, bool) {
                                   const Number v = load(x[offset]);
                                   if constexpr (kMode == PoolMode::kMax) {
                                     if (count == 0 || v > sum || v != v) sum = v, best = offset;
                                   } else if constexpr (kMode == PoolMode::kAverage) {
                                     sum += v;
                                   } else if constexpr (kMode == PoolMode::kNorm1) {
                                     sum += abs_of(v);
                                   } else if constexpr (kMode == PoolMode::kNorm2) {
                                     sum += v * v;
                                   } else {
                                     sum += power(abs_of(v), static_cast<Number>(p.order));
                                   }
                                   ++count;
                                 });
  if constexpr (kMode == PoolMode::kMax) {
    if (count == 0) sum = empty_maximum(sum);
    if (indices != nullptr)
      indices[flat] = count == 0 ? 0 : p.column_major ? column_major_index<kAxes>(p.window, best) : (long long)best;
  } else if constexpr (kMode == PoolMode::kAverage) {
    if (p.count_include_pad) {
      count = 1;
#pragma unroll
      for (int d = 0; d < kAxes; ++d) count *= taps_with_padding(p.window.axes[d], o[d]);
    }
    sum /= static_cast<Number>(count);
  } else if constexpr (kMode == PoolMode::kNorm2) {
    sum = sqrt_of(sum);
  } else if constexpr (kMode == PoolMode::kNorm) {
    sum = power(sum, static_cast<Number>(p.inverse_order));
  }
  y[flat] = store<T>(sum);
}

}  // namespace tenon::cuda::device
