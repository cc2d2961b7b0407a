// The parameters of grid_sample.cuh, as host and device read them.
#pragma once

#include "ep/cuda/templates/window_params.h"

namespace tenon::cuda {

// In the order of GridSampleDesc (ops/sample.h).
enum class SampleMode : int32_t { kNearest, kLinear, kCubic };
enum class SamplePadding : int32_t { kZeros, kBorder, kReflection };

struct GridSampleParams {
  struct Axis {
    int64_t size = 1;
    float whole = 1, last = 0;  // size and size - 1
    float low = 0, high = 0;    // the edges of x, between which coordinates are reflected
  };
  MapParams map;  // of y: image, channel, axes
  Axis axes[kMostAxes];
  int64_t out[kMostAxes] = {};  // of y
  int64_t channels = 0;
  int32_t align_corners = 0;
};

}  // namespace tenon::cuda
