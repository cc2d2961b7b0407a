#include "ep/cpu/ops/conv/shape.h"

#include <limits>
#include <string_view>

#include "ops/activation_formula.h"
#include "ops/conv.h"
#include "ops/unary.h"

namespace tenon::cpu {

TapRange taps_of(const WindowAxis& axis, int64_t out) {
  const int64_t start = out * axis.stride - axis.pad_begin;
  const int64_t first = start < 0 ? (-start + axis.dilation - 1) / axis.dilation : 0;
  const int64_t end =
      start >= axis.in ? 0 : std::min(axis.kernel, (axis.in - start + axis.dilation - 1) / axis.dilation);
  return first < end ? TapRange{first, end - first} : TapRange{0, 0};
}

OutputRange outputs_of(const WindowAxis& axis, int64_t tap) {
  const int64_t start = axis.pad_begin - tap * axis.dilation;  // of the outputs, times the stride
  const int64_t begin = start > 0 ? (start + axis.stride - 1) / axis.stride : 0;
  const int64_t last = start + axis.in - 1;
  const int64_t end = last < 0 ? 0 : std::min(axis.out, last / axis.stride + 1);
  return {std::min(begin, axis.out), std::max(std::min(begin, axis.out), end)};
}

OutputRange interior_of(const WindowAxis& axis) {
  if (axis.kernel == 0) return {};
  const int64_t begin = std::clamp<int64_t>((axis.pad_begin + axis.stride - 1) / axis.stride, 0, axis.out);
  const int64_t last = axis.in - 1 - (axis.kernel - 1) * axis.dilation + axis.pad_begin;
  const int64_t end = last < 0 ? 0 : std::min(axis.out, last / axis.stride + 1);
  return {begin, std::max(begin, end)};
}

namespace {

// The window of up to three axes as d, h and w. Sizes up to the limits keep every product of offsets far from overflow.
Status set_axes(const Window& window, ConvShape& shape) {
  for (const WindowAxis& axis : window.axes) {
    TENON_UNSUPPORTED_IF(axis.stride > kMostStride || axis.dilation > kMostStride || axis.kernel > kMostPad,
                         "Stride {}, dilation {} or kernel {} is beyond {}, {} and {}.", axis.stride, axis.dilation,
                         axis.kernel, kMostStride, kMostStride, kMostPad);
    TENON_UNSUPPORTED_IF(axis.pad_begin > kMostPad || axis.pad_end > kMostPad, "Pads ({}, {}) are beyond {}.",
                         axis.pad_begin, axis.pad_end, kMostPad);
  }
  const size_t rank = window.axes.size();
  shape.d = rank > 2 ? window.axes[rank - 3] : WindowAxis{};
  shape.h = rank > 1 ? window.axes[rank - 2] : WindowAxis{};
  shape.w = window.axes.back();
  return {};
}

// The kernels split their work by these sizes, so none of them may be 0.
Status refuse_empty(const ConvShape& shape) {
  TENON_UNSUPPORTED_IF(shape.batch == 0 || shape.in_pixels() == 0 || shape.out_pixels() == 0,
                       "{} images of {} to {} pixels need the reference kernel: a size is 0.", shape.batch,
                       shape.in_pixels(), shape.out_pixels());
  return {};
}

// A column of pixels lies in memory like a row, and so does one along the depth; rows are what the kernels are fast at.
void lay_along_w(ConvShape& shape) {
  const auto is_single = [](const WindowAxis& axis) {
    return axis.in == 1 && axis.out == 1 && axis.kernel == 1 && axis.pad_begin == 0;
  };
  if (is_single(shape.w)) std::swap(shape.h, shape.w);
  if (is_single(shape.w)) std::swap(shape.d, shape.w);
}

Result<ConvDesc> read_float_conv(const KernelNode& node, int most_spatial) {
  const TensorSpec &x = node.inputs[0], &w = node.inputs[1], &y = node.outputs[0];
  TENON_UNSUPPORTED_IF(x.type != DataType::kFloat || w.type != DataType::kFloat,
                       "Only float32 is served, not {} and {}.", data_type_name(x.type), data_type_name(w.type));
  TENON_UNSUPPORTED_IF(x.shape.rank() < 3 || x.shape.rank() > 2 + most_spatial, "Rank {} is not 3 to {}.",
                       x.shape.rank(), 2 + most_spatial);
  TENON_TRY_ASSIGN(ConvDesc conv, read_conv(*node.node, x.shape, w.shape));
  TENON_INVALID_IF(!(conv.output() == y.shape), "The output is {}, not {}.", conv.output().to_string(),
                   y.shape.to_string());
  return conv;
}

}  // namespace

Result<ConvShape> conv_shape(const KernelNode& node, int most_spatial) {
  TENON_TRY_ASSIGN(const ConvDesc conv, read_float_conv(node, most_spatial));
  ConvShape shape{.batch = conv.batch, .channels = conv.channels, .outputs = conv.outputs, .group = conv.group};
  TENON_TRY(set_axes(conv.window, shape));
  TENON_TRY(refuse_empty(shape));
  lay_along_w(shape);
  return shape;
}

Result<ConvShape> transpose_shape(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ConvDesc conv, read_float_conv(node, 2));
  TENON_UNSUPPORTED_IF(conv.spatial() != 2, "{} spatial dimensions are not 2.", conv.spatial());
  TENON_UNSUPPORTED_IF(conv.group != 1, "There are {} groups.", conv.group);
  for (const WindowAxis& axis : conv.window.axes)
    TENON_UNSUPPORTED_IF(axis.dilation != 1, "Dilation {} is not 1.", axis.dilation);
  ConvShape shape{.batch = conv.batch, .channels = conv.channels, .outputs = conv.outputs};
  TENON_UNSUPPORTED_IF(conv.channels == 0 || conv.outputs == 0, "There are no channels.");
  TENON_TRY(set_axes(conv.window, shape));
  TENON_TRY(refuse_empty(shape));
  return shape;
}

Result<ConvShape> pool_shape(const TensorSpec& x, const PoolDesc& pool) {
  TENON_UNSUPPORTED_IF(x.type != DataType::kFloat, "Only float32 is served, not {}.", data_type_name(x.type));
  TENON_UNSUPPORTED_IF(pool.spatial() > 2, "{} spatial dimensions are not 1 or 2.", pool.spatial());
  ConvShape shape{.batch = pool.batch, .channels = pool.channels, .outputs = pool.channels, .group = pool.channels};
  TENON_TRY(set_axes(pool.window, shape));
  TENON_TRY(refuse_empty(shape));
  return shape;
}

bool is_clamp(const Epilogue& epilogue) {
  return epilogue.activation == Activation::kNone || epilogue.activation == Activation::kRelu ||
         epilogue.activation == Activation::kClip;
}

float clamp_low(const Epilogue& epilogue) {
  if (epilogue.activation == Activation::kRelu) return 0;
  return epilogue.activation == Activation::kClip ? epilogue.alpha : -std::numeric_limits<float>::infinity();
}

float clamp_high(const Epilogue& epilogue) {
  return epilogue.activation == Activation::kClip ? epilogue.beta : std::numeric_limits<float>::infinity();
}

bool keeps_zero(const Epilogue& epilogue) { return evaluate(epilogue, 0) == 0; }

Result<Epilogue> activation_of(const KernelNode& node) {
  const std::string& op = node.node->op_type;
  TENON_UNSUPPORTED_IF(!is_unary(*node.node), "{} is not an activation of one input.", op);
  TENON_TRY_ASSIGN(const UnaryDesc unary, read_unary(*node.node));
  TENON_UNSUPPORTED_IF(static_cast<int>(unary.function) >= kActivationCount, "{} is not an activation of one input.",
                       op);
  Epilogue epilogue{.activation = static_cast<Activation>(unary.function),
                    .alpha = static_cast<float>(unary.alpha),
                    .beta = static_cast<float>(unary.beta)};
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].present()) continue;
    TENON_UNSUPPORTED_IF(i >= node.constants.size() || node.constants[i] == nullptr ||
                             node.constants[i]->type != DataType::kFloat || node.constants[i]->as<float>().empty(),
                         "Limit {} is not a constant.", i);
    (i == 1 ? epilogue.alpha : epilogue.beta) = node.constants[i]->as<float>()[0];
  }
  return epilogue;
}

}  // namespace tenon::cpu
