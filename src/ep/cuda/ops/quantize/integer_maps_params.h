// The parameters of integer_maps.cuh and dynamic_quantize.cuh, as host and device read them.
#pragma once

#include "ep/cuda/ops/conv/plain_conv_params.h"
#include "ep/cuda/templates/window_params.h"

namespace tenon::cuda {

// y[b][m][n] = the sum over k of (a[b][m][k] - zero of a) * (b[b][k][n] - zero of b), for few products.
struct SmallProductParams {
  MapParams map;  // batch, row, column
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t b_matrix = 0;                      // elements from one matrix of b to the next; 0: all read the same
  int32_t a_zero_step = 0, b_zero_step = 0;  // 1: a zero point a row of a, a column of b
};

// Dense lines of bytes: element [matrix][line][k] is x[matrix * strides[0] + line * strides[1] + k / inner * strides[2]
// + k % inner * strides[3]] for k < depth, and 0 behind it.
struct PackLinesParams {
  MapParams map;
  int64_t depth = 0;
  Divisor inner;
  int64_t strides[4] = {};
};

// Of sums that become quantised numbers. By-output parameters have a step of 1.
struct SumParams {
  int32_t scale_step = 0;
};

struct IntegerConvParams {
  MapParams map;  // of y: image, output channel (or groups of several), axes (the last in several pixels)
  WindowParams window;
  Divisor group_outputs;
  int64_t channels = 0, group_channels = 0;  // of x; of the weights
  int64_t outputs = 0, plane = 1;            // plane: elements of a channel of x
  int64_t out[kMostAxes] = {};               // sizes of y's axes
  int64_t line = 0, taps = 1;                // bytes of an output's packed weights; taps of the window
  int32_t depth = 0;                         // products of an output
  int32_t b_zero_step = 0;
  SumParams sum;
};

struct IntegerDepthwiseParams {
  DepthwiseParams conv;
  int32_t b_zero_step = 0;
  SumParams sum;
};

// Windows of bytes as rows [tap][channel], 16 bytes a thread.
struct ByteWindowsParams {
  MapParams map;  // image, axes of y, vector of the row
  WindowParams window;
  Divisor taps[kMostAxes];
  Divisor channels;  // of x, in vectors where a thread copies one
  int64_t depth = 0;
  int64_t image_stride = 0, channel_stride = 0, strides[kMostAxes] = {};
};

// The smallest and the largest element, of parts and then of all.
struct LimitsParams {
  int64_t count = 0, parts = 1;
};

}  // namespace tenon::cuda
