// The parameters of plain_conv.cuh and depthwise_strips.cuh, as host and device read them.
#pragma once

#include "ep/cuda/templates/window_params.h"

namespace tenon::cuda {

struct PlainConvParams {
  MapParams map;  // of y: image, output channel, axes
  WindowParams window;
  Divisor group_outputs;
  int64_t channels = 0, group_channels = 0;  // of x; of the weights
  EpilogueParams epilogue;
};

// Of each pixel of a volume [image, channel, depth, row, column], the elements that the window reads along the depth,
// by tap and channel, as channels of an image; in vectors.
struct UnfoldDepthParams {
  MapParams map;     // image, output depth, row, column, vector
  Divisor channels;  // of x; in vectors where a vector is one tap's
  WindowParams::Axis depth;
  int64_t strides[5] = {};  // of x
};

// A depthwise convolution of one or two spatial axes, with channels first: image, output channel, strip of rows,
// column.
struct DepthwiseParams {
  MapParams map;
  Divisor multiplier;  // outputs of a channel
  int64_t channels = 0, outputs = 0, in_h = 1, in_w = 1, out_h = 1, out_w = 1;
  int32_t stride_w = 1, dilation_w = 1, pad_h = 0, pad_w = 0;
  EpilogueParams epilogue;
};

}  // namespace tenon::cuda
