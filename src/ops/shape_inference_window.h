// Windows that slide over spatial dimensions: what convolutions and pools share.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/shape_inference_context.h"

namespace tenon::infer {

struct Window {
  Dims kernel;
  std::vector<int64_t> strides, dilations;
  std::vector<int64_t> pads;  // begins, then ends
  bool same = false;          // auto_pad SAME_*: pads follow from the input
};

// Reads and checks kernel_shape, strides, dilations, pads and auto_pad. `kernel` is what the weights (or the attribute)
// say. Errors: counts that do not fit the rank, values that are not positive.
Result<Window> read_window(const Node& node, const Dims& kernel);
// Positions of the window along one spatial dimension. Errors: the kernel is larger than the padded input.
Result<Dim> window_output(const Window& window, size_t axis, const Dim& input, bool ceil_mode);

Status infer_conv(Context& context);
Status infer_conv_transpose(Context& context);

}  // namespace tenon::infer
