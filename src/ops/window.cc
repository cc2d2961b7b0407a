#include "ops/window.h"

#include <algorithm>

#include "base/checked.h"
#include "base/status.h"
#include "ops/attributes.h"

namespace tenon {

namespace {

// Attributes beyond this are nonsense, and below it no sum or product of a few of them overflows.
constexpr int64_t kMaxAttribute = int64_t{1} << 31;

Result<AutoPad> read_auto_pad(const Attributes& attributes) {
  const std::string_view text = attributes.text("auto_pad");
  // ONNX Runtime takes an empty text for NOTSET.
  if (text == "NOTSET" || text.empty()) return AutoPad::kNotSet;
  if (text == "VALID") return AutoPad::kValid;
  if (text == "SAME_UPPER") return AutoPad::kSameUpper;
  if (text == "SAME_LOWER") return AutoPad::kSameLower;
  return invalid_argument("Attribute \"auto_pad\" (\"{}\") is unknown.", text);
}

bool known(int64_t size) { return size != kUnknownSize; }

}  // namespace

int64_t Window::count(int64_t WindowAxis::* size) const {
  int64_t product = 1;
  for (const WindowAxis& axis : axes) product *= axis.*size;
  return product;
}

bool Window::keeps_size(size_t axis) const {
  const WindowAxis& one = axes[axis];
  if (one.stride != 1) return false;
  return same() || (known(one.kernel) && one.pad_begin + one.pad_end == one.reach() - 1);
}

Result<AxisValues> read_axis_values(const Node& node, std::string_view name, size_t count, int64_t fallback,
                                    int64_t least) {
  const Attributes attributes(node);
  if (!attributes.has(name)) return AxisValues{.fallback = fallback};
  const std::span<const int64_t> values = attributes.integers(name);
  TENON_INVALID_IF(values.size() != count, "Attribute \"{}\" has {} values; this rank needs {}.", name, values.size(),
                   count);
  for (int64_t value : values)
    TENON_INVALID_IF(value < least || value > kMaxAttribute, "Attribute \"{}\" contains {}; it has to be in {} to {}.",
                     name, value, least, kMaxAttribute);
  return AxisValues{values, fallback};
}

Result<Window> read_window(const Node& node, std::span<const int64_t> in, std::span<const int64_t> kernel) {
  const Attributes attributes(node);
  const size_t rank = kernel.size();
  Window window;
  window.axes.reserve(rank);
  TENON_TRY_ASSIGN(window.auto_pad, read_auto_pad(attributes));
  TENON_TRY_ASSIGN(const AxisValues stated, read_axis_values(node, "kernel_shape", rank, kUnknownSize, 1));
  TENON_TRY_ASSIGN(const AxisValues strides, read_axis_values(node, "strides", rank, 1, 1));
  TENON_TRY_ASSIGN(const AxisValues dilations, read_axis_values(node, "dilations", rank, 1, 1));
  TENON_TRY_ASSIGN(const AxisValues pads, read_axis_values(node, "pads", 2 * rank, 0, 0));
  for (size_t i = 0; i < rank; ++i) {
    WindowAxis axis{.in = in[i],
                    .out = kUnknownSize,
                    .kernel = known(stated[i]) ? stated[i] : kernel[i],
                    .stride = strides[i],
                    .dilation = dilations[i]};
    TENON_INVALID_IF(known(kernel[i]) && kernel[i] != axis.kernel,
                     "Attribute \"kernel_shape\" has {} where the weights have {}.", axis.kernel, kernel[i]);
    TENON_INVALID_IF(axis.kernel == 0 || axis.kernel > kMaxAttribute,
                     "The kernel's size {} in spatial dimension {} has to be in 1 to {}.", axis.kernel, i,
                     kMaxAttribute);
    if (window.auto_pad == AutoPad::kNotSet) {
      axis.pad_begin = pads[i];
      axis.pad_end = pads[i + rank];
    }
    window.axes.push_back(axis);
  }
  return window;
}

void distribute_padding(int64_t total, AutoPad auto_pad, WindowAxis& axis) {
  axis.pad_begin = auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
  axis.pad_end = total - axis.pad_begin;
}

Status slide(Window& window, LargeKernel large) {
  for (size_t i = 0; i < window.axes.size(); ++i) {
    WindowAxis& axis = window.axes[i];
    if (!known(axis.in)) continue;
    if (window.same()) {
      axis.out = axis.in == 0 ? 0 : (axis.in - 1) / axis.stride + 1;
      if (known(axis.kernel))
        // In this order nothing overflows.
        distribute_padding(std::max<int64_t>(0, (axis.out - 1) * axis.stride - axis.in + axis.reach()), window.auto_pad,
                           axis);
      continue;
    }
    if (!known(axis.kernel)) continue;
    const int64_t before = axis.pad_begin, reach = axis.reach();  // below 2^62
    const std::optional<int64_t> padded = checked_add(axis.in, before + axis.pad_end);
    TENON_INVALID_IF(!padded, "The size {} plus its padding overflows.", axis.in);
    const bool cut = large == LargeKernel::kCut && reach > *padded && reach - *padded < 2 * axis.stride;
    TENON_INVALID_IF(reach > *padded && !cut,
                     "In spatial dimension {} the kernel (size {}, dilation {}) is larger than the padded input ({} + "
                     "{} + {}).",
                     i, axis.kernel, axis.dilation, axis.in, before, axis.pad_end);
    const int64_t steps = *padded - reach;
    axis.out = steps / axis.stride + 1;
    if (!cut && window.ceil_mode && steps % axis.stride != 0) {
      // A last, partial window counts only if it starts inside the input or its front padding.
      const std::optional<int64_t> start = checked_mul(axis.out, axis.stride);
      if (start && *start < axis.in + before) ++axis.out;
    }
  }
  return {};
}

}  // namespace tenon
