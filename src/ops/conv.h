// Conv (1), ConvInteger (10), QLinearConv (10), ConvTranspose (1), and the Conv and ConvTranspose of domain tenon.
#pragma once

#include <cstdint>
#include <span>

#include "graph/graph.h"
#include "ops/window.h"

namespace tenon {

// A convolution of X [batch, channels, in...]. Its weights are [outputs, channels / group, kernel...], or [channels,
// outputs / group, kernel...] where it is transposed; Y is [batch, outputs, out...].
struct ConvDesc {
  bool transposed = false;
  int64_t batch = 1, channels = 0, outputs = 0, group = 1;
  Window window;

  int spatial() const { return window.rank(); }
  const WindowAxis& axis(int i) const { return window.axes[i]; }
  int64_t group_channels() const { return channels / group; }
  int64_t group_outputs() const { return outputs / group; }
  bool depthwise() const { return group == channels && outputs == channels; }
  Shape output() const;
};

// Reads a convolution from its node and the shapes of X and of the weights, which may hold kUnknownSize: then so does
// the description.
// Errors: a rank below 3, ranks that differ, channels that do not divide into groups or do not fit the weights, those
// of read_window and slide, an output without elements or beyond int64.
Result<ConvDesc> read_conv(const Node& node, std::span<const int64_t> x, std::span<const int64_t> weights);
inline Result<ConvDesc> read_conv(const Node& node, const Shape& x, const Shape& weights) {
  return read_conv(node, x.dims(), weights.dims());
}

// Groups alone, for passes that see the weights but not X. Errors: a group below 1.
Result<int64_t> read_conv_group(const Node& node);

namespace infer {
class Context;
// Of Conv and ConvTranspose in both domains, and of tenon.QuantizedConv.
Status infer_conv(Context& context);
}  // namespace infer

}  // namespace tenon
