// Convolutions of images whose channels come first, where both sides lie so: depthwise ones, and products of pixels.
// Two reorders around them would take longer than they do.
#include <algorithm>
#include <array>
#include <vector>

#include "base/format.h"
#include "ep/cuda/compute/codegen.h"
#include "ep/cuda/compute/codegen_text.h"
#include "ep/cuda/compute/lowering_maps.h"
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

std::string epilogue_text(const Epilogue& epilogue, DataType residual_type, bool residual, const std::string& place,
                          const std::string& indent) {
  const std::string added =
      residual ? format("{}sum += {};\n", indent, loaded(residual_type, "r[" + place + "]")) : std::string();
  std::string text;
  if (!epilogue.residual_after) text += added;
  if (epilogue.activation != Activation::kNone)
    text += format("{}sum = {};\n", indent, activation_expression(epilogue, "sum"));
  if (epilogue.residual_after) text += added;
  return text;
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

std::string DepthwiseStrips::text(const std::string& number, const std::string& weight, const std::string& element,
                                  const std::string& finish) const {
  const auto& [kernel, stride, dilation, pad] = window_;
  const int64_t width = x_[x_.rank() - 1];
  std::string text = format(
      "  {0} weights[{1}], sums[{2}] = {{}};\n#pragma unroll\n  for (int k = 0; k < {1}; ++k) {{\n"
      "    const index_t at = i1 * {1}u + k;\n    weights[k] = {3};\n  }}\n"
      "  const index_t plane = (i0 * {4}u + i1 / {5}u) * {6}u;\n"
      "  const place_t top = (place_t)i2 * {7} - {8}, left = (place_t)i3 * {9} - {10};\n",
      number, kernel[0] * kernel[1], rows_, weight, x_[1], y_[1] / x_[1], height(x_) * width, rows_ * stride[0], pad[0],
      stride[1], pad[1]);
  text += format(
      "#pragma unroll\n  for (int h = 0; h < {0}; ++h) {{\n    const place_t row = top + h;\n"
      "    const bool in_row = row >= 0 && row < {1};\n#pragma unroll\n    for (int s = 0; s < {2}; ++s) {{\n"
      "      const place_t column = left + s * {3};\n      {4} v = 0;\n"
      "      if (in_row && column >= 0 && column < {5}) {{\n"
      "        const index_t at = plane + (index_t)(row * {5} + column);\n        v = {6};\n      }}\n",
      rows_read(), height(x_), kernel[1], dilation[1], number, width, element);
  text += format(
      "#pragma unroll\n      for (int t = 0; t < {0}; ++t) {{\n        const int k = h - t * {1};\n"
      "        if (k >= 0 && k % {2} == 0 && k / {2} < {3}) sums[t] += weights[k / {2} * {4} + s] * v;\n"
      "      }}\n    }}\n  }}\n",
      rows_, stride[0], dilation[0], kernel[0], kernel[1]);
  return text + format(
                    "#pragma unroll\n  for (int t = 0; t < {0}; ++t) {{\n    const index_t row = i2 * {0}u + t;\n"
                    "    if (row < {1}u) {{\n      const index_t at = ((i0 * {2}u + i1) * {1}u + row) * {3}u + i3;\n"
                    "{4}    }}\n  }}\n",
                    rows_, height(y_), y_[1], y_[y_.rank() - 1], finish);
}

namespace {

Status lower_depthwise(Lowering& to, const Node& node, const Epilogue& epilogue, const ConvWindow& window) {
  const DataType type = to.type_of(node.inputs[0]);
  const Shape x = to.value(node.inputs[0]).shape(), y = to.value(node.outputs[0]).shape();
  const DepthwiseStrips strips(x, y, window);
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId weights, to.plain(node.inputs[1]));
  MapKernel map(to, node, "depthwise_first");
  map.map().dims = strips.dims();
  map.read(from, "a");
  map.read(weights, "w");
  std::string bias = "0.0f";
  if (node.input(2) != kNoValue) {
    TENON_TRY_ASSIGN(const TensorId given, to.plain(node.inputs[2]));
    map.read(given, "b");
    bias = loaded(to.program().tensor(given).type, "b[i1]");
  }
  if (node.input(3) != kNoValue) {
    TENON_TRY_ASSIGN(const TensorId other, to.plain(node.inputs[3]));
    map.read(other, "r");
  }
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  map.write(out, "y");
  map.body() = format("  const float bias = {};\n", bias) +
               strips.text("float", loaded(to.program().tensor(weights).type, "w[at]"), loaded(type, "a[at]"),
                           format("      float sum = sums[t] + bias;\n{}      y[at] = {};\n",
                                  epilogue_text(epilogue, type, node.input(3) != kNoValue, "at", "      "),
                                  stored(type, "sum")));
  return map.add();
}

// [outputs, channels] times [channels, pixels] for each image; then a kernel for what comes after the sums.
Status lower_pixels(Lowering& to, const Node& node, const Epilogue& epilogue) {
  const DataType type = to.type_of(node.inputs[0]);
  const Shape x = to.value(node.inputs[0]).shape(), y = to.value(node.outputs[0]).shape();
  const int64_t channels = x[1], outputs = y[1], pixels = y.element_count() / (y[0] * outputs);
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId weights,
                   to.packed_constant(node.inputs[1], format("conv {}{}", channels, to.options().tf32 ? " tf32" : ""),
                                      type, Shape{outputs, int64_t{1}, channels},
                                      [type, tf32 = to.options().tf32](const Constant& held, std::byte* out) {
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

// Products that cuBLASLt reads in whole vectors, and that nobody would take apart (matmul/split_product.h).
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
         choose_split(type, to.options().tf32, to.options().workspace_bytes, params).sections == 0;
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
