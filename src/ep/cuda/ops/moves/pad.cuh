// Pad by elements of the input: its edge, its mirror image, or from the other side.
#pragma once

#include "ep/cuda/ops/moves/pad_params.h"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

template <MirrorPad kMode, typename T, int kRank, bool kWide>
__global__ void __launch_bounds__(kMapThreads) mirror_pad(MirrorPadParams p, const T* a, T* y) {
  using Index = index_t<kWide>;
  using Place = place_t<kWide>;
  const Index flat = flat_index<Index>();
  begin_kernel();
  if (flat >= static_cast<Index>(p.count)) return;
  Index i[kRank], place = 0;
  split_index<kRank>(flat, p.dims, i);
#pragma unroll
  for (int d = 0; d < kRank; ++d) {
    const MirrorPadParams::Axis& axis = p.axes[d];
    const Place size = static_cast<Place>(axis.size);
    Place at;
    if constexpr (kMode == MirrorPad::kEdge) {
      at = static_cast<Place>(i[d]) - static_cast<Place>(axis.begin);
      at = at < 0 ? 0 : at >= size ? size - 1 : at;
    } else {
      Index rest = i[d] + static_cast<Index>(axis.shift);
      at = static_cast<Place>(split(rest, axis.period));
      if (kMode == MirrorPad::kReflect && at >= size) at = static_cast<Place>(axis.period.size) - at;
    }
    place += static_cast<Index>(at + static_cast<Place>(axis.crop)) * static_cast<Index>(axis.stride);
  }
  y[flat] = a[place];
}

}  // namespace tenon::cuda::device
