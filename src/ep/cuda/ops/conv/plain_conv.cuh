// Convolutions of any rank over plain images. A thread makes one element.
#pragma once

#include "ep/cuda/ops/conv/plain_conv_params.h"
#include "ep/cuda/templates/window.cuh"

namespace tenon::cuda::device {

// `bias` and `residual` may be null.
template <typename T, typename Bias, Activation kActivation, bool kWide, int... kKernel>
__global__ void __launch_bounds__(kMapThreads)
    plain_conv(PlainConvParams p, const T* x, const T* w, const Bias* bias, const T* residual, T* y) {
  using Index = index_t<kWide>;
  using Offset = offset_t<kWide>;
  constexpr int kAxes = sizeof...(kKernel);
  Index flat, i[kAxes + 2];
  if (!map_index(p.map, flat, i)) return;
  Offset o[kAxes];
#pragma unroll
  for (int d = 0; d < kAxes; ++d) o[d] = static_cast<Offset>(i[d + 2]);
  const Index channels = static_cast<Index>(p.group_channels);
  const Index first = i[0] * static_cast<Index>(p.channels) + quotient(i[1], p.group_outputs) * channels;
  float sum = 0;
  for (Index c = 0; c < channels; ++c)
    visit_taps<Kernel<kKernel...>>(p.window, o, static_cast<Offset>(first + c), i[1] * channels + c,
                                   [&](Offset offset, Index tap, bool) { sum += load(x[offset]) * load(w[tap]); });
  if (bias != nullptr) sum += load(bias[i[1]]);
  y[flat] = finish_sum<kActivation>(p.epilogue, sum, residual, flat);
}

// kVectors: the channels of a tap are whole vectors, which lie together in x.
template <typename T, int kVector, bool kVectors, bool kWide>
__global__ void __launch_bounds__(kMapThreads) unfold_depth(UnfoldDepthParams p, const T* x, T* y) {
  using Index = index_t<kWide>;
  using Offset = offset_t<kWide>;
  using Vector = Pack<T, kVector>;
  Index flat, i[5];
  if (!map_index(p.map, flat, i)) return;
  const T* const pixel = x + (i[0] * static_cast<Index>(p.strides[0]) + i[2] * static_cast<Index>(p.strides[3]) +
                              i[3] * static_cast<Index>(p.strides[4]));
  // The element of a tap and a channel; null outside of x.
  const auto find = [&](Index tap, Index channel) -> const T* {
    const Offset at =
        static_cast<Offset>(i[1]) * p.depth.stride - p.depth.pad_begin + static_cast<Offset>(tap) * p.depth.dilation;
    if (tap >= static_cast<Index>(p.depth.kernel) || at < 0 || at >= static_cast<Offset>(p.depth.in)) return nullptr;
    return pixel +
           (at * static_cast<Offset>(p.strides[2]) + static_cast<Offset>(channel) * static_cast<Offset>(p.strides[1]));
  };
  Vector v = {};
  if constexpr (kVectors) {
    Index tap = i[4];
    const Index channel = split(tap, p.channels) * kVector;
    if (const T* const from = find(tap, channel)) v = *reinterpret_cast<const Vector*>(from);
  } else {
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      Index tap = i[4] * kVector + j;
      const Index channel = split(tap, p.channels);
      if (const T* const from = find(tap, channel)) v.v[j] = *from;
    }
  }
  *reinterpret_cast<Vector*>(y + flat * kVector) = v;
}

}  // namespace tenon::cuda::device
