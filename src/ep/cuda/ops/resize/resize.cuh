// Resize and Upsample by tables: for each output coordinate of a dimension, the input coordinates that it reads and
// their weights. A thread makes one element.
#pragma once

#include "ep/cuda/ops/resize/resize_params.h"
#include "ep/cuda/templates/window.cuh"

namespace tenon::cuda::device {

template <int... kWidths>
struct ResizeWidths {
  static constexpr int kRank = sizeof...(kWidths);
  template <int kDim>
  using Of = IntegerAt<kDim, kWidths...>;
};

// Where an output coordinate's taps begin in the tables, and how many there are.
template <int kWidth, typename Index>
__device__ __forceinline__ Index first_tap(const ResizeParams& p, int dim, Index coordinate, int& width) {
  width = kWidth == kAnyWidth ? p.widths[dim] : kWidth;
  return static_cast<Index>(p.tables[dim]) + coordinate * static_cast<Index>(width);
}

// The offset of the first taps of all dimensions from kDim on; sets `outside` where one of them lies outside of x.
template <typename Widths, int kDim = 0, typename Index, typename Offset>
__device__ __forceinline__ void find_first_taps(const ResizeParams& p, const Index* i, const int* indices,
                                                Offset& offset, bool& outside) {
  if constexpr (kDim < Widths::kRank) {
    constexpr int kWidth = Widths::template Of<kDim>::kValue;
    Offset coordinate = static_cast<Offset>(i[kDim]);
    if constexpr (kWidth != kKeptWidth) {
      int width = 0;
      coordinate = static_cast<Offset>(indices[first_tap<kWidth>(p, kDim, i[kDim], width)]);
      outside = outside || coordinate < 0;
    }
    offset += coordinate * static_cast<Offset>(p.strides[kDim]);
    find_first_taps<Widths, kDim + 1>(p, i, indices, offset, outside);
  }
}

// Adds the weighted elements of all taps from dimension kDim on.
template <typename Widths, int kDim = 0, typename T, typename Index, typename Offset>
__device__ __forceinline__ void add_taps(const ResizeParams& p, const Index* i, const int* indices,
                                         const float* weights, Offset offset, float weight, const T* x, float& sum) {
  if constexpr (kDim == Widths::kRank) {
    // Elements of no weight may be NaN.
    if (weight != 0.0f) sum += weight * load(x[offset]);
  } else if constexpr (Widths::template Of<kDim>::kValue == kKeptWidth) {
    add_taps<Widths, kDim + 1>(p, i, indices, weights,
                               offset + static_cast<Offset>(i[kDim]) * static_cast<Offset>(p.strides[kDim]), weight, x,
                               sum);
  } else {
    constexpr int kWidth = Widths::template Of<kDim>::kValue;
    int width = 0;
    const Index first = first_tap<kWidth>(p, kDim, i[kDim], width);
    for (int k = 0; k < width; ++k)
      add_taps<Widths, kDim + 1>(
          p, i, indices, weights,
          offset + static_cast<Offset>(indices[first + k]) * static_cast<Offset>(p.strides[kDim]),
          kWidth == 1 ? weight : weight * weights[first + k], x, sum);
  }
}

// kCopies: every element is one of x; its type needs no arithmetic.
template <typename T, bool kCopies, bool kWide, int... kWidths>
__global__ void __launch_bounds__(kMapThreads)
    resize(ResizeParams p, const T* x, const int* indices, const float* weights, T* y) {
  using Widths = ResizeWidths<kWidths...>;
  using Index = index_t<kWide>;
  using Offset = offset_t<kWide>;
  Index flat, i[Widths::kRank];
  if (!map_index(p.map, flat, i)) return;
  const Index at = offset_of<Widths::kRank>(i, p.out_strides);
  bool outside = false;
  Offset offset = 0;
  if (kCopies || p.outside) find_first_taps<Widths>(p, i, indices, offset, outside);
  if (outside) {
    y[at] = store<T>(p.fill);
  } else if constexpr (kCopies) {
    y[at] = x[offset];
  } else {
    float sum = 0.0f;
    add_taps<Widths>(p, i, indices, weights, Offset{0}, 1.0f, x, sum);
    y[at] = store<T>(sum);
  }
}

}  // namespace tenon::cuda::device
