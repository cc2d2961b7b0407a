// The parameters of depthwise_tiles.cuh, as host and device read them.
#pragma once

#include <cstdint>

#include "ep/cuda/templates/window_params.h"

namespace tenon::cuda {

// Each position of a block's tile has this many lanes, with two channels each.
inline constexpr int kTileLanes = 16, kTileChannels = 2 * kTileLanes;

// A depthwise convolution with channels last. Distances are counted in elements; rows may be the image's columns, where
// the window has one column alone.
struct DepthwiseTilesParams {
  MapParams map;  // blocks: images, tiles down and across, slices of channels
  int32_t channels = 0, in_h = 1, in_w = 1, out_h = 1, out_w = 1, pad_h = 0, pad_w = 0;
  int32_t x_image = 0, x_row = 0, x_column = 0, y_image = 0, y_row = 0, y_column = 0;
  int32_t constant = 1;  // weights and bias may be read before the kernel ahead has ended
  EpilogueParams epilogue;
};

}  // namespace tenon::cuda
