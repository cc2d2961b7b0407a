#include "ep/cpu/kernels/ref_window.h"

#include <algorithm>

namespace tenon::cpu::ref {

namespace {

// Attributes beyond this could overflow a sum of a few products; no tensor has such an axis.
constexpr int64_t kLargest = int64_t{1} << 31;

Status read(const Node& node, std::string_view name, int64_t fallback, int64_t least, int rank, Strides& values,
            size_t first = 0) {
  const std::span<const int64_t> given = node.ints(name);
  for (int d = 0; d < rank; ++d) {
    const size_t u = static_cast<size_t>(d);
    if (given.empty()) {
      values[u] = fallback;
      continue;
    }
    TENON_INVALID_IF(given.size() < first + static_cast<size_t>(rank), "{} has {} {} for {} spatial axes.",
                     node.op_type, given.size(), name, rank);
    values[u] = given[first + u];
    TENON_INVALID_IF(values[u] < least || values[u] > kLargest, "{} has {} {}; it must be within [{}, {}].",
                     node.op_type, name, values[u], least, kLargest);
  }
  return {};
}

Result<Window> read_window(const Node& node, const Shape& x, const Shape* weights) {
  TENON_INVALID_IF(x.rank() < 2, "{} needs an input of rank 2 or more, not {}.", node.op_type, x.to_string());
  Window window;
  window.rank = x.rank() - 2;
  for (int d = 0; d < window.rank; ++d) window.in[static_cast<size_t>(d)] = x[d + 2];
  if (weights != nullptr) {
    TENON_INVALID_IF(weights->rank() != x.rank(), "{} has X {} and W {} of different rank.", node.op_type,
                     x.to_string(), weights->to_string());
    for (int d = 0; d < window.rank; ++d) window.kernel[static_cast<size_t>(d)] = (*weights)[d + 2];
    const std::span<const int64_t> declared = node.ints("kernel_shape");
    TENON_INVALID_IF(
        !declared.empty() && !std::equal(declared.begin(), declared.end(), weights->begin() + 2, weights->end()),
        "{} declares a kernel_shape that differs from its weights {}.", node.op_type, weights->to_string());
  } else {
    TENON_INVALID_IF(node.ints("kernel_shape").size() != static_cast<size_t>(window.rank),
                     "{} has a kernel_shape of {} axes for X {}.", node.op_type, node.ints("kernel_shape").size(),
                     x.to_string());
    TENON_TRY(read(node, "kernel_shape", 1, 1, window.rank, window.kernel));
  }
  TENON_TRY(read(node, "strides", 1, 1, window.rank, window.stride));
  TENON_TRY(read(node, "dilations", 1, 1, window.rank, window.dilation));
  TENON_TRY(read(node, "pads", 0, 0, window.rank, window.pad));
  TENON_TRY(read(node, "pads", 0, 0, window.rank, window.pad_end, static_cast<size_t>(window.rank)));
  for (int d = 0; d < window.rank; ++d) {
    const auto u = static_cast<size_t>(d);
    TENON_INVALID_IF(window.kernel[u] < 1 || window.kernel[u] > kLargest || window.in[u] > kLargest,
                     "{} has a kernel of {} over an axis of {}.", node.op_type, window.kernel[u], window.in[u]);
  }
  return window;
}

enum class AutoPad : uint8_t { kNotSet, kValid, kSameUpper, kSameLower };

Result<AutoPad> auto_pad_of(const Node& node) {
  const std::string_view text = node.string_or("auto_pad", "NOTSET");
  if (text == "NOTSET" || text.empty()) return AutoPad::kNotSet;
  if (text == "VALID") return AutoPad::kValid;
  if (text == "SAME_UPPER") return AutoPad::kSameUpper;
  if (text == "SAME_LOWER") return AutoPad::kSameLower;
  return invalid_argument("{} has the unknown auto_pad \"{}\".", node.op_type, text);
}

void split_padding(int64_t total, bool more_at_end, int64_t& begin, int64_t& end) {
  begin = more_at_end ? total / 2 : total - total / 2;
  end = total - begin;
}

}  // namespace

Result<Window> forward_window(const Node& node, const Shape& x, const Shape* weights) {
  TENON_TRY_ASSIGN(Window window, read_window(node, x, weights));
  TENON_TRY_ASSIGN(const AutoPad auto_pad, auto_pad_of(node));
  const bool ceil_mode = weights == nullptr && node.int_or("ceil_mode", 0) != 0;
  for (int d = 0; d < window.rank; ++d) {
    const auto u = static_cast<size_t>(d);
    const int64_t extent = (window.kernel[u] - 1) * window.dilation[u] + 1;
    if (auto_pad == AutoPad::kSameUpper || auto_pad == AutoPad::kSameLower) {
      const int64_t out = (window.in[u] + window.stride[u] - 1) / window.stride[u];
      const int64_t total = std::max<int64_t>(0, (out - 1) * window.stride[u] + extent - window.in[u]);
      split_padding(total, auto_pad == AutoPad::kSameUpper, window.pad[u], window.pad_end[u]);
      window.out[u] = out;
      continue;
    }
    if (auto_pad == AutoPad::kValid) window.pad[u] = window.pad_end[u] = 0;
    const int64_t room = window.in[u] + window.pad[u] + window.pad_end[u] - extent;
    TENON_INVALID_IF(room < 0, "{} has a kernel that spans {} over an axis of {} with pads {} and {}.", node.op_type,
                     extent, window.in[u], window.pad[u], window.pad_end[u]);
    window.out[u] = (ceil_mode ? (room + window.stride[u] - 1) / window.stride[u] : room / window.stride[u]) + 1;
    // A window that would begin in the padding at the end is left out.
    if (ceil_mode && (window.out[u] - 1) * window.stride[u] >= window.in[u] + window.pad[u]) --window.out[u];
  }
  return window;
}

Result<Window> transposed_window(const Node& node, const Shape& x, const Shape& weights) {
  TENON_TRY_ASSIGN(Window window, read_window(node, x, &weights));
  TENON_TRY_ASSIGN(const AutoPad auto_pad, auto_pad_of(node));
  Strides output_padding{}, output_shape{};
  TENON_TRY(read(node, "output_padding", 0, 0, window.rank, output_padding));
  // Some exporters give [N, C, spatial...].
  const size_t given = node.ints("output_shape").size();
  const bool has_shape = given != 0;
  TENON_TRY(read(node, "output_shape", 0, 0, window.rank, output_shape,
                 given == static_cast<size_t>(window.rank) + 2 ? 2 : 0));
  for (int d = 0; d < window.rank; ++d) {
    const auto u = static_cast<size_t>(d);
    const int64_t extent = (window.kernel[u] - 1) * window.dilation[u] + 1;
    const int64_t full = window.stride[u] * (window.in[u] - 1) + output_padding[u] + extent;
    const bool same = auto_pad == AutoPad::kSameUpper || auto_pad == AutoPad::kSameLower;
    if (has_shape || same) {
      window.out[u] = has_shape ? output_shape[u] : window.in[u] * window.stride[u];
      split_padding(std::max<int64_t>(0, full - window.out[u]), auto_pad == AutoPad::kSameUpper, window.pad[u],
                    window.pad_end[u]);
      continue;
    }
    if (auto_pad == AutoPad::kValid) window.pad[u] = window.pad_end[u] = 0;
    window.out[u] = full - window.pad[u] - window.pad_end[u];
    TENON_INVALID_IF(window.out[u] < 0, "{} has pads {} and {} larger than the {} that it computes.", node.op_type,
                     window.pad[u], window.pad_end[u], full);
  }
  return window;
}

Shape window_output(const Window& window, int64_t n, int64_t c) {
  Shape shape{n, c};
  for (int d = 0; d < window.rank; ++d) shape.push_back(window.out[static_cast<size_t>(d)]);
  return shape;
}

}  // namespace tenon::cpu::ref
