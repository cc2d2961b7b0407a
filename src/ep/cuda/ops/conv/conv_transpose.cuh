// Transposed convolutions after their product: from products of input pixels, or of phases, to output pixels.
#pragma once

#include "ep/cuda/ops/conv/conv_transpose_params.h"
#include "ep/cuda/templates/window.cuh"

namespace tenon::cuda::device {

template <typename Index>
__device__ __forceinline__ Index phase_address(const PhaseParams& p, Index image, Index row, Index column,
                                               Index channel) {
  Index u = row + static_cast<Index>(p.pad_h), v = column + static_cast<Index>(p.pad_w);
  const Index phase_h = split(u, p.stride_h), phase_w = split(v, p.stride_w);
  const Index cell =
      (image * static_cast<Index>(p.cells_h) + u - static_cast<Index>(p.first_h)) * static_cast<Index>(p.cells_w) + v -
      static_cast<Index>(p.first_w);
  const Index phases = static_cast<Index>(p.stride_h.size * p.stride_w.size);
  return (cell * phases + phase_h * static_cast<Index>(p.stride_w.size) + phase_w) * static_cast<Index>(p.outputs) +
         channel;
}

// A thread makes one element. kPlain: y has channels first. `residual`, which lies as y does, may be null.
template <typename T, Activation kActivation, bool kPlain, bool kWide>
__global__ void __launch_bounds__(kMapThreads) store_phases(PhaseParams p, const T* x, const T* residual, T* y) {
  index_t<kWide> flat, i[4];
  if (!map_index(p.map, flat, i)) return;
  const index_t<kWide> from = phase_address(p, i[0], i[kPlain ? 2 : 1], i[kPlain ? 3 : 2], i[kPlain ? 1 : 3]);
  y[flat] = finish_sum<kActivation>(p.epilogue, load(x[from]), residual, flat);
}

// The same for y with channels first and many of them: a block reads channels that lie together and writes columns that
// do.
template <typename T, Activation kActivation, bool kWide>
__global__ void __launch_bounds__(kMapThreads)
    store_phases_in_squares(PhaseParams p, const T* x, const T* residual, T* y) {
  using Index = index_t<kWide>;
  __shared__ float square[kPhaseSquare][kPhaseSquare + 1];
  begin_kernel();
  Index i[4];
  split_index<4>(static_cast<Index>(blockIdx.x), p.map.dims, i);
  const unsigned lane = threadIdx.x % kPhaseSquare, line = threadIdx.x / kPhaseSquare;
  const Index columns = static_cast<Index>(p.out_w), channels = static_cast<Index>(p.outputs);
#pragma unroll
  for (unsigned k = line; k < kPhaseSquare; k += kMapThreads / kPhaseSquare) {
    const Index column = i[3] * kPhaseSquare + k, channel = i[1] * kPhaseSquare + lane;
    if (column < columns && channel < channels)
      square[k][lane] = load(x[phase_address(p, i[0], i[2], column, channel)]);
  }
  __syncthreads();
#pragma unroll
  for (unsigned k = line; k < kPhaseSquare; k += kMapThreads / kPhaseSquare) {
    const Index column = i[3] * kPhaseSquare + lane, channel = i[1] * kPhaseSquare + k;
    if (column >= columns || channel >= channels) continue;
    const Index at = ((i[0] * channels + channel) * static_cast<Index>(p.out_h) + i[2]) * columns + column;
    y[at] = finish_sum<kActivation>(p.epilogue, square[lane][k], residual, at);
  }
}

// Adds the products of the taps that meet at coordinates `o` of the output, from axis kAxis on.
template <int kAxes, int kAxis = 0, typename Offset, typename T>
__device__ __forceinline__ void add_meeting_taps(const WindowSumParams& p, const Offset* o, Offset offset, const T* x,
                                                 float& sum) {
  if constexpr (kAxis == kAxes) {
    sum += load(x[offset]);
  } else {
    using Index = index_t<sizeof(Offset) == 8>;
    const WindowSumParams::Axis& axis = p.axes[kAxis];
    for (int k = 0; k < axis.kernel; ++k) {
      const Offset at = o[kAxis] + axis.pad - static_cast<Offset>(k) * axis.dilation;
      if (at < 0) break;
      Index input = static_cast<Index>(at);
      if (split(input, axis.stride) != 0 || input >= static_cast<Index>(axis.in)) continue;
      add_meeting_taps<kAxes, kAxis + 1>(p, o,
                                         offset + static_cast<Offset>(input) * static_cast<Offset>(axis.in_stride) +
                                             k * static_cast<Offset>(axis.tap_stride),
                                         x, sum);
    }
  }
}

// `bias` and `residual` may be null.
template <typename T, Activation kActivation, int kAxes, bool kWide>
__global__ void __launch_bounds__(kMapThreads)
    sum_windows(WindowSumParams p, const T* x, const float* bias, const T* residual, T* y) {
  using Offset = offset_t<kWide>;
  index_t<kWide> flat, i[kAxes + 3];
  if (!map_index(p.map, flat, i)) return;
  const Offset image = static_cast<Offset>(i[0]), group = static_cast<Offset>(i[kAxes + 1]);
  const Offset channel = group * static_cast<Offset>(p.group_channels) + static_cast<Offset>(i[kAxes + 2]);
  Offset o[kAxes];
  Offset at = image * static_cast<Offset>(p.out_image_stride) + channel * static_cast<Offset>(p.out_channel_stride);
  Offset other =
      image * static_cast<Offset>(p.residual_image_stride) + channel * static_cast<Offset>(p.residual_channel_stride);
#pragma unroll
  for (int d = 0; d < kAxes; ++d) {
    o[d] = static_cast<Offset>(i[d + 1]);
    at += o[d] * static_cast<Offset>(p.axes[d].out_stride);
    other += o[d] * static_cast<Offset>(p.axes[d].residual_stride);
  }
  const Offset from = image * static_cast<Offset>(p.image_stride) + group * static_cast<Offset>(p.group_stride) +
                      static_cast<Offset>(i[kAxes + 2]) * static_cast<Offset>(p.channel_stride);
  float sum = bias != nullptr ? bias[channel] : 0.0f;
  add_meeting_taps<kAxes>(p, o, from, x, sum);
  y[at] = finish_sum<kActivation>(p.epilogue, sum, residual, other);
}

}  // namespace tenon::cuda::device
