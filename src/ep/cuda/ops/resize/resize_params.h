// The parameters of resize.cuh, as host and device read them.
#pragma once

#include "ep/cuda/templates/window_params.h"

namespace tenon::cuda {

// A dimension's width as a template argument: it keeps its coordinate, or has a number of taps that the parameters say.
inline constexpr int kKeptWidth = 0, kAnyWidth = -1;

struct ResizeParams {
  MapParams map;  // of y, in the order of memory
  int64_t strides[kMostDims] = {}, out_strides[kMostDims] = {};
  int64_t tables[kMostDims] = {};  // where the indices and weights of a dimension begin
  int32_t widths[kMostDims] = {};  // taps of an output
  int32_t outside = 0;             // an index below 0 makes the element `fill`
  float fill = 0;
};

}  // namespace tenon::cuda
