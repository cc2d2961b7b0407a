// Turns ONNX's convolutions with constant weights into tenon.Conv and tenon.ConvTranspose, merges factors and biases of
// channels into them, and makes one of several whose results are added.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "ops/conv.h"
#include "ops/norm.h"
#include "ops/unary.h"
#include "ops/window.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

const Node* convolution(const Rewriter& rewriter, ValueId id) {
  if (const Node* conv = rewriter.made_by(id, "Conv", "tenon")) return conv;
  return rewriter.made_by(id, "ConvTranspose", "tenon");
}

// Nothing after the product yet: a scale or shift of the result is one of the product.
bool epilogue_is_bias_only(const Node& conv) { return !has_activation(conv) && conv.input(3) == kNoValue; }

// Weights that are an input may claim any size: more channels than this are no reason to make a bias.
constexpr int64_t kMaxChannels = int64_t{1} << 24;

std::optional<int64_t> output_channels(const Rewriter& rewriter, const Node& conv) {
  const Value& weights = rewriter.value(conv.inputs[1]);
  if (!weights.has_rank || weights.dims.size() < 3) return std::nullopt;
  const Dim& dim = weights.dims[conv.op_type == "Conv" ? 0 : 1];
  const Result<int64_t> group = conv.op_type == "Conv" ? Result<int64_t>(1) : read_conv_group(conv);
  if (!dim.known() || dim.value > kMaxChannels || !group.ok() || *group > kMaxChannels) return std::nullopt;
  return dim.value * *group <= kMaxChannels ? std::optional(dim.value * *group) : std::nullopt;
}

// One number a channel from a constant that broadcasts over `rank` dimensions with the channels in dimension 1: shapes
// [], [1], [1,C,1,1], [C,1,1]. A scalar is repeated.
std::optional<std::vector<float>> per_channel(const Constant& constant, size_t rank, int64_t channels) {
  if (constant.type != DataType::kFloat || constant.shape.dims().size() > rank) return std::nullopt;
  std::span<const float> values = constant.as<float>();
  if (values.size() == 1) return std::vector<float>(channels, values[0]);
  if (values.size() != static_cast<size_t>(channels)) return std::nullopt;
  const int channel_axis = 1 - (static_cast<int>(rank) - constant.shape.rank());
  if (channel_axis < 0 || constant.shape[channel_axis] != channels) return std::nullopt;
  return std::vector<float>(values.begin(), values.end());
}

Result<ConstantRef> float_constant(const Shape& shape, std::span<const float> values) {
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef constant, make_constant(DataType::kFloat, shape, &data));
  std::copy(values.begin(), values.end(), reinterpret_cast<float*>(data));
  return constant;
}

// The bias as numbers, zeros when there is none; nullopt when it is not constant.
std::optional<std::vector<float>> bias_values(const Rewriter& rewriter, const Node& conv, int64_t channels) {
  if (conv.input(2) == kNoValue) return std::vector<float>(channels, 0.0f);
  const ConstantRef& bias = rewriter.constant(conv.inputs[2]);
  if (!bias || bias->type != DataType::kFloat) return std::nullopt;
  std::span<const float> values = bias->as<float>();
  if (values.size() != static_cast<size_t>(channels)) return std::nullopt;
  return std::vector<float>(values.begin(), values.end());
}

// weights * scale[output channel].
Result<ConstantRef> scaled_weights(const Node& conv, const Constant& weights, std::span<const float> scale) {
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef out, make_constant(DataType::kFloat, weights.shape, &data));
  auto* dst = reinterpret_cast<float*>(data);
  std::span<const float> src = weights.as<float>();
  int64_t kernel = 1;
  for (int i = 2; i < weights.shape.rank(); ++i) kernel *= weights.shape[i];
  const int64_t rows = weights.shape[0], columns = weights.shape[1];
  const bool transposed = conv.op_type == "ConvTranspose";
  TENON_TRY_ASSIGN(const int64_t group, read_conv_group(conv));
  const int64_t rows_per_group = std::max<int64_t>(1, rows / group);
  size_t at = 0;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t channel = transposed ? row / rows_per_group * columns + column : row;
      const float factor = scale[channel];
      for (int64_t k = 0; k < kernel; ++k, ++at) dst[at] = src[at] * factor;
    }
  }
  return out;
}

}  // namespace

std::optional<ChannelLines> batch_norm_lines(const Rewriter& rewriter, const Node& node, size_t channels) {
  if (node.inputs.size() != 5 || node.outputs.size() != 1) return std::nullopt;
  const BatchNormDesc desc = read_batch_norm(node);
  if (desc.training) return std::nullopt;
  std::array<std::span<const float>, 4> parameters;
  for (size_t p = 0; p < parameters.size(); ++p) {
    const ConstantRef& parameter = rewriter.constant(node.inputs[p + 1]);
    if (!parameter || parameter->type != DataType::kFloat) return std::nullopt;
    parameters[p] = parameter->as<float>();
    if (parameters[p].size() != channels) return std::nullopt;
  }
  const auto& [scale, bias, mean, variance] = parameters;
  ChannelLines lines;
  for (size_t c = 0; c < channels; ++c) {
    lines.factor.push_back(scale[c] / std::sqrt(static_cast<double>(variance[c]) + desc.epsilon));
    lines.shift.push_back(bias[c] - mean[c] * lines.factor[c]);
  }
  return lines;
}

namespace {

// A convolution, or a normalisation: a depthwise convolution of one tap.
struct Branch {
  const Node* conv = nullptr;  // null: a normalisation
  ValueId input = kNoValue;
  int64_t outputs = 0, group_channels = 0, group = 1;
  std::vector<WindowAxis> axes;
  std::span<const float> taps;   // [outputs, group_channels, kernel...], of the weights
  std::vector<float> of_output;  // without weights: one tap for each output
  std::vector<float> bias;       // [outputs]

  int64_t kernel_count() const {
    int64_t count = 1;
    for (const WindowAxis& axis : axes) count *= axis.kernel;
    return count;
  }
};

std::optional<Branch> normalisation_branch(const Rewriter& rewriter, const Node& node) {
  const Value& x = rewriter.value(node.inputs[0]);
  const ConstantRef& scale = node.inputs.size() == 5 ? rewriter.constant(node.inputs[1]) : ConstantRef();
  if (!rewriter.is_float(node.inputs[0]) || !x.has_rank || x.dims.size() < 3 || !scale) return std::nullopt;
  const int64_t channels = scale->shape.element_count();
  if (channels < 1) return std::nullopt;
  const std::optional<ChannelLines> lines = batch_norm_lines(rewriter, node, static_cast<size_t>(channels));
  if (!lines) return std::nullopt;
  return Branch{.input = node.inputs[0],
                .outputs = channels,
                .group_channels = 1,
                .group = channels,
                .axes = std::vector<WindowAxis>(x.dims.size() - 2),
                .of_output = std::vector<float>(lines->factor.begin(), lines->factor.end()),
                .bias = std::vector<float>(lines->shift.begin(), lines->shift.end())};
}

std::optional<Branch> read_branch(const Rewriter& rewriter, ValueId id) {
  if (!rewriter.read_once(id)) return std::nullopt;
  if (const Node* norm = rewriter.made_by(id, "BatchNormalization")) return normalisation_branch(rewriter, *norm);
  const Node* const conv = rewriter.made_by(id, "Conv", "tenon");
  if (!conv || !epilogue_is_bias_only(*conv)) return std::nullopt;
  const ConstantRef& weights = rewriter.constant(conv->inputs[1]);
  const std::optional<int64_t> channels = output_channels(rewriter, *conv);
  if (!weights || !channels || weights->type != DataType::kFloat || weights->size_bytes == 0) return std::nullopt;
  std::optional<std::vector<float>> bias = bias_values(rewriter, *conv, *channels);
  const Result<int64_t> group = read_conv_group(*conv);
  const std::span<const int64_t> kernel = weights->shape.dims().subspan(2);
  const std::vector<int64_t> unknown(kernel.size(), kUnknownSize);
  const Result<Window> window = read_window(*conv, unknown, kernel);
  if (!bias || !group.ok() || *channels % *group != 0 || !window.ok() || window->same()) return std::nullopt;
  return Branch{.conv = conv,
                .input = conv->inputs[0],
                .outputs = *channels,
                .group_channels = weights->shape[1],
                .group = *group,
                .axes = window->axes,
                .taps = weights->as<float>(),
                .bias = std::move(*bias)};
}

// The first input of the node that makes `id`; kNoValue where there is none.
ValueId read_by_maker(const Rewriter& rewriter, ValueId id) {
  const Node* maker = rewriter.producer(id);
  return maker ? maker->input(0) : kNoValue;
}

// The input of a depthwise convolution, which is added to its result. That of another one is better read as a residual
// than through the weights of all channels.
std::optional<Branch> identity_branch(const std::optional<Branch>& conv) {
  if (!conv || conv->group_channels != 1 || conv->outputs != conv->group) return std::nullopt;
  return Branch{.input = conv->input,
                .outputs = conv->outputs,
                .group_channels = 1,
                .group = conv->outputs,
                .axes = std::vector<WindowAxis>(conv->axes.size()),
                .of_output = std::vector<float>(conv->outputs, 1.0f),
                .bias = std::vector<float>(conv->outputs, 0.0f)};
}

// The tap of `outer` where the first one of `inner` lies; -1 where its taps are not among those of `outer`, or the
// outputs of some input would differ in size.
int64_t first_tap(const WindowAxis& outer, const WindowAxis& inner) {
  const int64_t before = outer.pad_begin - inner.pad_begin, behind = outer.pad_end - inner.pad_end;
  const bool same_steps = inner.kernel == 1 || inner.dilation == outer.dilation;
  const bool inside = outer.stride == inner.stride && before >= 0 && before % outer.dilation == 0 && same_steps &&
                      before + behind == outer.reach() - inner.reach() && before + inner.reach() <= outer.reach();
  return inside ? before / outer.dilation : -1;
}

// For each axis the tap of `outer` where the first one of `inner` lies; nullopt where `inner` has taps that `outer`
// lacks.
std::optional<std::vector<int64_t>> first_taps(const Branch& outer, const Branch& inner) {
  const bool same_sizes = outer.outputs == inner.outputs && outer.axes.size() == inner.axes.size() &&
                          outer.group_channels * outer.group == inner.group_channels * inner.group;
  if (outer.conv == nullptr || !same_sizes || inner.group % outer.group != 0) return std::nullopt;
  std::vector<int64_t> first;
  for (size_t i = 0; i < outer.axes.size(); ++i) {
    first.push_back(first_tap(outer.axes[i], inner.axes[i]));
    if (first.back() < 0) return std::nullopt;
  }
  return first;
}

// Adds the taps of `inner` times `sign` to those of `outer`, which `to` holds.
void add_taps(const Branch& outer, const Branch& inner, std::span<const int64_t> first, float sign, float* to) {
  const std::span<const float> taps = inner.taps.empty() ? std::span<const float>(inner.of_output) : inner.taps;
  const int64_t outer_kernel = outer.kernel_count(), inner_kernel = inner.kernel_count();
  std::vector<int64_t> places;  // of the taps of `inner` in a kernel of `outer`
  for (int64_t tap = 0; tap < inner_kernel; ++tap) {
    int64_t at = 0, rest = tap, size = 1;
    for (size_t i = outer.axes.size(); i-- > 0; size *= outer.axes[i].kernel) {
      at += (first[i] + rest % inner.axes[i].kernel) * size;
      rest /= inner.axes[i].kernel;
    }
    places.push_back(at);
  }
  const float* from = taps.data();
  for (int64_t output = 0; output < outer.outputs; ++output) {
    // Of all channels, the first ones that the output's groups read.
    const int64_t outer_channel = output / (outer.outputs / outer.group) * outer.group_channels,
                  inner_channel = output / (inner.outputs / inner.group) * inner.group_channels;
    float* kernel = to + (output * outer.group_channels + inner_channel - outer_channel) * outer_kernel;
    for (int64_t channel = 0; channel < inner.group_channels; ++channel, kernel += outer_kernel)
      for (int64_t place : places) kernel[place] += sign * *from++;
  }
}

Node with_bias(Rewriter& rewriter, const Node& conv, ConstantRef bias, const Node& last) {
  Node fused = conv;
  fused.inputs.resize(std::max<size_t>(fused.inputs.size(), 3), kNoValue);
  fused.inputs[2] = rewriter.add_constant(rewriter.value(last.outputs[0]).name + ":bias", std::move(bias));
  fused.outputs = {last.outputs[0]};
  return fused;
}

constexpr size_t kMostPlaneRank = 4;  // of tensors that lie in planes of blocks of channels

// Whether the value was a convolution's a few nodes ago, and most likely lies in blocks of channels.
bool comes_from_convolution(const Rewriter& rewriter, ValueId id, int steps = 4) {
  constexpr std::array<std::string_view, 9> kPassed = {"Add",  "Activation", "AveragePool", "Concat", "LeakyRelu",
                                                       "Relu", "MaxPool",    "Mul",         "Sigmoid"};
  const Node* const node = rewriter.producer(id);
  if (node == nullptr) return false;
  if (convolution(rewriter, id) != nullptr) return true;
  if (steps == 0 || std::find(kPassed.begin(), kPassed.end(), node->op_type) == kPassed.end()) return false;
  constexpr size_t kFew = 4;  // inputs: a model may join thousands, again and again
  const auto inputs = std::span(node->inputs).first(std::min(node->inputs.size(), kFew));
  return std::any_of(inputs.begin(), inputs.end(), [&](ValueId input) {
    return input != kNoValue && comes_from_convolution(rewriter, input, steps - 1);
  });
}

}  // namespace

Status pass_convolutions(Graph& graph, const PassOptions&) {
  for (Node& node : graph.nodes) {
    if (!node.domain.empty() || (node.op_type != "Conv" && node.op_type != "ConvTranspose")) continue;
    if (node.inputs.size() < 2 || node.outputs.size() != 1) continue;
    bool all_float = true;
    for (ValueId id : node.inputs)
      all_float = all_float && (id == kNoValue || graph.value(id).type == DataType::kFloat);
    if (!all_float || !graph.value(node.inputs[1]).has_rank) continue;
    node.domain = "tenon";
    node.since_version = 1;
  }
  return {};
}

Status pass_sums_of_two(Graph& graph, const PassOptions&) {
  constexpr int kAdd = 14;  // the version of Add
  constexpr size_t kMostInputs = 8;
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    const Node& node = rewriter.node(i);
    const bool sum = node.op_type == "Sum";
    if (!node.domain.empty() || (!sum && node.op_type != "Max" && node.op_type != "Min") || node.outputs.size() != 1)
      continue;
    const size_t count = node.inputs.size();
    const auto binary = [&](ValueId a, ValueId b, ValueId y) {
      Node made = sum ? make_node("Add", kAdd, node.name, {a, b}, {y}) : node;
      made.inputs = {a, b};
      made.outputs = {y};
      return made;
    };
    if (count == 2 && sum) {
      rewriter.replace(i, binary(node.inputs[0], node.inputs[1], node.outputs[0]));
      continue;
    }
    if (count < 3 || count > kMostInputs || !rewriter.is_float(node.outputs[0])) continue;
    const auto alike = [&](ValueId id) { return id != kNoValue && rewriter.same_shape(id, node.outputs[0]); };
    const auto convolved = [&](ValueId id) { return comes_from_convolution(rewriter, id); };
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), alike) ||
        !std::any_of(node.inputs.begin(), node.inputs.end(), convolved))
      continue;
    const std::vector<ValueId> inputs = node.inputs;
    ValueId before = inputs[0];
    for (size_t k = 1; k + 1 < count; ++k) {
      Value part = rewriter.value(node.outputs[0]);
      part.name += ":" + std::to_string(k);
      const ValueId y = rewriter.add_value(std::move(part));
      rewriter.insert_before(i, binary(before, inputs[k], y));
      before = y;
    }
    rewriter.replace(i, binary(before, inputs.back(), node.outputs[0]));
  }
  rewriter.finish();
  return {};
}

Status pass_convolution_scale(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (!node.domain.empty() || node.inputs.empty()) continue;
    const bool norm = node.op_type == "BatchNormalization";
    const bool mul = node.op_type == "Mul" ||
                     (node.op_type == "Div" && node.inputs.size() == 2 && rewriter.constant(node.inputs[1]));
    if (!norm && !mul) continue;
    ValueId product = node.inputs[0];
    ValueId factor = kNoValue;
    if (!norm) {
      auto parts = split_operands(node, [&](ValueId a, ValueId b) {
        return rewriter.constant(a) != nullptr && convolution(rewriter, b) != nullptr;
      });
      if (!parts) continue;
      std::tie(factor, product) = *parts;
    }
    const Node* conv = convolution(rewriter, product);
    if (!conv || !rewriter.read_once(product) || !epilogue_is_bias_only(*conv)) continue;
    const ConstantRef weights = rewriter.constant(conv->inputs[1]);
    std::optional<int64_t> channels = output_channels(rewriter, *conv);
    if (!weights || !channels || weights->type != DataType::kFloat || weights->size_bytes == 0) continue;
    const size_t bias_bytes = static_cast<size_t>(*channels) * sizeof(float);
    if (weights->size_bytes > SIZE_MAX / 4 || !rewriter.may_make(weights->size_bytes + bias_bytes)) continue;
    std::optional<std::vector<float>> bias = bias_values(rewriter, *conv, *channels);
    if (!bias) continue;
    std::vector<float> scale;
    if (norm) {
      const std::optional<ChannelLines> lines = batch_norm_lines(rewriter, node, bias->size());
      if (!lines) continue;
      scale.assign(lines->factor.begin(), lines->factor.end());
      for (size_t c = 0; c < bias->size(); ++c)
        (*bias)[c] = static_cast<float>((*bias)[c] * lines->factor[c] + lines->shift[c]);
    } else {
      std::optional<std::vector<float>> factors =
          per_channel(*rewriter.constant(factor), weights->shape.dims().size(), *channels);
      if (!factors) continue;
      scale = std::move(*factors);
      if (node.op_type == "Div")
        for (float& s : scale) s = 1.0f / s;
      for (size_t c = 0; c < bias->size(); ++c) (*bias)[c] *= scale[c];
    }
    TENON_TRY_ASSIGN(ConstantRef new_weights, scaled_weights(*conv, *weights, scale));
    TENON_TRY_ASSIGN(ConstantRef new_bias, float_constant(Shape{*channels}, *bias));
    const Node last = node;
    Node fused = with_bias(rewriter, *conv, std::move(new_bias), last);
    fused.inputs[1] = rewriter.add_constant(rewriter.value(conv->inputs[1]).name + ":scaled", std::move(new_weights));
    rewriter.replace(i, std::move(fused));
  }
  rewriter.finish();
  return {};
}

Status pass_convolution_bias(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (!node.domain.empty() || (node.op_type != "Add" && node.op_type != "Sub")) continue;
    auto parts = split_operands(node, [&](ValueId a, ValueId b) {
      return rewriter.constant(a) != nullptr && convolution(rewriter, b) != nullptr;
    });
    // const - conv is no bias
    if (!parts || (node.op_type == "Sub" && parts->first == node.inputs[0])) continue;
    const Node* conv = convolution(rewriter, parts->second);
    if (!rewriter.read_once(parts->second) || !epilogue_is_bias_only(*conv)) continue;
    std::optional<int64_t> channels = output_channels(rewriter, *conv);
    if (!channels || !rewriter.may_make(static_cast<size_t>(*channels) * sizeof(float))) continue;
    const size_t rank = rewriter.value(conv->inputs[1]).dims.size();
    std::optional<std::vector<float>> shift = per_channel(*rewriter.constant(parts->first), rank, *channels);
    std::optional<std::vector<float>> bias = bias_values(rewriter, *conv, *channels);
    if (!shift || !bias) continue;
    const float sign = node.op_type == "Sub" ? -1.0f : 1.0f;
    for (size_t c = 0; c < bias->size(); ++c) (*bias)[c] += sign * (*shift)[c];
    TENON_TRY_ASSIGN(ConstantRef new_bias, float_constant(Shape{*channels}, *bias));
    const Node last = node;
    rewriter.replace(i, with_bias(rewriter, *conv, std::move(new_bias), last));
  }
  rewriter.finish();
  return {};
}

Status pass_parallel_convolutions(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (!node.domain.empty() || (node.op_type != "Add" && node.op_type != "Sub") || node.inputs.size() != 2) continue;
    const ValueId left = read_by_maker(rewriter, node.inputs[0]), right = read_by_maker(rewriter, node.inputs[1]);
    std::optional<Branch> first, second;
    if (left != kNoValue && left == right) {
      first = read_branch(rewriter, node.inputs[0]);
      second = read_branch(rewriter, node.inputs[1]);
    } else if (left != kNoValue && left == node.inputs[1]) {
      first = read_branch(rewriter, node.inputs[0]);
      second = identity_branch(first);
    } else if (right != kNoValue && right == node.inputs[0]) {
      second = read_branch(rewriter, node.inputs[1]);
      first = identity_branch(second);
    }
    if (!first || !second) continue;
    const float sign = node.op_type == "Sub" ? -1.0f : 1.0f;
    float outer_sign = 1, inner_sign = sign;
    const Branch *outer = &*first, *inner = &*second;
    std::optional<std::vector<int64_t>> places = first_taps(*outer, *inner);
    if (!places) {
      std::swap(outer, inner);
      std::swap(outer_sign, inner_sign);
      places = first_taps(*outer, *inner);
      if (!places) continue;
    }
    const Node conv = *outer->conv, last = node;
    const Shape shape = rewriter.constant(conv.inputs[1])->shape;
    if (!rewriter.may_make((outer->taps.size() + outer->bias.size()) * sizeof(float))) continue;
    std::byte* data = nullptr;
    TENON_TRY_ASSIGN(ConstantRef weights, make_constant(DataType::kFloat, shape, &data));
    auto* const taps = reinterpret_cast<float*>(data);
    std::transform(outer->taps.begin(), outer->taps.end(), taps, [&](float tap) { return outer_sign * tap; });
    add_taps(*outer, *inner, *places, inner_sign, taps);
    std::vector<float> shift = outer->bias;
    for (size_t c = 0; c < shift.size(); ++c) shift[c] = outer_sign * shift[c] + inner_sign * inner->bias[c];
    TENON_TRY_ASSIGN(ConstantRef bias, float_constant(Shape{outer->outputs}, shift));
    Node fused = with_bias(rewriter, conv, std::move(bias), last);
    fused.inputs[1] = rewriter.add_constant(rewriter.value(last.outputs[0]).name + ":weights", std::move(weights));
    rewriter.replace(i, std::move(fused));
  }
  rewriter.finish();
  return {};
}

Status pass_normalisation_convolutions(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (!node.domain.empty() || node.op_type != "BatchNormalization" || node.outputs.size() != 1) continue;
    const std::optional<Branch> branch = normalisation_branch(rewriter, node);
    if (!branch || !rewriter.may_make(2 * branch->bias.size() * sizeof(float))) continue;
    const Value& x = rewriter.value(node.inputs[0]);
    const size_t rank = x.dims.size();
    if (rank > kMostPlaneRank || x.dims[1].value != branch->outputs ||
        !comes_from_convolution(rewriter, node.inputs[0]))
      continue;
    Shape shape{branch->outputs, 1};
    for (size_t axis = 2; axis < rank; ++axis) shape.push_back(1);
    TENON_TRY_ASSIGN(ConstantRef weights, float_constant(shape, branch->of_output));
    TENON_TRY_ASSIGN(ConstantRef bias, float_constant(Shape{branch->outputs}, branch->bias));
    const std::string name = rewriter.value(node.outputs[0]).name;
    Node conv = make_internal("Conv", node.name, {node.inputs[0]}, node.outputs);
    conv.inputs.push_back(rewriter.add_constant(name + ":weights", std::move(weights)));
    conv.inputs.push_back(rewriter.add_constant(name + ":bias", std::move(bias)));
    conv.set_int("group", branch->outputs);
    rewriter.replace(i, std::move(conv));
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
