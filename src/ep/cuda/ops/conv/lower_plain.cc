// Convolutions of other than one or two spatial dimensions. Those of three are convolutions of two: what the window
// sees along the depth becomes further channels. For the others an output element has a thread.
#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/conv/lower.h"
#include "ep/cuda/ops/conv/plain_conv_params.h"
#include "ep/cuda/ops/narrow_sizes.h"

namespace tenon::cuda {

namespace {

// [O,I,D,H,W] as [O][H][W][D][I], the last two padded with zeros to `padded` in all.
void pack_volume(const Constant& from, int64_t padded, DataType type, bool tf32, std::byte* out) {
  const std::vector<float> w = floats_of(from);
  const int64_t outputs = from.shape[0], channels = from.shape[1], depth = from.shape[2];
  const int64_t area = from.shape[3] * from.shape[4];
  std::vector<float> packed(outputs * area * padded);
  size_t next = 0;
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t d = 0; d < depth; ++d)
        for (int64_t k = 0; k < area; ++k) packed[(o * area + k) * padded + d * channels + c] = w[next++];
  round_weights(packed, type, tf32);
  store_floats(packed, type, out);
}

// [N, output depth, H, W, padded]: of each pixel what the window sees of it along the depth, by tap and channel.
Result<TensorId> unfold_depth(Lowering& to, const Node& node, const Shape& x, const WindowAxis& depth, int64_t padded) {
  const DataType type = to.type_of(node.inputs[0]);
  const auto vector = static_cast<int64_t>(16 / data_type_size(type));
  // Whole vectors where they are one tap's; otherwise elements, wherever they lie.
  const bool packs = x[1] % vector == 0;
  TENON_TRY_ASSIGN(const TensorId from, packs ? to.channels_last(node.inputs[0]) : to.any(node.inputs[0]));
  const std::vector<int64_t> strides = to.program().tensor(from).strides();
  TENON_TRY_ASSIGN(const TensorId unfolded, to.program().add_tensor(type, Shape{x[0] * depth.out, padded, x[3], x[4]},
                                                                    DeviceLayout::kChannelsLast));
  // A thread writes a whole vector.
  const std::vector<int64_t> dims = {x[0], depth.out, x[3], x[4], padded / vector};
  UnfoldDepthParams params{.map = map_params(dims),
                           .channels = make_divisor(packs ? x[1] / vector : x[1]),
                           .depth = window_params({.axes = {depth}}).axes[0],
                           .strides = {}};
  std::copy(strides.begin(), strides.end(), params.strides);
  TENON_TRY(add_map(
      to, node, "unfold_depth", "ep/cuda/ops/conv/plain_conv.cuh",
      template_instance("unfold_depth", type, static_cast<int>(vector), packs, is_wide(to, dims, {from, unfolded})),
      params, params.map.count, {from}, {unfolded}));
  return unfolded;
}

// Nothing where the numbers are too many for the kernels of two dimensions.
Result<bool> lower_volume(Lowering& to, const Node& node, const Epilogue& epilogue, const ConvDesc& conv) {
  const Shape x = to.value(node.inputs[0]).shape(), w = to.value(node.inputs[1]).shape();
  const Shape y = to.value(node.outputs[0]).shape();
  const std::vector<WindowAxis>& axes = conv.window.axes;
  const DataType type = to.type_of(node.inputs[0]);
  const auto vector = static_cast<int64_t>(16 / data_type_size(type));
  const WindowAxis& depth = axes[0];
  const int64_t padded = (depth.kernel * x[1] + vector - 1) / vector * vector;
  const int64_t images = x[0] * depth.out, pixels = images * y[3] * y[4];
  if (images * x[3] * x[4] * padded > INT32_MAX || pixels > INT32_MAX || w[0] * w[3] * w[4] * padded > INT32_MAX)
    return false;
  ConvParams params;
  params.pixels = narrow(pixels), params.channels = narrow(w[0]), params.depth = narrow(w[3] * w[4] * padded);
  params.in_h = narrow(x[3]), params.in_w = narrow(x[4]), params.in_c = narrow(padded);
  params.out_h = narrow(y[3]), params.out_w = narrow(y[4]);
  params.kernel_h = narrow(w[3]), params.kernel_w = narrow(w[4]);
  params.stride_h = narrow(axes[1].stride), params.stride_w = narrow(axes[2].stride);
  params.pad_h = narrow(axes[1].pad_begin), params.pad_w = narrow(axes[2].pad_begin);
  params.dilation_h = narrow(axes[1].dilation), params.dilation_w = narrow(axes[2].dilation);
  ConvTensors tensors;
  const bool flat =
      depth.kernel == 1 && depth.stride == 1 && depth.pad_begin == 0 && depth.out == depth.in && padded == x[1];
  TENON_TRY_ASSIGN(tensors.x, flat ? to.channels_last(node.inputs[0]) : unfold_depth(to, node, x, depth, padded));
  const bool tf32 = rounds_to_tf32(type, to.options().tf32, pixels);
  TENON_TRY_ASSIGN(tensors.w, to.packed_constant(node.inputs[1], format("volume {}{}", padded, tf32 ? " tf32" : ""),
                                                 type, Shape{w[0], w[3] * w[4], padded},
                                                 [padded, type, tf32](const Constant& from, std::byte* out) {
                                                   pack_volume(from, padded, type, tf32, out);
                                                 }));
  TENON_TRY(finish_conv(to, node, params, epilogue, tensors, [padded](const Constant& from, std::byte* out) {
    pack_volume(from, padded, DataType::kFloat, false, out);
  }));
  return true;
}

}  // namespace

Status lower_plain_conv(Lowering& to, const Node& node, const ConvDesc& conv) {
  TENON_TRY_ASSIGN(const Epilogue epilogue, read_epilogue(node));
  const DataType type = to.type_of(node.inputs[0]);
  const Shape x = to.value(node.inputs[0]).shape(), w = to.value(node.inputs[1]).shape();
  const Shape y = to.value(node.outputs[0]).shape();
  TENON_UNSUPPORTED_IF(compute_type(type) != "float", "{} is computed in {}.", to.label(node), data_type_name(type));
  if (x.rank() == 5 && conv.group == 1 && to.constant(node.inputs[1]) != nullptr && x.element_count() != 0 &&
      w.element_count() != 0) {
    TENON_TRY_ASSIGN(const bool done, lower_volume(to, node, epilogue, conv));
    if (done) return Status();
  }
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId weights, to.plain(node.inputs[1]));
  TENON_TRY_ASSIGN(const TensorId bias, plain_or_none(to, node, 2));
  TENON_TRY_ASSIGN(const TensorId residual, plain_or_none(to, node, 3));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const std::vector<int64_t> dims = dims_of(y);
  const PlainConvParams params{.map = map_params(dims),
                               .window = window_params(conv.window),
                               .group_outputs = make_divisor(std::max<int64_t>(conv.group_outputs(), 1)),
                               .channels = x[1],
                               .group_channels = w[1],
                               .epilogue = epilogue_params(epilogue)};
  const DataType bias_type = bias != kNoTensor ? to.program().tensor(bias).type : type;
  return add_map(to, node, "plain_conv", "ep/cuda/ops/conv/plain_conv.cuh",
                 template_instance("plain_conv", type, bias_type, template_enum(epilogue.activation),
                                   is_wide(to, dims, {from, weights, out}), kernel_arguments(conv.window)),
                 params, params.map.count, {from, weights, bias, residual}, {out});
}

}  // namespace tenon::cuda
