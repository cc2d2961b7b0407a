// Elements at computed positions: GridSample (16), AffineGrid (20), RoiAlign (10) and MaxRoiPool (1).
#pragma once

#include <cstdint>
#include <span>

#include "graph/graph.h"

namespace tenon {

// Samples X [batch, channels, in...] at the positions of a grid [batch, out..., spatial].
struct GridSampleDesc {
  enum class Mode : uint8_t { kNearest, kLinear, kCubic };
  enum class Padding : uint8_t { kZeros, kBorder, kReflection };
  Mode mode = Mode::kLinear;
  Padding padding = Padding::kZeros;
  bool align_corners = false;  // -1 and 1 are the centres of the outermost elements, not their outer edges
};

// The shapes may hold kUnknownSize (ops/window.h).
// Errors: ranks that differ or are below 3, batches that differ, a grid of other than one coordinate an axis, an
// unknown mode or padding_mode.
Result<GridSampleDesc> read_grid_sample(const Node& node, std::span<const int64_t> x, std::span<const int64_t> grid);

// The grid [batch, out..., spatial] that `theta` [batch, spatial, spatial + 1] makes of the positions of an image.
struct AffineGridDesc {
  int64_t batch = 0;
  int spatial = 2;  // 2 or 3
  bool align_corners = false;
};
// Errors: a theta of another shape.
Result<AffineGridDesc> read_affine_grid(const Node& node, const Shape& theta);

// Regions of X [batch, channels, height, width], each made `out_height` x `out_width`.
struct RoiDesc {
  int64_t batch = 0, channels = 0, height = 0, width = 0;
  int64_t regions = 0, out_height = 1, out_width = 1;
  float scale = 1;  // from the regions' coordinates to elements of X
  bool max = false;
  // RoiAlign alone.
  bool half_pixel = false;
  int64_t sampling_ratio = 0;  // samples of a bin along each axis; 0: as many as the bin is long, rounded up

  Shape output() const { return {regions, channels, out_height, out_width}; }
};
// Errors: ranks, shapes or attributes that do not fit; the message has the wrong value.
Result<RoiDesc> read_roi_align(const Node& node, const Shape& x, const Shape& rois, const Shape& batch_indices);
Result<RoiDesc> read_max_roi_pool(const Node& node, const Shape& x, const Shape& rois);

}  // namespace tenon
