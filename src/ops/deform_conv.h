// DeformConv 19: a convolution whose taps are moved by offsets, and weighed by a mask.
#pragma once

#include <cstdint>
#include <span>

#include "graph/graph.h"
#include "ops/window.h"

namespace tenon {

// X [batch, channels, in...], weights [outputs, channels / group, kernel...], offsets [batch, offset_group * taps *
// spatial, out...], mask [batch, offset_group * taps, out...]; taps is the number of elements of the kernel.
struct DeformConvDesc {
  int64_t batch = 1, channels = 0, outputs = 0, group = 1, offset_group = 1;
  Window window;

  int spatial() const { return window.rank(); }
  int64_t group_channels() const { return channels / group; }
  int64_t group_outputs() const { return outputs / group; }
  Shape output() const;
};

// Errors: ranks that differ or are below 3, channels that do not divide into groups, shapes that do not fit each other.
Result<DeformConvDesc> read_deform_conv(const Node& node, const Shape& x, const Shape& weights, const Shape& offset,
                                        const Shape* bias, const Shape* mask);

}  // namespace tenon
