// Transposed convolutions.
#include <algorithm>
#include <array>
#include <optional>

#include "base/format.h"
#include "ep/cuda/compute/kernel_template.h"
#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/conv/conv_transpose_params.h"
#include "ep/cuda/ops/conv/lower.h"
#include "ep/cuda/ops/conv/op.h"
#include "ep/cuda/ops/narrow_sizes.h"

namespace tenon::cuda {

namespace {

// [C,O,...] as [group][tap][O][C of the group], a row for each output channel at each tap; the inputs
// padded with zeros.
void pack_taps(const Constant& from, int64_t groups, int64_t padded_channels, DataType type, bool tf32,
               std::byte* out) {
  const std::vector<float> w = floats_of(from);
  const int64_t channels = from.shape[0] / groups, outputs = from.shape[1];
  const int64_t taps = channels * outputs == 0 ? 0 : static_cast<int64_t>(w.size()) / (groups * channels * outputs);
  std::vector<float> packed(groups * taps * outputs * padded_channels);
  for (int64_t c = 0; c < groups * channels; ++c)
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t tap = 0; tap < taps; ++tap)
        packed[(((c / channels) * taps + tap) * outputs + o) * padded_channels + c % channels] =
            w[(c * outputs + o) * taps + tap];
  round_weights(packed, type, tf32);
  store_floats(packed, type, out);
}

// A transposed convolution: each input pixel makes a window of output pixels, which may overlap and leave gaps.
struct Spread {
  Shape x, w, y;
  int spatial = 0;
  int64_t groups = 1, taps = 1, outputs = 0;  // outputs of a group
  std::vector<WindowAxis> axes;
  bool blocks = true;  // windows neither overlap nor leave gaps
};

Result<Spread> read_spread(Lowering& to, const Node& node) {
  Spread spread{.x = to.value(node.inputs[0]).shape(), .w = to.value(node.inputs[1]).shape()};
  TENON_TRY_ASSIGN(const ConvDesc conv, read_conv(node, spread.x, spread.w));
  TENON_UNSUPPORTED_IF(conv.spatial() > 3, "{} has {} spatial dimensions.", to.label(node), conv.spatial());
  spread.y = conv.output();
  spread.spatial = conv.spatial();
  spread.groups = conv.group;
  spread.outputs = conv.group_outputs();
  spread.taps = conv.window.kernel_count();
  // Sums of windows add the bias themselves, the product before blocks does otherwise: without channels there is none.
  spread.blocks = conv.group == 1 && conv.spatial() <= 2 && spread.x[1] != 0;
  for (const WindowAxis& axis : conv.window.axes) {
    spread.blocks = spread.blocks && axis.stride == axis.kernel && axis.pad_begin == 0 &&
                    axis.out == axis.in * axis.kernel && (axis.kernel == 1 || axis.dilation == 1);
    spread.axes.push_back(axis);
  }
  return spread;
}

// The products of each input pixel with all taps of its window: [image][pixel][group][tap][output].
Result<TensorId> multiply_pixels(Lowering& to, const Node& node, const Spread& spread, DataType type, bool bias) {
  const int64_t channels = spread.x[1], vector = static_cast<int64_t>(16 / data_type_size(type));
  if (channels == 0) {
    Shape products = spread.x;
    products[1] = spread.groups * spread.taps * spread.outputs;
    TENON_TRY_ASSIGN(const TensorId zeros, to.program().add_tensor(type, products, DeviceLayout::kChannelsLast));
    TENON_TRY(to.add_zeros(node, zeros));
    return zeros;
  }
  const int64_t padded = spread.groups == 1 ? (channels + vector - 1) / vector * vector : channels;
  const int64_t depth = padded / spread.groups, rows = spread.groups * spread.taps * spread.outputs;
  int64_t pixels = 1;
  for (int i = 0; i < spread.spatial; ++i) pixels *= spread.x[2 + i];
  ConvParams params;
  params.in_h = params.out_h = 1;
  params.in_w = params.out_w = narrow(pixels);
  params.pixels = narrow(spread.x[0] * pixels);
  params.in_c = narrow(padded);
  params.depth = narrow(depth);
  params.channels = narrow(rows);
  params.group = narrow(spread.groups);
  ConvTensors tensors;
  if (padded != channels) {
    TENON_TRY_ASSIGN(tensors.x, pad_channels(to, node, node.inputs[0], padded));
  } else {
    TENON_TRY_ASSIGN(tensors.x, to.channels_last(node.inputs[0]));
  }
  params.constant_weights = to.constant(node.inputs[1]) != nullptr ? 1 : 0;
  TENON_TRY(check_conv_sizes(to, node, {spread.x.element_count(), spread.x[0] * pixels, rows}));
  const int64_t channels_a_group = channels / spread.groups;
  WeightPacking packing{
      .format = format("taps {} {}", spread.groups, depth),
      .shape = Shape{spread.groups, spread.taps, spread.outputs, depth},
      .pack = [groups = spread.groups, depth, type, tf32 = to.options().tf32](
                  const Constant& from, std::byte* out) { pack_taps(from, groups, depth, type, tf32, out); },
      .strides = {channels_a_group * spread.outputs * spread.taps, 1, spread.taps, spread.outputs * spread.taps},
      .limits = {spread.groups, spread.taps, spread.outputs, channels_a_group},
      .tf32 = to.options().tf32};
  TENON_TRY_ASSIGN(tensors.w, packed_weights(to, node, node.inputs[1], type, std::move(packing)));
  if (bias) {
    TENON_TRY_ASSIGN(tensors.bias, bias_as(to, node, node.inputs[2], DataType::kFloat, spread.taps));
    TENON_TRY_ASSIGN(tensors.bias_typed, bias_as(to, node, node.inputs[2], type, spread.taps));
  }
  Shape products = spread.x;
  products[1] = rows;
  TENON_TRY_ASSIGN(tensors.y, to.program().add_tensor(type, products, DeviceLayout::kChannelsLast));
  if (params.pixels != 0 && rows != 0 && depth != 0)
    to.program().add_op(std::make_unique<ConvOp>(node.name, type, params, Epilogue{}, tensors));
  return tensors.y;
}

Result<TensorId> make_spread(Lowering& to, const Node& node, const Spread& spread) {
  return to.make(node.outputs[0], spread.y[1] == 1 ? DeviceLayout::kPlain : DeviceLayout::kChannelsLast);
}

// Each input pixel is a block of output pixels: the products are stored, without sums.
Status store_blocks(Lowering& to, const Node& node, const Spread& spread, const Epilogue& epilogue, TensorId products,
                    TensorId added) {
  TENON_TRY_ASSIGN(const TensorId out, make_spread(to, node, spread));
  if (spread.y.element_count() == 0) return Status();
  const DataType type = to.program().tensor(products).type;
  GeneratedElementwise kernel{.type = type};
  GeneratedLeaf block{.type = type}, other{.type = type};
  const std::vector<int64_t> read = to.program().tensor(products).strides(),
                             written = to.program().tensor(out).strides();
  const auto dimension = [&](int axis, int64_t size, int64_t factor, int64_t read_stride) {
    kernel.dims.push_back(size);
    kernel.strides.push_back(written[axis] * factor);
    block.strides.push_back(read_stride);
    if (added != kNoTensor) other.strides.push_back(to.program().tensor(added).strides()[axis] * factor);
  };
  dimension(0, spread.x[0], 1, read[0]);
  dimension(1, spread.outputs, 1, read[1]);
  int64_t tap_stride = spread.taps * spread.outputs;
  for (int i = 0; i < spread.spatial; ++i) {
    const int64_t size = spread.w[2 + i];
    tap_stride /= size;
    dimension(2 + i, spread.x[2 + i], size, read[2 + i]);
    dimension(2 + i, size, 1, tap_stride * read[1]);
  }
  kernel.leaves = {std::move(block)};
  std::vector<TensorId> leaves = {products};
  int result = 0;
  const auto step = [&](std::string expression, std::vector<int> arguments) {
    kernel.steps.push_back({.type = type, .expression = std::move(expression), .arguments = std::move(arguments)});
    result = ~static_cast<int>(kernel.steps.size() - 1);
  };
  if (added != kNoTensor) {
    kernel.leaves.push_back(std::move(other));
    leaves.push_back(added);
  }
  if (added != kNoTensor && !epilogue.residual_after) step("$0 + $1", {result, 1});
  if (epilogue.activation != Activation::kNone) step(activation_expression(epilogue, "$0"), {result});
  if (added != kNoTensor && epilogue.residual_after) step("$0 + $1", {result, 1});
  return to.add_generated(node, "blocks", kernel, std::move(leaves), {}, out);
}

// Windows overlap or leave gaps: each output pixel adds the products that meet there.
Status sum_windows(Lowering& to, const Node& node, Spread spread, const Epilogue& epilogue, TensorId products,
                   TensorId added) {
  TENON_TRY_ASSIGN(const TensorId out, make_spread(to, node, spread));
  if (spread.y.element_count() == 0) return Status();
  const std::vector<int64_t> read = to.program().tensor(products).strides(),
                             written = to.program().tensor(out).strides();
  TensorId bias = kNoTensor;
  if (node.input(2) != kNoValue) {
    TENON_TRY_ASSIGN(bias, bias_as(to, node, node.inputs[2], DataType::kFloat));
  }
  std::vector<int64_t> other(read.size(), 0);
  if (added != kNoTensor) other = to.program().tensor(added).strides();
  WindowSumParams params{.group_channels = spread.outputs,
                         .image_stride = read[0],
                         .group_stride = spread.taps * spread.outputs * read[1],
                         .channel_stride = read[1],
                         .out_image_stride = written[0],
                         .out_channel_stride = written[1],
                         .residual_image_stride = other[0],
                         .residual_channel_stride = other[1],
                         .epilogue = epilogue_params(epilogue)};
  std::vector<int64_t> dims = {spread.y[0]};
  int64_t tap_stride = params.group_stride;
  for (size_t a = 0; a < spread.axes.size(); ++a) {
    const WindowAxis& axis = spread.axes[a];
    tap_stride /= axis.kernel;
    params.axes[a] = {.in = axis.in,
                      .in_stride = read[2 + a],
                      .tap_stride = tap_stride,
                      .out_stride = written[2 + a],
                      .residual_stride = other[2 + a],
                      .stride = make_divisor(axis.stride),
                      .kernel = narrow(axis.kernel),
                      .dilation = narrow(axis.dilation),
                      .pad = narrow(axis.pad_begin)};
    dims.push_back(axis.out);
  }
  dims.insert(dims.end(), {spread.groups, spread.outputs});
  params.map = map_params(dims);
  const DataType type = to.program().tensor(products).type;
  return add_map(to, node, "windows", "ep/cuda/ops/conv/conv_transpose.cuh",
                 template_instance("sum_windows", type, template_enum(epilogue.activation), spread.spatial,
                                   is_wide(to, dims, {products, added, out})),
                 params, params.map.count, {products, bias, added}, {out});
}

// Where the window is a whole number m of strides, the output pixels that have one position in their stride (a phase)
// see windows of m x m input pixels, and those of all phases are the same windows: one convolution makes all phases of
// a cell as further channels. A cell is the output pixels [cell * stride - pad, ...) of each dimension.
struct Phases {
  ConvParams params;
  int64_t count = 1;  // phases of a cell
};

// Nothing where the window is none, or nothing is gained.
std::optional<Phases> read_phases(const Lowering& to, const Node& node, const Spread& spread, DataType type) {
  // Windows of one pixel are blocks, whose kernel writes channels last.
  if (spread.groups != 1 || spread.spatial > 2 ||
      (spread.blocks && (spread.y[1] == 1 || !wants_plain(to, node.outputs[0]))) ||
      to.constant(node.inputs[1]) == nullptr || spread.x.element_count() == 0 || spread.w.element_count() == 0 ||
      spread.y.element_count() == 0)
    return std::nullopt;
  const auto vector = static_cast<int64_t>(16 / data_type_size(type));
  Phases phases;
  std::array<int64_t, 2> in{1, 1}, window{1, 1}, cells{1, 1}, pad{0, 0};
  for (int i = 0; i < spread.spatial; ++i) {
    const WindowAxis& axis = spread.axes[i];
    const int at = i + 2 - spread.spatial;
    in[at] = axis.in;
    window[at] = axis.kernel / axis.stride;
    if (axis.kernel % axis.stride != 0 || axis.dilation != 1 || axis.pad_begin < 0) return std::nullopt;
    const int64_t first = axis.pad_begin / axis.stride;
    pad[at] = window[at] - 1 - first;
    cells[at] = (axis.pad_begin + axis.out - 1) / axis.stride - first + 1;
    if (pad[at] < 0) return std::nullopt;
    phases.count *= axis.stride;
  }
  const int64_t images = spread.x[0], padded = (spread.x[1] + vector - 1) / vector * vector;
  const int64_t pixels = images * cells[0] * cells[1], depth = window[0] * window[1] * padded;
  for (int64_t size : {images * in[0] * in[1] * padded, pixels, depth, phases.count * spread.outputs * depth})
    if (size > INT32_MAX) return std::nullopt;
  ConvParams& params = phases.params;
  params.in_h = narrow(in[0]), params.in_w = narrow(in[1]), params.in_c = narrow(padded);
  params.out_h = narrow(cells[0]), params.out_w = narrow(cells[1]);
  params.kernel_h = narrow(window[0]), params.kernel_w = narrow(window[1]);
  params.pad_h = narrow(pad[0]), params.pad_w = narrow(pad[1]);
  params.pixels = narrow(pixels), params.channels = narrow(phases.count * spread.outputs), params.depth = narrow(depth);
  params.constant_weights = 1;
  return phases;
}

// [C,O,...] as [phase][O][window][C], the channels padded with zeros. A window's last pixel meets the first taps.
void pack_phases(const Constant& from, const Spread& spread, const Phases& phases, DataType type, bool tf32,
                 std::byte* out) {
  const std::vector<float> w = floats_of(from);
  const ConvParams& p = phases.params;
  const bool flat = spread.spatial == 1;
  const int64_t rows = flat ? 1 : spread.w[2], columns = spread.w[1 + spread.spatial];
  const int64_t stride_h = flat ? 1 : spread.axes[0].stride, stride_w = spread.axes.back().stride;
  std::vector<float> packed(int64_t{p.channels} * p.depth);
  size_t next = 0;
  for (int64_t c = 0; c < spread.x[1]; ++c)
    for (int64_t o = 0; o < spread.outputs; ++o)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t s = 0; s < columns; ++s) {
          const int64_t phase = r % stride_h * stride_w + s % stride_w;
          const int64_t row = p.kernel_h - 1 - r / stride_h, column = p.kernel_w - 1 - s / stride_w;
          const int64_t line = phase * spread.outputs + o;
          packed[((line * p.kernel_h + row) * p.kernel_w + column) * p.in_c + c] = w[next++];
        }
  round_weights(packed, type, tf32);
  store_floats(packed, type, out);
}

// Copies the phases of all cells to the output, with channels first or last.
Status store_phases(Lowering& to, const Node& node, const Spread& spread, const Phases& phases,
                    const Epilogue& epilogue, TensorId cells) {
  const DataType type = to.program().tensor(cells).type;
  const bool plain = spread.y[1] == 1 || wants_plain(to, node.outputs[0]), flat = spread.spatial == 1;
  const DeviceLayout layout = plain ? DeviceLayout::kPlain : DeviceLayout::kChannelsLast;
  const WindowAxis rows = flat ? WindowAxis{} : spread.axes[0];
  const WindowAxis& columns = spread.axes.back();
  TensorId residual = kNoTensor;
  if (node.input(3) != kNoValue) {
    TENON_TRY_ASSIGN(residual, to.in_layout(node.inputs[3], layout));
  }
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0], layout));
  PhaseParams params{.stride_h = make_divisor(rows.stride),
                     .stride_w = make_divisor(columns.stride),
                     .cells_h = phases.params.out_h,
                     .cells_w = phases.params.out_w,
                     .out_h = rows.out,
                     .out_w = columns.out,
                     .outputs = spread.outputs,
                     .pad_h = narrow(rows.pad_begin),
                     .pad_w = narrow(columns.pad_begin),
                     .first_h = narrow(rows.pad_begin / rows.stride),
                     .first_w = narrow(columns.pad_begin / columns.stride),
                     .epilogue = epilogue_params(epilogue)};
  const char* const header = "ep/cuda/ops/conv/conv_transpose.cuh";
  const TemplateEnum activation = template_enum(epilogue.activation);
  if (!plain || spread.outputs < kPhaseSquare / 2) {
    const std::vector<int64_t> dims = plain ? std::vector<int64_t>{spread.y[0], spread.outputs, rows.out, columns.out}
                                            : std::vector<int64_t>{spread.y[0], rows.out, columns.out, spread.outputs};
    params.map = map_params(dims);
    return add_map(to, node, "phases", header,
                   template_instance("store_phases", type, activation, plain, is_wide(to, dims, {cells, out})), params,
                   params.map.count, {cells, residual}, {out});
  }
  const auto squares = [](int64_t size) { return (size + kPhaseSquare - 1) / kPhaseSquare; };
  params.map = map_params(std::array<int64_t, 4>{spread.y[0], squares(spread.outputs), rows.out, squares(columns.out)});
  TENON_TRY_ASSIGN(const unsigned blocks, blocks_of(params.map.count, 1));
  return to.add_kernel(node, "phases",
                       TemplateKernel{.header = header,
                                      .instance = template_instance("store_phases_in_squares", type, activation,
                                                                    is_wide(to, {}, {cells, out})),
                                      .params = kernel_params(params),
                                      .shape = {.grid_x = blocks, .block_x = kMapThreads}},
                       {cells, residual}, {out});
}

Status lower_phases(Lowering& to, const Node& node, const Spread& spread, const Phases& phases,
                    const Epilogue& epilogue, DataType type) {
  const ConvParams& params = phases.params;
  ConvTensors tensors;
  if (params.in_c != spread.x[1]) {
    TENON_TRY_ASSIGN(tensors.x, pad_channels(to, node, node.inputs[0], params.in_c));
  } else {
    TENON_TRY_ASSIGN(tensors.x, to.channels_last(node.inputs[0]));
  }
  const bool tf32 = rounds_to_tf32(type, to.options().tf32, params.pixels);
  TENON_TRY_ASSIGN(tensors.w, to.packed_constant(node.inputs[1],
                                                 format("phases {}x{} {}{}", params.kernel_h, params.kernel_w,
                                                        params.in_c, tf32 ? " tf32" : ""),
                                                 type, Shape{int64_t{params.channels}, int64_t{params.depth}},
                                                 [spread, phases, type, tf32](const Constant& from, std::byte* out) {
                                                   pack_phases(from, spread, phases, type, tf32, out);
                                                 }));
  if (node.input(2) != kNoValue) {
    TENON_TRY_ASSIGN(tensors.bias, bias_as(to, node, node.inputs[2], DataType::kFloat, phases.count));
    TENON_TRY_ASSIGN(tensors.bias_typed, bias_as(to, node, node.inputs[2], type, phases.count));
  } else {
    TENON_TRY_ASSIGN(tensors.bias_typed, no_bias(to, params.channels, type));
  }
  // Without strides a cell is a pixel.
  if (phases.count == 1) {
    if (node.input(3) != kNoValue) {
      TENON_TRY_ASSIGN(tensors.residual, to.channels_last(node.inputs[3]));
    }
    TENON_TRY_ASSIGN(tensors.y, to.make(node.outputs[0], DeviceLayout::kChannelsLast));
    to.program().add_op(std::make_unique<ConvOp>(node.name, type, params, epilogue, tensors));
    return Status();
  }
  Shape cells = spread.y;
  cells[1] = params.channels;
  cells[1 + spread.spatial] = params.out_w;
  if (spread.spatial == 2) cells[2] = params.out_h;
  TENON_TRY_ASSIGN(tensors.y, to.program().add_tensor(type, cells, DeviceLayout::kChannelsLast));
  to.program().add_op(std::make_unique<ConvOp>(node.name, type, params, Epilogue{}, tensors));
  return store_phases(to, node, spread, phases, epilogue, tensors.y);
}

}  // namespace

// One product for all taps of the windows, then a kernel that stores or sums the results and computes the epilogue.
Status lower_conv_transpose(Lowering& to, const Node& node) {
  const ValueId bias = node.input(2), residual = node.input(3);
  TENON_TRY_ASSIGN(const Spread spread, read_spread(to, node));
  TENON_TRY_ASSIGN(const Epilogue epilogue, read_epilogue(node));
  const DataType type = to.type_of(node.inputs[0]);
  TENON_UNSUPPORTED_IF(type != DataType::kFloat && type != DataType::kFloat16 && type != DataType::kBfloat16,
                       "{} is computed in {}.", to.label(node), data_type_name(type));
  if (const std::optional<Phases> phases = read_phases(to, node, spread, type))
    return lower_phases(to, node, spread, *phases, epilogue, type);
  TENON_TRY_ASSIGN(const TensorId products, multiply_pixels(to, node, spread, type, spread.blocks && bias != kNoValue));
  TensorId added = kNoTensor;
  if (residual != kNoValue) {
    TENON_TRY_ASSIGN(added, to.any(residual));
  }
  return spread.blocks ? store_blocks(to, node, spread, epilogue, products, added)
                       : sum_windows(to, node, spread, epilogue, products, added);
}

}  // namespace tenon::cuda
