// GridSample (16) and RoiAlign (10): elements at computed positions.
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

}  // namespace tenon
