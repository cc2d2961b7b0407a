// Convolutions, channels last.
#include <algorithm>
#include <optional>

#include "base/format.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/conv/depthwise_tiles.h"
#include "ep/cuda/ops/conv/lower.h"
#include "ep/cuda/ops/conv/op.h"
#include "ep/cuda/ops/conv/pack_params.h"
#include "ep/cuda/ops/conv/pad_image_op.h"
#include "ep/cuda/ops/narrow_sizes.h"

namespace tenon::cuda {

ConvWindow conv_window(const ConvDesc& conv) {
  ConvWindow window;
  for (int i = 0; i < conv.spatial(); ++i) {
    const int at = i + 2 - conv.spatial();
    const WindowAxis& axis = conv.axis(i);
    window.kernel[at] = axis.kernel;
    window.stride[at] = axis.stride;
    window.dilation[at] = axis.dilation;
    window.pad[at] = axis.pad_begin;
  }
  return window;
}

namespace {

// [O,I,...] as [O][...][I], the channels padded with zeros.
void pack_weights(const Constant& from, int64_t padded_channels, DataType type, bool tf32, std::byte* out) {
  std::vector<float> converted;
  if (from.type != DataType::kFloat) converted = floats_of(from);
  const std::span<const float> w = from.type == DataType::kFloat ? from.as<float>() : converted;
  const int64_t outputs = from.shape[0], channels = from.shape[1];
  const int64_t area = outputs * channels == 0 ? 0 : std::ssize(w) / (outputs * channels);
  // An output at a time stays in the nearest cache.
  std::vector<float> packed(area * padded_channels);
  for (int64_t o = 0; o < outputs; ++o) {
    const float* const taps = w.data() + o * channels * area;
    for (int64_t k = 0; k < area; ++k)
      for (int64_t c = 0; c < channels; ++c) packed[k * padded_channels + c] = taps[c * area + k];
    round_weights(packed, type, tf32);
    store_floats(packed, type, out + o * packed.size() * data_type_size(type));
  }
}

// [C,1,...] as [...][C].
void pack_depthwise(const Constant& from, DataType type, std::byte* out) {
  const std::vector<float> w = floats_of(from);
  const size_t channels = from.shape[0], area = w.size() / std::max<size_t>(channels, 1);
  std::vector<float> packed(w.size());
  for (size_t c = 0; c < channels; ++c)
    for (size_t k = 0; k < area; ++k) packed[k * channels + c] = w[c * area + k];
  store_floats(packed, type, out);
}

// [O,I,R,S] for pixels in pairs: [O][R][pair of columns][2][channels], `front` zero columns first.
void pack_pairs(const Constant& from, int64_t channels, int64_t front, DataType type, std::byte* out) {
  const std::vector<float> w = floats_of(from);
  const int64_t outputs = from.shape[0], inputs = from.shape[1], rows = from.shape[2], columns = from.shape[3];
  const int64_t pairs = (columns + front + 1) / 2;
  std::vector<float> packed(outputs * rows * pairs * 2 * channels);
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t c = 0; c < inputs; ++c)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t s = 0; s < columns; ++s)
          packed[((o * rows + r) * pairs * 2 + s + front) * channels + c] =
              w[((o * inputs + c) * rows + r) * columns + s];
  store_floats(packed, type, out);
}

}  // namespace

Status check_conv_sizes(const Lowering& to, const Node& node, std::initializer_list<int64_t> sizes) {
  for (int64_t size : sizes)
    TENON_UNSUPPORTED_IF(size > INT32_MAX, "{} has {} elements, pixels or channels; its kernels count {}.",
                         to.label(node), size, INT32_MAX);
  return Status();
}

Result<TensorId> packed_weights(Lowering& to, const Node& node, ValueId id, DataType type, WeightPacking packing) {
  if (to.constant(id) != nullptr)
    return to.packed_constant(id, std::move(packing.format), type, packing.shape, std::move(packing.pack));
  TENON_TRY_ASSIGN(const TensorId from, to.plain(id));
  TENON_TRY_ASSIGN(const TensorId packed, to.program().add_tensor(type, packing.shape));
  PackParams params{.count = packing.shape.element_count()};
  for (size_t d = 0; d < packing.strides.size(); ++d) {
    params.dims[d] = make_divisor(std::max<int64_t>(packing.shape[static_cast<int>(d)], 1));
    params.strides[d] = packing.strides[d];
    params.limits[d] = packing.limits[d];
  }
  const std::string instance = template_instance("pack_weights", to.program().tensor(from).type, type,
                                                 packing.strides.size(), packing.tf32 && type == DataType::kFloat);
  TENON_TRY(
      add_map(to, node, "pack_weights", "ep/cuda/ops/conv/pack.cuh", instance, params, params.count, {from}, {packed}));
  return packed;
}

Result<TensorId> pad_channels(Lowering& to, const Node& node, ValueId id, int64_t channels) {
  TENON_TRY_ASSIGN(const TensorId from, to.any(id));
  const DeviceTensor tensor = to.program().tensor(from);
  Shape shape = tensor.shape;
  shape[1] = channels;
  TENON_TRY_ASSIGN(const TensorId padded, to.program().add_tensor(tensor.type, shape, DeviceLayout::kChannelsLast));
  if (tensor.shape.element_count() == 0) return padded;
  if (tensor.layout == DeviceLayout::kPlain &&
      (channels == 4 || channels * static_cast<int64_t>(data_type_size(tensor.type)) == 16)) {
    to.program().add_op(
        std::make_unique<PadImageOp>(node.name, tensor.type, tensor.shape, narrow(channels), from, padded));
    return padded;
  }
  const auto dims = tensor.shape.dims();
  // In the order of memory: channels last.
  std::vector<int64_t> order = {0};
  for (int64_t i = 2; i < shape.rank(); ++i) order.push_back(i);
  order.push_back(1);
  GeneratedLeaf leaf{.type = tensor.type};
  GeneratedElementwise kernel{.type = tensor.type};
  const std::vector<int64_t> strides = tensor.strides(), out = to.program().tensor(padded).strides();
  for (int64_t axis : order) {
    kernel.dims.push_back(shape[narrow(axis)]);
    kernel.strides.push_back(out[axis]);
    leaf.strides.push_back(strides[axis]);
    leaf.begin.push_back(0);
    leaf.end.push_back(dims[axis]);
  }
  kernel.leaves = {leaf};
  TENON_TRY(to.add_generated(node, "pad channels", kernel, {from}, {}, padded));
  return padded;
}

Result<TensorId> no_bias(Lowering& to, int64_t channels, DataType type) {
  return to.program().add_constant(type, Shape{channels}, format("zeros {} {}", channels, data_type_name(type)),
                                   [](std::byte*) {});
}

// A bias in float32 or in the type of the product, `repeat` times.
Result<TensorId> bias_as(Lowering& to, const Node& node, ValueId id, DataType type, int64_t repeat) {
  const int64_t count = to.value(id).shape().element_count();
  if (to.constant(id) != nullptr)
    return to.packed_constant(id, format("repeat {}", repeat), type, Shape{repeat * count},
                              [repeat, type](const Constant& from, std::byte* out) {
                                const std::vector<float> once = floats_of(from);
                                std::vector<float> repeated;
                                for (int64_t i = 0; i < repeat; ++i)
                                  repeated.insert(repeated.end(), once.begin(), once.end());
                                store_floats(repeated, type, out);
                              });
  TENON_TRY_ASSIGN(const TensorId from, to.plain(id));
  if (to.program().tensor(from).type == type && repeat == 1) return from;
  TENON_TRY_ASSIGN(const TensorId made, to.program().add_tensor(type, Shape{repeat * count}));
  TENON_TRY(to.add_generated(node, "bias",
                             {.dims = {repeat, count},
                              .type = type,
                              .strides = {count, 1},
                              .leaves = {{.type = to.program().tensor(from).type, .strides = {0, 1}}}},
                             {from}, {}, made));
  return made;
}

Status finish_conv(Lowering& to, const Node& node, const ConvParams& params, const Epilogue& epilogue,
                   ConvTensors tensors, const std::function<void(const Constant&, std::byte*)>& pack_floats) {
  const DataType type = to.type_of(node.inputs[0]);
  if (to.constant(node.inputs[1]) != nullptr) {
    const SplitProblem split = choose_split(type, to.options().tf32, to.options().workspace_bytes, params);
    if (split.terms != 0) {
      tensors.terms = split.terms;
      TENON_TRY_ASSIGN(
          tensors.parts,
          to.packed_constant(node.inputs[1], format("conv {} {} terms", params.in_c, split.terms), DataType::kFloat16,
                             Shape{int64_t{params.channels}, int64_t{split.depth} * split.terms + 2},
                             [split, pack_floats](const Constant& from, std::byte* out) {
                               std::vector<float> w(int64_t{split.columns} * split.depth);
                               pack_floats(from, reinterpret_cast<std::byte*>(w.data()));
                               split_weights(w, split, out);
                             }));
    }
  }
  if (node.input(2) != kNoValue) {
    TENON_TRY_ASSIGN(tensors.bias, bias_as(to, node, node.inputs[2], DataType::kFloat));
    TENON_TRY_ASSIGN(tensors.bias_typed, bias_as(to, node, node.inputs[2], type));
  } else if (params.kernel_h > 1 || params.kernel_w > 1 || params.stride_h > 1 || params.stride_w > 1) {
    TENON_TRY_ASSIGN(tensors.bias_typed, no_bias(to, params.channels, type));
  }
  if (node.input(3) != kNoValue) {
    TENON_TRY_ASSIGN(tensors.residual, to.channels_last(node.inputs[3]));
  }
  TENON_TRY_ASSIGN(tensors.y, to.make(node.outputs[0], DeviceLayout::kChannelsLast));
  if (params.pixels != 0 && params.channels != 0)
    to.program().add_op(std::make_unique<ConvOp>(node.name, type, params, epilogue, tensors));
  return Status();
}

Status lower_conv(Lowering& to, const Node& node) {
  TENON_UNSUPPORTED_IF(node.op_type != "Conv", "The CUDA EP has no {}.", node.op_type);
  const Value &x = to.value(node.inputs[0]), &w = to.value(node.inputs[1]);
  TENON_TRY_ASSIGN(const ConvDesc conv, read_conv(node, x.shape(), w.shape()));
  TENON_TRY_ASSIGN(const bool lowered, lower_conv_channels_first(to, node, conv));
  if (lowered) return Status();
  if (conv.spatial() > 2) return lower_plain_conv(to, node, conv);
  const bool constant = w.constant != nullptr;
  const Shape x_shape = x.shape(), w_shape = w.shape(), y_shape = to.value(node.outputs[0]).shape();
  const ConvWindow window = conv_window(conv);
  TENON_TRY_ASSIGN(const Epilogue epilogue, read_epilogue(node));
  const DataType type = to.type_of(node.inputs[0]);
  const int spatial = conv.spatial();
  const int64_t group = conv.group, channels = conv.channels, outputs = conv.outputs;
  const auto vector = static_cast<int64_t>(16 / data_type_size(type));

  ConvParams params;
  params.in_h = narrow(spatial == 2 ? x_shape[2] : 1), params.in_w = narrow(x_shape[1 + spatial]);
  params.out_h = narrow(spatial == 2 ? y_shape[2] : 1), params.out_w = narrow(y_shape[1 + spatial]);
  params.pixels = narrow(y_shape[0] * params.out_h * params.out_w);
  params.channels = narrow(outputs);
  params.kernel_h = narrow(window.kernel[0]), params.kernel_w = narrow(window.kernel[1]);
  params.stride_h = narrow(window.stride[0]), params.stride_w = narrow(window.stride[1]);
  params.pad_h = narrow(window.pad[0]), params.pad_w = narrow(window.pad[1]);
  params.dilation_h = narrow(window.dilation[0]), params.dilation_w = narrow(window.dilation[1]);
  params.group = narrow(group);
  params.constant_weights = constant ? 1 : 0;
  TENON_TRY(check_conv_sizes(
      to, node,
      {x_shape.element_count(), y_shape.element_count() / std::max<int64_t>(outputs, 1), w_shape.element_count()}));

  ConvTensors tensors;
  std::optional<DepthwiseTiles> tiles;
  if (conv.depthwise() && group > 1) tiles = DepthwiseTiles::choose(type, params);
  const bool depthwise = conv.depthwise() && group > 1 && (tiles || channels % vector == 0);
  const bool tf32 = rounds_to_tf32(type, to.options().tf32, params.pixels);
  // Few channels and every other pixel (the first convolution of most networks): pairs of pixels are one pixel of twice
  // the channels, so that no vector is half empty.
  const bool pairs = constant && group == 1 && spatial == 2 && channels * 2 <= vector && vector == 8 && channels > 1 &&
                     window.stride[1] == 2 && window.dilation[1] == 1 && params.in_w % 2 == 0;
  if (pairs) {
    const int64_t half = vector / 2, front = window.pad[1] % 2;
    TENON_TRY_ASSIGN(tensors.x, pad_channels(to, node, node.inputs[0], half));
    params.in_w /= 2;
    params.in_c = narrow(vector);
    params.stride_w = 1;
    params.pad_w = narrow((window.pad[1] + front) / 2);
    params.kernel_w = narrow((window.kernel[1] + front + 1) / 2);
    params.depth = narrow(window.kernel[0] * params.kernel_w * vector);
    TENON_TRY_ASSIGN(tensors.w, to.packed_constant(node.inputs[1], format("pairs {} {}", half, front), type,
                                                   Shape{outputs, window.kernel[0] * params.kernel_w, vector},
                                                   [type, half, front](const Constant& from, std::byte* out) {
                                                     pack_pairs(from, half, front, type, out);
                                                   }));
  } else {
    const int64_t padded = group == 1 ? (channels + vector - 1) / vector * vector : channels;
    if (padded != channels) {
      TENON_TRY_ASSIGN(tensors.x, pad_channels(to, node, node.inputs[0], padded));
    } else {
      TENON_TRY_ASSIGN(tensors.x, to.channels_last(node.inputs[0]));
    }
    params.in_c = narrow(padded);
    const int64_t group_channels = group == 1 ? padded : channels / group;
    params.depth = narrow(window.kernel[0] * window.kernel[1] * group_channels);
    const int64_t area = window.kernel[0] * window.kernel[1], given = w_shape[1];
    WeightPacking packing{
        .format = depthwise ? "depthwise" : format("conv {}{}", group_channels, tf32 ? " tf32" : ""),
        .shape = depthwise ? Shape{area, channels} : Shape{outputs, area, group_channels},
        .pack =
            [type, group_channels, tf32, depthwise](const Constant& from, std::byte* out) {
              if (depthwise) {
                pack_depthwise(from, type, out);
              } else {
                pack_weights(from, group_channels, type, tf32, out);
              }
            },
        .strides = depthwise ? std::vector<int64_t>{1, area} : std::vector<int64_t>{given * area, 1, area},
        .limits = depthwise ? std::vector<int64_t>{area, channels} : std::vector<int64_t>{outputs, area, given},
        .tf32 = tf32 && !depthwise};
    TENON_TRY_ASSIGN(tensors.w, packed_weights(to, node, node.inputs[1], type, std::move(packing)));
  }
  if (!depthwise)
    return finish_conv(to, node, params, epilogue, tensors,
                       [channels = params.in_c](const Constant& from, std::byte* out) {
                         pack_weights(from, channels, DataType::kFloat, false, out);
                       });
  // The depthwise kernels load the bias along with the weights.
  if (node.input(2) != kNoValue && to.constant(node.inputs[2]) == nullptr) params.constant_weights = 0;
  if (node.input(2) != kNoValue) {
    TENON_TRY_ASSIGN(tensors.bias, bias_as(to, node, node.inputs[2], DataType::kFloat));
  }
  if (node.input(3) != kNoValue) {
    TENON_TRY_ASSIGN(tensors.residual, to.channels_last(node.inputs[3]));
  }
  TENON_TRY_ASSIGN(tensors.y, to.make(node.outputs[0], DeviceLayout::kChannelsLast));
  if (tiles) return add_depthwise_tiles(to, node, *tiles, params, epilogue, tensors);
  if (params.pixels != 0 && params.channels != 0)
    to.program().add_op(std::make_unique<DepthwiseConvOp>(node.name, type, params, epilogue, tensors));
  return Status();
}

}  // namespace tenon::cuda
