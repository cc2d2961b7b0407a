#include "ops/conv.h"

#include <utility>

#include "base/checked.h"
#include "base/status.h"
#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

using infer::Context;
using infer::Dims;

bool known(int64_t size) { return size != kUnknownSize; }

std::string text(std::span<const int64_t> sizes) {
  Dims dims;
  for (int64_t size : sizes) dims.push_back(infer::number(size));
  return infer::text(dims);
}

Result<int64_t> times(int64_t size, int64_t factor) {
  if (!known(size)) return factor == 1 ? size : kUnknownSize;
  const std::optional<int64_t> product = checked_mul(size, factor);
  TENON_INVALID_IF(!product, "{} times {} overflows.", size, factor);
  return *product;
}

// Outputs and pads of a transposed window, as ONNX Runtime resolves them: output_shape sets the pads, and so does
// auto_pad SAME, which makes outputs of `in` times `stride` elements.
Status slide_transposed(const Node& node, Window& window) {
  const size_t rank = window.axes.size();
  TENON_TRY_ASSIGN(const AxisValues extra, read_axis_values(node, "output_padding", rank, 0, 0));
  // Some exporters state N and C too.
  const size_t stated = Attributes(node).integers("output_shape").size();
  const size_t skipped = stated == rank + 2 ? 2 : 0;
  TENON_TRY_ASSIGN(const AxisValues shape, read_axis_values(node, "output_shape", rank + skipped, kUnknownSize, 1));
  for (size_t i = 0; i < rank; ++i) {
    WindowAxis& axis = window.axes[i];
    if (known(shape[i + skipped])) {
      axis.out = shape[i + skipped];
    } else if (window.same()) {
      TENON_TRY_ASSIGN(axis.out, times(axis.in, axis.stride));
    }
    if (!known(axis.in) || !known(axis.kernel)) continue;
    const std::optional<int64_t> span = checked_mul(axis.in - 1, axis.stride);
    const std::optional<int64_t> full = span ? checked_add(*span, extra[i] + axis.reach()) : std::nullopt;
    TENON_INVALID_IF(!full, "The output size in spatial dimension {} overflows.", i);
    if (known(axis.out)) {
      distribute_padding(std::max<int64_t>(0, *full - axis.out), window.auto_pad, axis);
      continue;
    }
    axis.out = *full - axis.pad_begin - axis.pad_end;
    TENON_INVALID_IF(axis.out < 1, "In spatial dimension {} the pads ({} + {}) leave an output of {} elements.", i,
                     axis.pad_begin, axis.pad_end, axis.out);
  }
  return {};
}

}  // namespace

Shape ConvDesc::output() const {
  Shape shape{batch, outputs};
  for (const WindowAxis& axis : window.axes) shape.push_back(axis.out);
  return shape;
}

Result<int64_t> read_conv_group(const Node& node) {
  const int64_t group = Attributes(node).integer("group");
  TENON_INVALID_IF(group < 1, "Attribute \"group\" ({}) has to be positive.", group);
  return group;
}

Result<ConvDesc> read_conv(const Node& node, std::span<const int64_t> x, std::span<const int64_t> weights) {
  TENON_INVALID_IF(weights.size() < 3, "The weights have shape {}; a convolution needs rank 3 or more.", text(weights));
  TENON_INVALID_IF(x.size() != weights.size(), "X {} and the weights {} differ in rank.", text(x), text(weights));
  TENON_UNSUPPORTED_IF(node.domain == kContribDomain && Attributes(node).flag("channels_last"),
                       "{} with channels last is not computed.", node.op_type);
  ConvDesc conv{.transposed = node.op_type == "ConvTranspose", .batch = x[0], .channels = x[1]};
  TENON_TRY_ASSIGN(conv.group, read_conv_group(node));
  TENON_INVALID_IF(known(weights[0]) && weights[0] % conv.group != 0,
                   "The {} {} channels of the weights do not divide into {} groups.", weights[0],
                   conv.transposed ? "input" : "output", conv.group);
  int64_t wanted = weights[0];
  if (conv.transposed) {
    TENON_TRY_ASSIGN(conv.outputs, times(weights[1], conv.group));
  } else {
    conv.outputs = weights[0];
    TENON_TRY_ASSIGN(wanted, times(weights[1], conv.group));
  }
  TENON_INVALID_IF(known(x[1]) && known(wanted) && x[1] != wanted,
                   "X {} has {} channels, but the weights {} with {} groups need {}.", text(x), x[1], text(weights),
                   conv.group, wanted);
  TENON_INVALID_IF(known(x[1]) && x[1] % conv.group != 0, "The {} channels do not divide into {} groups.", x[1],
                   conv.group);
  TENON_TRY_ASSIGN(conv.window, read_window(node, x.subspan(2), weights.subspan(2)));
  TENON_TRY(conv.transposed ? slide_transposed(node, conv.window) : slide(conv.window));
  return conv;
}

namespace infer {

namespace {

// Sets Y's dims from X, the weights and the bias, which are these inputs of the node.
Status infer_conv_of(Context& c, size_t x, size_t w, size_t b) {
  if (!c.ranked(w)) return {};
  const Dims& weights = c.dims(w);
  TENON_TRY(c.require_rank(x, c.rank(w), "X"));
  const auto sizes = [](const Dims& dims) {
    std::vector<int64_t> values;
    for (const Dim& dim : dims) values.push_back(dim.value);
    return values;
  };
  const Dims input = c.ranked(x) ? c.dims(x) : Dims(weights.size());
  TENON_TRY_ASSIGN(const ConvDesc conv, read_conv(c.node(), sizes(input), sizes(weights)));
  if (c.ranked(b)) {
    TENON_TRY(c.require_rank(b, 1, "bias"));
    const Dim& length = c.dims(b)[0];
    TENON_INVALID_IF(length.known() && known(conv.outputs) && length.value != conv.outputs,
                     "The bias has {} elements for {} output channels.", length.value, conv.outputs);
  }
  Dims out = input;
  if (known(conv.outputs)) {
    out[1] = number(conv.outputs);
  } else {
    out[1] = conv.transposed && conv.group != 1 ? Dim{} : weights[conv.transposed ? 1 : 0];
  }
  for (int i = 0; i < conv.spatial(); ++i) {
    if (known(conv.axis(i).out)) {
      out[i + 2] = number(conv.axis(i).out);
    } else if (conv.transposed || !conv.window.keeps_size(i)) {
      out[i + 2] = Dim{};
    }
  }
  return c.set_dims(0, std::move(out));
}

Status infer_conv_integer(Context& c) {
  c.set_type(0, DataType::kInt32);
  return infer_conv_of(c, 0, 1, SIZE_MAX);
}

Status infer_qlinear_conv(Context& c) {
  c.set_type(0, c.type(7));
  return infer_conv_of(c, 0, 3, 8);
}

constexpr Row kRows[] = {
    {"Conv", &infer_conv},
    {"ConvInteger", &infer_conv_integer},
    {"ConvTranspose", &infer_conv},
    {"QLinearConv", &infer_qlinear_conv},
};

}  // namespace

Status infer_conv(Context& c) {
  if (c.node().op_type == "QuantizedConv") {
    const DataType otherwise = c.has(6) ? DataType::kUint8 : DataType::kFloat;
    c.set_type(0, c.has(7) ? c.type(7) : otherwise);
    return infer_conv_of(c, 0, 3, 8);
  }
  c.set_type(0, c.type(0));
  return infer_conv_of(c, 0, 1, 2);
}

std::span<const Row> conv_rows() { return kRows; }

namespace {

// With channels at the end: when it has become the other form (plan/expand.h).
Status infer_contrib_conv(Context& c) {
  if (!Attributes(c.node()).flag("channels_last")) return infer_qlinear_conv(c);
  c.set_type(0, c.type(7));
  return {};
}

constexpr Row kContribRows[] = {{"QLinearConv", &infer_contrib_conv}};

}  // namespace

std::span<const Row> contrib_conv_rows() { return kContribRows; }

}  // namespace infer

}  // namespace tenon
