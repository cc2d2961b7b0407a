// Convolutions, pools, and what else maps spatial positions: Resize, DepthToSpace, RoiAlign, GridSample.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/status.h"
#include "ops/shape_inference_window.h"

namespace tenon::infer {
namespace {

// Attributes beyond this are nonsense, and below it no sum or product of a few of them overflows.
constexpr int64_t kMaxAttribute = int64_t{1} << 31;

Status check_attribute(const char* name, std::span<const int64_t> values, size_t expected, int64_t low) {
  TENON_INVALID_IF(values.size() != expected, "Attribute \"{}\" has {} values; this rank needs {}.", name,
                   values.size(), expected);
  for (int64_t value : values)
    TENON_INVALID_IF(value < low || value > kMaxAttribute, "Attribute \"{}\" contains {}; it has to be in {} to {}.",
                     name, value, low, kMaxAttribute);
  return {};
}

Result<std::vector<int64_t>> read_attribute(const Node& node, const char* name, size_t count, int64_t fallback,
                                            int64_t low) {
  if (!node.has(name)) return std::vector<int64_t>(count, fallback);
  std::span<const int64_t> values = node.ints(name);
  TENON_TRY(check_attribute(name, values, count, low));
  return std::vector<int64_t>(values.begin(), values.end());
}

// X [N,C,spatial...] and W [O,C/group,kernel...]; sets Y's dims.
Status infer_conv_of(Context& c, size_t x, size_t w, size_t b) {
  if (!c.ranked(w)) return {};
  const Dims& weights = c.dims(w);
  TENON_INVALID_IF(weights.size() < 3, "The weights have shape {}; a convolution needs rank 3 or more.", text(weights));
  TENON_TRY(c.require_rank(x, static_cast<int>(weights.size()), "X"));
  int64_t group = c.node().int_or("group", 1);
  TENON_INVALID_IF(group < 1, "Attribute \"group\" ({}) has to be positive.", group);
  TENON_INVALID_IF(weights[0].known() && weights[0].value % group != 0,
                   "The {} output channels do not divide into {} groups.", weights[0].value, group);
  if (c.ranked(x)) {
    const Dim& channels = c.dims(x)[1];
    if (channels.known() && weights[1].known()) {
      std::optional<int64_t> wanted = checked_mul(weights[1].value, group);
      TENON_INVALID_IF(!wanted || *wanted != channels.value,
                       "X {} has {} channels, but the weights {} with {} groups need {}.", text(c.dims(x)),
                       channels.value, text(weights), group, wanted.value_or(-1));
    }
  }
  if (c.ranked(b)) {
    TENON_TRY(c.require_rank(b, 1, "bias"));
    const Dim& length = c.dims(b)[0];
    TENON_INVALID_IF(length.known() && weights[0].known() && length.value != weights[0].value,
                     "The bias has {} elements for {} output channels.", length.value, weights[0].value);
  }
  TENON_TRY_ASSIGN(Window window, read_window(c.node(), Dims(weights.begin() + 2, weights.end())));
  Dims out(weights.size());
  out[1] = weights[0];
  if (c.ranked(x)) {
    out[0] = c.dims(x)[0];
    for (size_t i = 2; i < weights.size(); ++i) {
      TENON_TRY_ASSIGN(out[i], window_output(window, i - 2, c.dims(x)[i], false));
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

Status infer_pool(Context& c) {
  c.set_type(0, c.type(0));
  c.set_type(1, DataType::kInt64);
  std::span<const int64_t> kernel = c.node().ints("kernel_shape");
  TENON_INVALID_IF(kernel.empty(), "Attribute \"kernel_shape\" is missing.");
  TENON_TRY(c.require_rank(0, static_cast<int>(kernel.size()) + 2, "X"));
  Dims kernel_dims;
  for (int64_t size : kernel) {
    TENON_INVALID_IF(size < 1, "Attribute \"kernel_shape\" contains {}; it has to be positive.", size);
    kernel_dims.push_back(number(size));
  }
  TENON_TRY_ASSIGN(Window window, read_window(c.node(), kernel_dims));
  for (size_t i = 0; i < window.pads.size(); ++i) {
    // Pooling has no element to take in a window wholly in the padding. ONNX Runtime refuses such pads too.
    const size_t axis = i % kernel.size();
    const int64_t reach = (kernel[axis] - 1) * window.dilations[axis] + 1;
    TENON_INVALID_IF(window.pads[i] >= reach, "In spatial dimension {} the pad {} is not smaller than the kernel ({}).",
                     axis, window.pads[i], reach);
  }
  if (!c.ranked(0)) return {};
  bool ceil_mode = c.node().int_or("ceil_mode", 0) != 0;
  Dims out = c.dims(0);
  for (size_t i = 0; i < kernel.size(); ++i) {
    TENON_TRY_ASSIGN(out[i + 2], window_output(window, i, c.dims(0)[i + 2], ceil_mode));
  }
  TENON_TRY(c.set_dims(1, out));
  return c.set_dims(0, std::move(out));
}

Status infer_global_pool(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  TENON_INVALID_IF(c.rank(0) < 3, "X has shape {}; a global pool needs rank 3 or more.", text(c.dims(0)));
  Dims out = c.dims(0);
  for (size_t i = 2; i < out.size(); ++i) out[i] = number(1);
  return c.set_dims(0, std::move(out));
}

// floor(size * scale) in float32, as ONNX Runtime computes it.
Result<Dim> scaled(const Dim& size, float scale) {
  TENON_INVALID_IF(!(scale > 0) || std::isinf(scale), "The scale {} has to be positive and finite.", scale);
  if (!size.known()) return scale == 1.0f ? size : Dim{};
  float product = static_cast<float>(size.value) * scale;
  TENON_INVALID_IF(product >= 9.0e18f, "The size {} times the scale {} is too large.", size.value, scale);
  return number(static_cast<int64_t>(std::floor(product)));
}

// Sizes for the axes of `axes`, under keep_aspect_ratio_policy.
Status apply_sizes(Context& c, std::span<const int64_t> axes, std::span<const int64_t> sizes, Dims& out) {
  std::string_view policy = c.node().string_or("keep_aspect_ratio_policy", "stretch");
  double scale = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    TENON_INVALID_IF(sizes[i] < 0, "The size {} is negative.", sizes[i]);
    Dim& dim = out[static_cast<size_t>(axes[i])];
    if (policy == "stretch") {
      dim = number(sizes[i]);
      continue;
    }
    if (!dim.known()) scale = -1;
    if (scale < 0 || dim.value == 0) continue;
    double one = static_cast<double>(sizes[i]) / static_cast<double>(dim.value);
    if (scale == 0 || (policy == "not_larger" ? one < scale : one > scale)) scale = one;
  }
  if (policy == "stretch") return {};
  for (int64_t axis : axes) {
    Dim& dim = out[static_cast<size_t>(axis)];
    if (scale < 0) {
      dim = Dim{};
      continue;
    }
    double size = std::floor(static_cast<double>(dim.value) * scale + 0.5);
    TENON_INVALID_IF(size >= 9.0e18, "The resized dimension {} is too large.", size);
    dim = number(static_cast<int64_t>(size));
  }
  return {};
}

Status infer_resize(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  const int64_t rank = c.rank(0);
  const bool has_roi = c.node().op_type == "Resize" && c.version() >= 11;
  const size_t scales_input = has_roi ? 2 : 1;
  std::vector<int64_t> axes;
  for (int64_t axis : c.node().ints("axes")) {
    TENON_TRY_ASSIGN(int64_t normal, c.axis(axis, rank));
    TENON_INVALID_IF(std::find(axes.begin(), axes.end(), normal) != axes.end(), "Axis {} is repeated.", normal);
    axes.push_back(normal);
  }
  if (axes.empty())
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);

  Dims out = c.dims(0);
  bool has_sizes = has_roi && c.has(3) && !(c.in(3).constant && c.in(3).constant->size_bytes == 0);
  if (has_sizes) {
    std::optional<std::vector<int64_t>> sizes = c.values(3);
    if (!sizes) {
      for (int64_t axis : axes) out[static_cast<size_t>(axis)] = Dim{};
      return c.set_dims(0, std::move(out));
    }
    TENON_INVALID_IF(sizes->size() != axes.size(), "There are {} sizes for {} axes.", sizes->size(), axes.size());
    TENON_TRY(apply_sizes(c, axes, *sizes, out));
    return c.set_dims(0, std::move(out));
  }
  std::optional<std::vector<float>> scales = c.floats(scales_input);
  if (!scales) {
    if (std::span<const float> attribute = c.node().find("scales")
                                               ? std::span<const float>(c.node().find("scales")->floats)
                                               : std::span<const float>();
        !attribute.empty())
      scales = std::vector<float>(attribute.begin(), attribute.end());
  }
  if (!scales) {
    for (int64_t axis : axes) out[static_cast<size_t>(axis)] = Dim{};
    return c.set_dims(0, std::move(out));
  }
  TENON_INVALID_IF(scales->size() != axes.size(), "There are {} scales for {} axes.", scales->size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim& dim = out[static_cast<size_t>(axes[i])];
    TENON_TRY_ASSIGN(dim, scaled(dim, (*scales)[i]));
  }
  return c.set_dims(0, std::move(out));
}

Result<Dim> times(const Dim& dim, int64_t factor) {
  if (!dim.known()) return factor == 1 ? dim : Dim{};
  std::optional<int64_t> out = checked_mul(dim.value, factor);
  TENON_INVALID_IF(!out, "{} times {} overflows.", dim.value, factor);
  return number(*out);
}

Result<Dim> divided(const Dim& dim, int64_t divisor, const char* what) {
  if (!dim.known()) return divisor == 1 ? dim : Dim{};
  TENON_INVALID_IF(dim.value % divisor != 0, "{} ({}) is no multiple of {}.", what, dim.value, divisor);
  return number(dim.value / divisor);
}

Result<int64_t> block_size(const Context& c) {
  int64_t block = c.node().int_or("blocksize", 0);
  TENON_INVALID_IF(block < 1 || block > (1 << 15), "Attribute \"blocksize\" ({}) has to be in 1 to 32768.", block);
  return block;
}

Status infer_depth_to_space(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY_ASSIGN(int64_t block, block_size(c));
  TENON_TRY(c.require_rank(0, 4, "X"));
  if (!c.ranked(0)) return {};
  Dims out = c.dims(0);
  TENON_TRY_ASSIGN(out[1], divided(out[1], block * block, "The number of channels"));
  TENON_TRY_ASSIGN(out[2], times(out[2], block));
  TENON_TRY_ASSIGN(out[3], times(out[3], block));
  return c.set_dims(0, std::move(out));
}

Status infer_space_to_depth(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY_ASSIGN(int64_t block, block_size(c));
  TENON_TRY(c.require_rank(0, 4, "X"));
  if (!c.ranked(0)) return {};
  Dims out = c.dims(0);
  TENON_TRY_ASSIGN(out[1], times(out[1], block * block));
  TENON_TRY_ASSIGN(out[2], divided(out[2], block, "The height"));
  TENON_TRY_ASSIGN(out[3], divided(out[3], block, "The width"));
  return c.set_dims(0, std::move(out));
}

Status infer_roi_align(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY(c.require_rank(0, 4, "X"));
  TENON_TRY(c.require_rank(1, 2, "rois"));
  int64_t height = c.node().int_or("output_height", 1), width = c.node().int_or("output_width", 1);
  TENON_INVALID_IF(height < 1 || width < 1, "The output size {} x {} has to be positive.", height, width);
  return c.set_dims(
      0, {c.ranked(1) ? c.dims(1)[0] : Dim{}, c.ranked(0) ? c.dims(0)[1] : Dim{}, number(height), number(width)});
}

Status infer_grid_sample(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || !c.ranked(1)) return {};
  TENON_INVALID_IF(c.rank(0) < 3 || c.rank(1) != c.rank(0), "X {} and the grid {} need the same rank, 3 or more.",
                   text(c.dims(0)), text(c.dims(1)));
  Dims out = c.dims(1);
  out.pop_back();
  out.insert(out.begin() + 1, c.dims(0)[1]);
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {
    {"AveragePool", &infer_pool},
    {"Conv", &infer_conv},
    {"ConvInteger", &infer_conv_integer},
    {"ConvTranspose", &infer_conv_transpose},
    {"DepthToSpace", &infer_depth_to_space},
    {"GlobalAveragePool", &infer_global_pool},
    {"GlobalLpPool", &infer_global_pool},
    {"GlobalMaxPool", &infer_global_pool},
    {"GridSample", &infer_grid_sample},
    {"LpPool", &infer_pool},
    {"MaxPool", &infer_pool},
    {"QLinearConv", &infer_qlinear_conv},
    {"Resize", &infer_resize},
    {"RoiAlign", &infer_roi_align},
    {"SpaceToDepth", &infer_space_to_depth},
    {"Upsample", &infer_resize},
};

}  // namespace

Result<Window> read_window(const Node& node, const Dims& kernel) {
  Window window;
  const size_t n = kernel.size();
  window.kernel = kernel;
  if (node.has("kernel_shape")) {
    std::span<const int64_t> attribute = node.ints("kernel_shape");
    TENON_TRY(check_attribute("kernel_shape", attribute, n, 1));
    for (size_t i = 0; i < n; ++i) {
      TENON_INVALID_IF(kernel[i].known() && kernel[i].value != attribute[i],
                       "Attribute \"kernel_shape\" has {} where the weights have {}.", attribute[i], kernel[i].value);
      window.kernel[i] = number(attribute[i]);
    }
  }
  for (const Dim& size : window.kernel)
    TENON_INVALID_IF(size.value == 0 || size.value > kMaxAttribute, "The kernel {} has to be in 1 to {}.",
                     text(window.kernel), kMaxAttribute);
  TENON_TRY_ASSIGN(window.strides, read_attribute(node, "strides", n, 1, 1));
  TENON_TRY_ASSIGN(window.dilations, read_attribute(node, "dilations", n, 1, 1));
  TENON_TRY_ASSIGN(window.pads, read_attribute(node, "pads", 2 * n, 0, 0));
  std::string_view auto_pad = node.string_or("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    window.same = true;
  } else if (auto_pad == "VALID") {
    std::fill(window.pads.begin(), window.pads.end(), 0);
  } else {
    TENON_INVALID_IF(auto_pad != "NOTSET" && !auto_pad.empty(), "Attribute \"auto_pad\" (\"{}\") is unknown.",
                     auto_pad);
  }
  return window;
}

Result<Dim> window_output(const Window& window, size_t axis, const Dim& input, bool ceil_mode) {
  if (!input.known()) {
    // The common "same" forms keep a symbol.
    if (window.strides[axis] != 1) return Dim{};
    if (window.same) return input;
    if (!window.kernel[axis].known()) return Dim{};
    int64_t grown = window.pads[axis] + window.pads[axis + window.strides.size()];
    return grown == (window.kernel[axis].value - 1) * window.dilations[axis] ? input : Dim{};
  }
  const int64_t stride = window.strides[axis];
  if (window.same) return number(input.value == 0 ? 0 : (input.value - 1) / stride + 1);
  if (!window.kernel[axis].known()) return Dim{};
  const int64_t reach_minus_one = (window.kernel[axis].value - 1) * window.dilations[axis];  // below 2^62
  const int64_t before = window.pads[axis];
  std::optional<int64_t> padded = checked_add(input.value, before + window.pads[axis + window.strides.size()]);
  TENON_INVALID_IF(!padded, "The size {} plus its padding overflows.", input.value);
  TENON_INVALID_IF(
      reach_minus_one >= *padded,
      "In spatial dimension {} the kernel (size {}, dilation {}) is larger than the padded input ({} + {} + {}).", axis,
      window.kernel[axis].value, window.dilations[axis], input.value, before,
      window.pads[axis + window.strides.size()]);
  const int64_t steps = *padded - reach_minus_one - 1;
  int64_t out = steps / stride + 1;
  if (ceil_mode && steps % stride != 0) {
    // A last, partial window counts only if it starts inside the input or its front padding.
    std::optional<int64_t> start = checked_mul(out, stride);
    if (start && *start < input.value + before) ++out;
  }
  return number(out);
}

Status infer_conv(Context& c) {
  c.set_type(0, c.type(0));
  return infer_conv_of(c, 0, 1, 2);
}

Status infer_conv_transpose(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(1)) return {};
  const Dims& weights = c.dims(1);
  TENON_INVALID_IF(weights.size() < 3, "The weights have shape {}; a convolution needs rank 3 or more.", text(weights));
  TENON_TRY(c.require_rank(0, static_cast<int>(weights.size()), "X"));
  const size_t n = weights.size() - 2;
  int64_t group = c.node().int_or("group", 1);
  TENON_INVALID_IF(group < 1, "Attribute \"group\" ({}) has to be positive.", group);
  TENON_INVALID_IF(weights[0].known() && weights[0].value % group != 0,
                   "The {} input channels of the weights do not divide into {} groups.", weights[0].value, group);
  TENON_TRY_ASSIGN(Dim channels_out, times(weights[1], group));
  if (c.ranked(0)) {
    const Dim& channels = c.dims(0)[1];
    TENON_INVALID_IF(channels.known() && weights[0].known() && channels.value != weights[0].value,
                     "X {} has {} channels, but the weights {} need {}.", text(c.dims(0)), channels.value,
                     text(weights), weights[0].value);
    TENON_INVALID_IF(channels.known() && channels.value % group != 0, "The {} channels do not divide into {} groups.",
                     channels.value, group);
  }
  if (c.ranked(2)) {
    TENON_TRY(c.require_rank(2, 1, "bias"));
    const Dim& length = c.dims(2)[0];
    TENON_INVALID_IF(length.known() && channels_out.known() && length.value != channels_out.value,
                     "The bias has {} elements for {} output channels.", length.value, channels_out.value);
  }
  TENON_TRY_ASSIGN(Window window, read_window(c.node(), Dims(weights.begin() + 2, weights.end())));
  TENON_TRY_ASSIGN(std::vector<int64_t> extra, read_attribute(c.node(), "output_padding", n, 0, 0));
  std::span<const int64_t> fixed = c.node().ints("output_shape");
  if (fixed.size() == n + 2) fixed = fixed.subspan(2);  // some exporters give N and C too
  if (!fixed.empty()) TENON_TRY(check_attribute("output_shape", fixed, n, 1));
  Dims out(n + 2);
  out[1] = channels_out;
  if (c.ranked(0)) out[0] = c.dims(0)[0];
  for (size_t i = 0; i < n; ++i) {
    if (!fixed.empty()) {
      out[i + 2] = number(fixed[i]);
      continue;
    }
    if (!c.ranked(0) || !c.dims(0)[i + 2].known()) continue;
    const int64_t in = c.dims(0)[i + 2].value;
    if (window.same) {
      TENON_TRY_ASSIGN(out[i + 2], times(number(in), window.strides[i]));
      continue;
    }
    if (!window.kernel[i].known()) continue;
    std::optional<int64_t> span = checked_mul(in - 1, window.strides[i]);
    std::optional<int64_t> size =
        span ? checked_add(*span, extra[i] + (window.kernel[i].value - 1) * window.dilations[i] + 1) : std::nullopt;
    TENON_INVALID_IF(!size, "The output size in spatial dimension {} overflows.", i);
    *size -= window.pads[i] + window.pads[i + n];
    TENON_INVALID_IF(*size < 1, "In spatial dimension {} the pads ({} + {}) leave an output of {} elements.", i,
                     window.pads[i], window.pads[i + n], *size);
    out[i + 2] = number(*size);
  }
  return c.set_dims(0, std::move(out));
}

std::span<const Row> window_rows() { return kRows; }

}  // namespace tenon::infer
