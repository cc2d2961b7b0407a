#include "ep/cpu/kernels/conv_shape.h"

#include <limits>
#include <string_view>

#include "ops/activation_formula.h"
#include "ops/unary.h"

namespace tenon::cpu {

TapRange taps_of(const WindowAxis& axis, int64_t out) {
  const int64_t start = out * axis.stride - axis.pad_begin;
  const int64_t first = start < 0 ? (-start + axis.dilation - 1) / axis.dilation : 0;
  const int64_t end =
      start >= axis.in ? 0 : std::min(axis.kernel, (axis.in - start + axis.dilation - 1) / axis.dilation);
  return first < end ? TapRange{first, end - first} : TapRange{0, 0};
}

OutputRange interior_of(const WindowAxis& axis) {
  if (axis.kernel == 0) return {};
  const int64_t begin = std::clamp<int64_t>((axis.pad_begin + axis.stride - 1) / axis.stride, 0, axis.out);
  const int64_t last = axis.in - 1 - (axis.kernel - 1) * axis.dilation + axis.pad_begin;
  const int64_t end = last < 0 ? 0 : std::min(axis.out, last / axis.stride + 1);
  return {begin, std::max(begin, end)};
}

namespace {

int64_t at(std::span<const int64_t> values, size_t index, int64_t fallback) {
  return index < values.size() ? values[index] : fallback;
}

// Fills stride, dilation and pads of `spatial` axes from the node's attributes; in, out and kernel are set already.
Status resolve_axes(const Node& node, WindowAxis* axes, size_t spatial) {
  const auto strides = node.ints("strides"), dilations = node.ints("dilations"), pads = node.ints("pads");
  const std::string_view auto_pad = node.string_or("auto_pad", "NOTSET");
  for (size_t i = 0; i < spatial; ++i) {
    WindowAxis& axis = axes[i];
    axis.stride = at(strides, i, 1);
    axis.dilation = at(dilations, i, 1);
    TENON_INVALID_IF(axis.stride <= 0 || axis.dilation <= 0, "Stride ({}) and dilation ({}) must be positive.",
                     axis.stride, axis.dilation);
    // Sizes up to these keep every product of offsets far from overflow.
    TENON_UNSUPPORTED_IF(axis.stride > kMostStride || axis.dilation > kMostStride || axis.kernel > kMostPad,
                         "Stride {}, dilation {} or kernel {} is beyond {}, {} and {}.", axis.stride, axis.dilation,
                         axis.kernel, kMostStride, kMostStride, kMostPad);
    const int64_t reach = (axis.kernel - 1) * axis.dilation + 1;
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      const int64_t total = std::max<int64_t>(0, (axis.out - 1) * axis.stride + reach - axis.in);
      axis.pad_begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      axis.pad_end = total - axis.pad_begin;
    } else if (auto_pad == "NOTSET") {
      axis.pad_begin = at(pads, i, 0);
      axis.pad_end = at(pads, i + spatial, 0);
      TENON_UNSUPPORTED_IF(axis.pad_begin > kMostPad || axis.pad_end > kMostPad, "Pads ({}, {}) are beyond {}.",
                           axis.pad_begin, axis.pad_end, kMostPad);
      TENON_UNSUPPORTED_IF(axis.pad_begin < 0 || axis.pad_end < 0, "Negative pads ({}, {}) need the reference kernel.",
                           axis.pad_begin, axis.pad_end);
    }
  }
  return {};
}

// The kernels split their work by these sizes, so none of them may be 0.
Status refuse_empty(const ConvShape& shape) {
  const WindowAxis &h = shape.h, &w = shape.w;
  TENON_UNSUPPORTED_IF(shape.batch == 0 || h.in == 0 || w.in == 0 || h.out == 0 || w.out == 0,
                       "{} images of {}x{} to {}x{} need the reference kernel: a size is 0.", shape.batch, h.in, w.in,
                       h.out, w.out);
  return {};
}

// A column of pixels lies in memory like a row, and rows are what the kernels are fast at.
void lay_along_w(ConvShape& shape) {
  const WindowAxis& w = shape.w;
  if (w.in == 1 && w.out == 1 && w.kernel == 1 && w.pad_begin == 0) std::swap(shape.h, shape.w);
}

}  // namespace

Result<ConvShape> conv_shape(const KernelNode& node) {
  const TensorSpec &x = node.inputs[0], &w = node.inputs[1], &y = node.outputs[0];
  TENON_UNSUPPORTED_IF(x.type != DataType::kFloat || w.type != DataType::kFloat,
                       "Only float32 is served, not {} and {}.", data_type_name(x.type), data_type_name(w.type));
  const int rank = x.shape.rank();
  TENON_UNSUPPORTED_IF(rank != 3 && rank != 4, "Rank {} is not 3 or 4.", rank);
  TENON_INVALID_IF(w.shape.rank() != rank || y.shape.rank() != rank,
                   "Weights {} and output {} have another rank than {}.", w.shape.to_string(), y.shape.to_string(),
                   x.shape.to_string());
  ConvShape shape;
  shape.batch = x.shape[0];
  shape.channels = x.shape[1];
  shape.outputs = w.shape[0];
  shape.group = node.node->int_or("group", 1);
  TENON_INVALID_IF(shape.group <= 0 || shape.channels != w.shape[1] * shape.group || shape.outputs % shape.group != 0,
                   "{} groups of {} input channels do not fit input {} and weights {}.", shape.group, w.shape[1],
                   x.shape.to_string(), w.shape.to_string());
  WindowAxis axes[2];
  const size_t spatial = static_cast<size_t>(rank - 2);
  for (size_t i = 0; i < spatial; ++i) {
    const int dim = static_cast<int>(i) + 2;
    axes[i].in = x.shape[dim];
    axes[i].out = y.shape[dim];
    axes[i].kernel = w.shape[dim];
  }
  TENON_TRY(resolve_axes(*node.node, axes, spatial));
  shape.h = spatial == 2 ? axes[0] : WindowAxis{};
  shape.w = spatial == 2 ? axes[1] : axes[0];
  TENON_TRY(refuse_empty(shape));
  lay_along_w(shape);
  return shape;
}

Result<ConvShape> pool_shape(const KernelNode& node) {
  const TensorSpec &x = node.inputs[0], &y = node.outputs[0];
  TENON_UNSUPPORTED_IF(x.type != DataType::kFloat, "Only float32 is served, not {}.", data_type_name(x.type));
  const int rank = x.shape.rank();
  TENON_UNSUPPORTED_IF(rank != 3 && rank != 4, "Rank {} is not 3 or 4.", rank);
  const auto kernel = node.node->ints("kernel_shape");
  const size_t spatial = static_cast<size_t>(rank - 2);
  TENON_INVALID_IF(kernel.size() != spatial || y.shape.rank() != rank, "kernel_shape has {} values for input {}.",
                   kernel.size(), x.shape.to_string());
  ConvShape shape;
  shape.batch = x.shape[0];
  shape.channels = shape.outputs = shape.group = x.shape[1];
  WindowAxis axes[2];
  for (size_t i = 0; i < spatial; ++i) {
    const int dim = static_cast<int>(i) + 2;
    axes[i].in = x.shape[dim];
    axes[i].out = y.shape[dim];
    axes[i].kernel = kernel[i];
    TENON_INVALID_IF(kernel[i] <= 0, "Kernel size {} must be positive.", kernel[i]);
  }
  TENON_TRY(resolve_axes(*node.node, axes, spatial));
  shape.h = spatial == 2 ? axes[0] : WindowAxis{};
  shape.w = spatial == 2 ? axes[1] : axes[0];
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
