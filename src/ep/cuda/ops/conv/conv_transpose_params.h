// The parameters of conv_transpose.cuh, as host and device read them.
#pragma once

#include "ep/cuda/templates/window_params.h"

namespace tenon::cuda {

// Side of the squares of output columns and channels that a block turns in shared memory.
inline constexpr unsigned kPhaseSquare = 32;

// The phases of all cells, [image][cell row][cell column][phase][output], to the pixels of the output. A cell is a
// stride of output pixels in each dimension: row r and column c lie in cell ((r + pad_h) / stride_h - pad_h / stride_h,
// ...).
struct PhaseParams {
  MapParams map;  // of y in the order of memory; of squares: image, square of channels, row, square of columns
  Divisor stride_h, stride_w;
  int64_t cells_h = 1, cells_w = 1, out_h = 1, out_w = 1, outputs = 0;
  int32_t pad_h = 0, pad_w = 0, first_h = 0, first_w = 0;  // first: pad / stride
  EpilogueParams epilogue;
};

// Each output pixel adds the products that meet there. Input i of an axis adds its product with tap k to the output
// i * stride - pad + k * dilation.
struct WindowSumParams {
  struct Axis {
    int64_t in = 1, in_stride = 0, tap_stride = 0, out_stride = 0, residual_stride = 0;
    Divisor stride;
    int32_t kernel = 1, dilation = 1, pad = 0;
  };
  MapParams map;  // image, axes of y, group, channel of the group
  Axis axes[kMostAxes];
  int64_t group_channels = 1;
  int64_t image_stride = 0, group_stride = 0, channel_stride = 0;  // of the products
  int64_t out_image_stride = 0, out_channel_stride = 0;            // channels of groups lie together
  int64_t residual_image_stride = 0, residual_channel_stride = 0;
  EpilogueParams epilogue;
};

}  // namespace tenon::cuda
