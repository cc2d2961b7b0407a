#include "ops/deform_conv.h"

#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

// The windows over `in` with a kernel of `kernel`; both may hold kUnknownSize.
Result<Window> read_taps(const Node& node, std::span<const int64_t> in, std::span<const int64_t> kernel) {
  const size_t rank = in.size();
  TENON_TRY_ASSIGN(const AxisValues stated, read_axis_values(node, "kernel_shape", rank, kUnknownSize, 1));
  TENON_TRY_ASSIGN(const AxisValues strides, read_axis_values(node, "strides", rank, 1, 1));
  TENON_TRY_ASSIGN(const AxisValues dilations, read_axis_values(node, "dilations", rank, 1, 1));
  TENON_TRY_ASSIGN(const AxisValues pads, read_axis_values(node, "pads", 2 * rank, 0, 0));
  Window window;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = kernel[i] != kUnknownSize ? kernel[i] : stated[i];
    TENON_INVALID_IF(stated[i] != kUnknownSize && stated[i] != size,
                     "Attribute \"kernel_shape\" has {} where the weights have {}.", stated[i], size);
    TENON_INVALID_IF(size == 0, "DeformConv has a kernel without elements along axis {}.", i);
    window.axes.push_back({.in = in[i],
                           .out = kUnknownSize,
                           .kernel = size,
                           .stride = strides[i],
                           .dilation = dilations[i],
                           .pad_begin = pads[i],
                           .pad_end = pads[i + rank]});
  }
  TENON_TRY(slide(window));
  return window;
}

}  // namespace

Shape DeformConvDesc::output() const {
  Shape shape{batch, outputs};
  for (const WindowAxis& axis : window.axes) shape.push_back(axis.out);
  return shape;
}

Result<DeformConvDesc> read_deform_conv(const Node& node, const Shape& x, const Shape& weights, const Shape& offset,
                                        const Shape* bias, const Shape* mask) {
  TENON_INVALID_IF(x.rank() < 3 || weights.rank() != x.rank() || offset.rank() != x.rank(),
                   "DeformConv has an X of shape {}, weights of {} and offsets of {}; their ranks have to be the same, "
                   "3 or more.",
                   x.to_string(), weights.to_string(), offset.to_string());
  const Attributes attributes(node);
  DeformConvDesc desc{.batch = x[0],
                      .channels = x[1],
                      .outputs = weights[0],
                      .group = attributes.integer("group"),
                      .offset_group = attributes.integer("offset_group")};
  const auto divides = [](int64_t groups, int64_t count) { return groups >= 1 && count % groups == 0; };
  TENON_INVALID_IF(!divides(desc.group, desc.channels) || !divides(desc.group, desc.outputs),
                   "DeformConv has {} groups for {} channels and {} outputs.", desc.group, desc.channels, desc.outputs);
  TENON_INVALID_IF(!divides(desc.offset_group, desc.channels), "DeformConv has {} offset groups for {} channels.",
                   desc.offset_group, desc.channels);
  TENON_INVALID_IF(weights[1] != desc.group_channels(), "DeformConv has weights of shape {} for {} channels a group.",
                   weights.to_string(), desc.group_channels());
  TENON_TRY_ASSIGN(desc.window, read_taps(node, x.dims().subspan(2), weights.dims().subspan(2)));
  const std::optional<int64_t> taps = checked_product(weights.dims().subspan(2));
  const std::optional<int64_t> masks = taps ? checked_mul(*taps, desc.offset_group) : std::nullopt;
  const std::optional<int64_t> offsets = masks ? checked_mul<int64_t>(*masks, desc.spatial()) : std::nullopt;
  TENON_INVALID_IF(!offsets, "DeformConv has a kernel of {} whose elements overflow.", weights.to_string());
  Shape wanted = desc.output();
  wanted[1] = *offsets;
  TENON_INVALID_IF(offset != wanted, "DeformConv has offsets of shape {}; it needs {}.", offset.to_string(),
                   wanted.to_string());
  wanted[1] = *masks;
  TENON_INVALID_IF(mask != nullptr && *mask != wanted, "DeformConv has a mask of shape {}; it needs {}.",
                   mask->to_string(), wanted.to_string());
  TENON_INVALID_IF(bias != nullptr && !(*bias == Shape{desc.outputs}),
                   "DeformConv has a bias of shape {}; it needs "
                   "[{}].",
                   bias->to_string(), desc.outputs);
  return desc;
}

namespace infer {
namespace {

Status infer_deform_conv(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || !c.ranked(1)) return {};
  const Dims &x = c.dims(0), &weights = c.dims(1);
  TENON_INVALID_IF(x.size() < 3 || x.size() != weights.size(), "DeformConv has an X of shape {} and weights of {}.",
                   text(x), text(weights));
  std::vector<int64_t> in, kernel;
  for (size_t d = 2; d < x.size(); ++d) {
    in.push_back(x[d].value);
    kernel.push_back(weights[d].value);
  }
  TENON_TRY_ASSIGN(const Window window, read_taps(c.node(), in, kernel));
  Dims out = {x[0], weights[0]};
  // The offsets have the output's size, whose symbols it keeps.
  const bool offset = c.ranked(2) && c.rank(2) == c.rank(0);
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t size = window.axes[i].out;
    out.push_back(size != kUnknownSize ? number(size) : offset ? c.dims(2)[i + 2] : Dim{});
  }
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {{"DeformConv", &infer_deform_conv}};

}  // namespace

std::span<const Row> deform_conv_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
