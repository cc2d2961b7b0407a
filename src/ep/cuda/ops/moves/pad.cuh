// Pad by elements of the input: its edge, its mirror image, or from the other side.
#pragma once

#include "ep/cuda/ops/moves/pad_params.h"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

template <MirrorPad kMode, typename T, int kRank, bool kWide>
__global__ void __launch_bounds__(kMapThreads) mirror_pad(MirrorPadParams p, const T* a, T* y) {
  using Index = index_t<kWide>;
  using Offset = offset_t<kWide>;
  const Index flat = flat_index<Index>();
  begin_kernel();
  if (flat >= static_cast<Index>(p.count)) return;
  Index i[kRank], offset = 0;
  split_index<kRank>(flat, p.dims, i);
#pragma unroll
  for (int d = 0; d < kRank; ++d) {
    const MirrorPadParams::Axis& axis = p.axes[d];
    const Offset size = static_cast<Offset>(axis.size);
    Offset at;
    if constexpr (kMode == MirrorPad::kEdge) {
      at = static_cast<Offset>(i[d]) - static_cast<Offset>(axis.begin);
      at = at < 0 ? 0 : at >= size ? size - 1 : at;
    } else {
      Index rest = i[d] + static_cast<Index>(axis.shift);
      at = static_cast<Offset>(split(rest, axis.period));
      if (kMode == MirrorPad::kReflect && at >= size) at = static_cast<Offset>(axis.period.size) - at;
    }
    offset += static_cast<Index>(at + static_cast<Offset>(axis.crop)) * static_cast<Index>(axis.stride);
  }
  y[flat] = a[offset];
}

}  // namespace tenon::cuda::device
