// Convolutions of images whose channels come first, where both sides lie so: depthwise ones, and products of pixels.
// Two reorders around them would take longer than they do.
#include <algorithm>
#include <array>
#include <vector>

#include "base/format.h"
#include "ep/cuda/compute/kernel_template.h"
#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/conv/lower.h"
#include "ep/cuda/ops/matmul/op.h"

namespace tenon::cuda {

bool wants_plain(const Lowering& to, ValueId id) {
  constexpr size_t kMostValues = 16;  // whoever hands on to more is no end of a region
  const Graph& graph = to.graph();
  std::vector<ValueId> values = {id};
  for (size_t at = 0; at < values.size(); ++at) {
    bool read = std::find(graph.outputs.begin(), graph.outputs.end(), values[at]) != graph.outputs.end();
    for (const Node& node : graph.nodes) {
      if (std::find(node.inputs.begin(), node.inputs.end(), values[at]) == node.inputs.end()) continue;
      read = true;
      if (node.op_type == "Reshape" || node.op_type == "Flatten") continue;
      if (node.outputs.size() != 1 || !is_elementwise(graph, node) || node.op_type == "Transpose") return false;
      if (std::find(values.begin(), values.end(), node.outputs[0]) == values.end()) values.push_back(node.outputs[0]);
    }
    if (!read || values.size() > kMostValues) return false;
  }
  return true;
}

DepthwiseStrips::DepthwiseStrips(const Shape& x, const Shape& y, const ConvWindow& window)
    : x_(x), y_(y), window_(window) {
  constexpr int64_t kMostRows = 8, kMostReads = 160, kBusyThreads = int64_t{1} << 18;
  rows_ = kMostRows;
  while (rows_ > 1 &&
         (rows_ > height(y) || rows_read() * window.kernel[1] > kMostReads || y.element_count() / rows_ < kBusyThreads))
    rows_ /= 2;
}

bool DepthwiseStrips::serve(const Shape& x, const Shape& w, int64_t group) {
  constexpr int64_t kMostTaps = 49;
  return group > 1 && group == x[1] && w[1] == 1 && w[0] % group == 0 && (w.rank() == 3 || w.rank() == 4) &&
         w.element_count() != 0 && w.element_count() / w[0] <= kMostTaps;
}

std::vector<int64_t> DepthwiseStrips::dims() const {
  return {y_[0], y_[1], (height(y_) + rows_ - 1) / rows_, y_[y_.rank() - 1]};
}

DepthwiseParams DepthwiseStrips::params() const {
  return {.map = map_params(dims()),
          .multiplier = make_divisor(y_[1] / x_[1]),
          .channels = x_[1],
          .outputs = y_[1],
          .in_h = height(x_),
          .in_w = x_[x_.rank() - 1],
          .out_h = height(y_),
          .out_w = y_[y_.rank() - 1],
          .stride_w = static_cast<int32_t>(window_.stride[1]),
          .dilation_w = static_cast<int32_t>(window_.dilation[1]),
          .pad_h = static_cast<int32_t>(window_.pad[0]),
          .pad_w = static_cast<int32_t>(window_.pad[1])};
}

std::string DepthwiseStrips::arguments() const {
  return format("{}, {}, {}, {}, {}", rows_, window_.kernel[0], window_.kernel[1], window_.stride[0],
                window_.dilation[0]);
}

namespace {

Status lower_depthwise(Lowering& to, const Node& node, const Epilogue& epilogue, const ConvWindow& window) {
  const DataType type = to.type_of(node.inputs[0]);
  const Shape x = to.value(node.inputs[0]).shape(), y = to.value(node.outputs[0]).shape();
  const DepthwiseStrips strips(x, y, window);
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId weights, to.plain(node.inputs[1]));
  TENON_TRY_ASSIGN(const TensorId bias, plain_or_none(to, node, 2));
  TENON_TRY_ASSIGN(const TensorId residual, plain_or_none(to, node, 3));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  DepthwiseParams params = strips.params();
  params.epilogue = epilogue_params(epilogue);
  const auto type_of = [&](TensorId id) { return id == kNoTensor ? type : to.program().tensor(id).type; };
  return add_map(
      to, node, "depthwise_first", "ep/cuda/ops/conv/depthwise_strips.cuh",
      template_instance("depthwise_first", type, type_of(weights), type_of(bias), template_enum(epilogue.activation),
                        strips.arguments(), is_wide(to, strips.dims(), {from, weights, out})),
      params, params.map.count, {from, weights, bias, residual}, {out});
}

// [outputs, channels] times [channels, pixels] for each image; then a kernel for what comes after the sums.
Status lower_pixels(Lowering& to, const Node& node, const Epilogue& epilogue) {
  const DataType type = to.type_of(node.inputs[0]);
  const Shape x = to.value(node.inputs[0]).shape(), y = to.value(node.outputs[0]).shape();
  const int64_t channels = x[1], outputs = y[1], pixels = y.element_count() / (y[0] * outputs);
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  const bool tf32 = type == DataType::kFloat && to.options().tf32;
  TENON_TRY_ASSIGN(
      const TensorId weights,
      to.packed_constant(node.inputs[1], format("conv {}{}", channels, tf32 ? " tf32" : ""), type,
                         Shape{outputs, int64_t{1}, channels}, [type, tf32](const Constant& held, std::byte* out) {
                           std::vector<float> w = floats_of(held);
                           round_weights(w, type, tf32);
                           store_floats(w, type, out);
                         }));
  const ValueId bias = node.input(2), residual = node.input(3);
  const bool finished = bias == kNoValue && residual == kNoValue && epilogue.activation == Activation::kNone;
  TensorId sums = kNoTensor;
  if (finished) {
    TENON_TRY_ASSIGN(sums, to.make(node.outputs[0]));
  } else {
    TENON_TRY_ASSIGN(sums, to.program().add_tensor(type, y));
  }
  to.program().add_op(std::make_unique<ProductOp>(node.name,
                                                  BlasProblem{.type = type,
                                                              .rows = outputs,
                                                              .columns = pixels,
                                                              .depth = channels,
                                                              .batch = y[0],
                                                              .x_stride = 0,
                                                              .w_stride = channels * pixels,
                                                              .y_stride = outputs * pixels},
                                                  weights, from, sums));
  if (finished) return Status();
  GeneratedElementwise kernel{.dims = {y[0], outputs, pixels},
                              .type = type,
                              .strides = {outputs * pixels, pixels, 1},
                              .leaves = {{.type = type, .strides = {outputs * pixels, pixels, 1}}}};
  std::vector<TensorId> leaves = {sums};
  int result = 0;
  const auto step = [&](std::string expression, std::vector<int> arguments) {
    kernel.steps.push_back({.type = type, .expression = std::move(expression), .arguments = std::move(arguments)});
    result = ~static_cast<int>(kernel.steps.size() - 1);
  };
  const auto add = [&](TensorId other, std::vector<int64_t> strides) {
    kernel.leaves.push_back({.type = to.program().tensor(other).type, .strides = std::move(strides)});
    leaves.push_back(other);
    step("$0 + $1", {result, static_cast<int>(leaves.size() - 1)});
  };
  if (bias != kNoValue) {
    TENON_TRY_ASSIGN(const TensorId given, bias_as(to, node, bias, DataType::kFloat));
    add(given, {0, 1, 0});
  }
  TensorId other = kNoTensor;
  if (residual != kNoValue) {
    TENON_TRY_ASSIGN(other, to.plain(residual));
  }
  if (other != kNoTensor && !epilogue.residual_after) add(other, kernel.strides);
  if (epilogue.activation != Activation::kNone) step(activation_expression(epilogue, "$0"), {result});
  if (other != kNoTensor && epilogue.residual_after) add(other, kernel.strides);
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  return to.add_generated(node, "pixels", kernel, std::move(leaves), {}, out);
}

// Products that cuBLASLt reads in whole vectors, and that are not split (matmul/split_product.h).
bool is_pixel_product(const Lowering& to, const Node& node, const ConvDesc& conv) {
  constexpr int64_t kFewPixels = 64;
  if (conv.group != 1 || to.constant(node.inputs[1]) == nullptr) return false;
  for (const WindowAxis& axis : conv.window.axes)
    if (axis.kernel != 1 || axis.stride != 1 || axis.pad_begin != 0 || axis.pad_end != 0) return false;
  const DataType type = to.type_of(node.inputs[0]);
  const auto vector = static_cast<int64_t>(16 / data_type_size(type));
  const int64_t pixels = conv.window.out_count();
  ConvParams params;
  params.in_h = params.out_h = 1;
  params.in_w = params.out_w = static_cast<int32_t>(pixels);
  params.pixels = static_cast<int32_t>(conv.batch * pixels);
  params.in_c = params.depth = static_cast<int32_t>(conv.channels);
  params.channels = static_cast<int32_t>(conv.outputs);
  return pixels >= kFewPixels && pixels % vector == 0 && conv.channels % vector == 0 &&
         choose_split(type, to.options().tf32, to.options().workspace_bytes, params).terms == 0;
}

}  // namespace

Result<bool> lower_conv_channels_first(Lowering& to, const Node& node, const ConvDesc& conv) {
  const Shape x = to.value(node.inputs[0]).shape(), w = to.value(node.inputs[1]).shape();
  const Shape y = to.value(node.outputs[0]).shape();
  if (compute_type(to.type_of(node.inputs[0])) != "float" || y.element_count() == 0 || x.element_count() == 0 ||
      w.element_count() == 0 || to.is_channels_last(node.inputs[0]))
    return false;
  const bool pixels = is_pixel_product(to, node, conv);
  const bool depthwise = DepthwiseStrips::serve(x, w, conv.group);
  if ((!pixels && !depthwise) || !wants_plain(to, node.outputs[0])) return false;
  TENON_TRY_ASSIGN(const Epilogue epilogue, read_epilogue(node));
  if (pixels) {
    TENON_TRY(lower_pixels(to, node, epilogue));
  } else {
    TENON_TRY(lower_depthwise(to, node, epilogue, conv_window(conv)));
  }
  return true;
}

}  // namespace tenon::cuda
