// The loops over maps and windows, and the epilogue of a sum, as kernels write them.
#pragma once

#include "ep/cuda/templates/kernel.cuh"
#include "ep/cuda/templates/window_params.h"

namespace tenon::cuda::device {

// The element of a map that this thread makes, and its coordinates. False for threads beyond the last one.
template <int kRank, typename Index>
__device__ __forceinline__ bool map_index(const MapParams& map, Index& flat, Index (&i)[kRank]) {
  flat = flat_index<Index>();
  begin_kernel();
  if (flat >= static_cast<Index>(map.count)) return false;
  split_index<kRank>(flat, map.dims, i);
  return true;
}

// The integer at kIndex of a list.
template <int kIndex, int kFirst, int... kRest>
struct IntegerAt {
  static constexpr int kValue = IntegerAt<kIndex - 1, kRest...>::kValue;
};
template <int kFirst, int... kRest>
struct IntegerAt<0, kFirst, kRest...> {
  static constexpr int kValue = kFirst;
};

// The extents of a window as template arguments, so that loops over small ones are unrolled; 0: the parameters say it.
template <int... kExtents>
struct Kernel {
  static constexpr int kAxes = sizeof...(kExtents);
  template <int kAxis>
  static __device__ __forceinline__ int extent(const WindowParams& window) {
    constexpr int kExtent = IntegerAt<kAxis, kExtents...>::kValue;
    return kExtent != 0 ? kExtent : window.axes[kAxis].kernel;
  }
};

// Calls visit(offset, tap, inside) for the taps of the window at position o of the output, over the axes before kEnd,
// the last one fastest. `offset` counts the elements of dense axes behind the `offset` given, `tap` those of the kernel
// behind the `tap` given. kAll: also for taps outside of x, whose offset has no meaning; otherwise `inside` is true.
template <typename Kernel, bool kAll = false, int kEnd = Kernel::kAxes, int kAxis = 0, typename Offset, typename Tap,
          typename Visit>
__device__ __forceinline__ void visit_taps(const WindowParams& window, const Offset* o, Offset offset, Tap tap,
                                           const Visit& visit, bool inside = true) {
  if constexpr (kAxis == kEnd) {
    visit(offset, tap, inside);
  } else {
    const WindowParams::Axis& axis = window.axes[kAxis];
    const Offset first = o[kAxis] * axis.stride - axis.pad_begin, in = static_cast<Offset>(axis.in);
    const int extent = Kernel::template extent<kAxis>(window);
    for (int k = 0; k < extent; ++k) {
      const Offset p = first + static_cast<Offset>(k) * axis.dilation;
      const bool meets = p >= 0 && p < in;
      if (kAll || meets)
        visit_taps<Kernel, kAll, kEnd, kAxis + 1>(window, o, offset * in + p, tap * static_cast<Tap>(extent) + k, visit,
                                                  inside && meets);
    }
  }
}

// act(sum + residual), or act(sum) + residual; `residual` may be null.
template <Activation kActivation, typename T, typename Index>
__device__ __forceinline__ T finish_sum(const EpilogueParams& epilogue, float sum, const T* residual, Index at) {
  if (residual != nullptr && !epilogue.residual_after) sum += load(residual[at]);
  sum = activate<kActivation>(sum, epilogue.alpha, epilogue.beta);
  if (residual != nullptr && epilogue.residual_after) sum += load(residual[at]);
  return store<T>(sum);
}

}  // namespace tenon::cuda::device
