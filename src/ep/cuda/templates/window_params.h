// The elements of a map, and the windows that slide over the spatial axes, as parameters of kernel templates.
#pragma once

#include <cstdint>

#include "ep/cuda/templates/index_params.h"
#include "ops/activation.h"

namespace tenon::cuda {

// As many as a shape has.
inline constexpr int kMostDims = 12, kMostAxes = kMostDims - 2;

// The sizes of a map: each of its elements has a thread, or a block. Outermost first.
struct MapParams {
  int64_t count = 0;
  Divisor dims[kMostDims];
};

// ops/window.h. Position o of the output reads the elements o * stride - pad_begin + k * dilation of x, k < kernel.
struct WindowParams {
  struct Axis {
    int64_t in = 1;
    int32_t kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
  };
  Axis axes[kMostAxes];
};

// tenon::Epilogue without its activation, which is a template argument.
struct EpilogueParams {
  float alpha = 0, beta = 0;
  int32_t residual_after = 0;
};

}  // namespace tenon::cuda
