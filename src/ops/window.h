// Windows that slide over the spatial axes: what convolutions and pools share. kernel_shape, strides, dilations, pads,
// auto_pad and ceil_mode (ONNX opset 1 and later) are read here and nowhere else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace tenon {

// The size of a dimension that shape inference does not know.
inline constexpr int64_t kUnknownSize = -1;

// One spatial axis, in elements. Output o reads the inputs o * stride - pad_begin + k * dilation, k < kernel. Of a
// transposed convolution, input i adds to the outputs i * stride - pad_begin + k * dilation.
struct WindowAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
  bool counts_whole = false;  // padded_taps() of a kernel larger than what it slides over, which is cut, are all

  // Elements from the first tap to the last.
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  // Taps of an output by which an average that counts padding is divided: elements and padding, of which windows that
  // reach beyond them (ceil_mode, kernels that are cut) have fewer.
  int64_t padded_taps(int64_t output) const {
    const int64_t padded = in + pad_begin + pad_end, room = padded - output * stride;
    return counts_whole && reach() > padded ? kernel : std::min(kernel, (room + dilation - 1) / dilation);
  }
};

enum class AutoPad : uint8_t { kNotSet, kValid, kSameUpper, kSameLower };

struct Window {
  std::vector<WindowAxis> axes;
  AutoPad auto_pad = AutoPad::kNotSet;
  bool ceil_mode = false;

  bool same() const { return auto_pad == AutoPad::kSameUpper || auto_pad == AutoPad::kSameLower; }
  int rank() const { return static_cast<int>(axes.size()); }
  // Positions of the input, of the output and of the kernel. All sizes have to be known.
  int64_t in_count() const { return count(&WindowAxis::in); }
  int64_t out_count() const { return count(&WindowAxis::out); }
  int64_t kernel_count() const { return count(&WindowAxis::kernel); }
  // The output along `axis` for certain has the size of the input, also where neither is known.
  bool keeps_size(size_t axis) const;

 private:
  int64_t count(int64_t WindowAxis::* size) const;
};

// The attributes of a node for windows over `in.size()` axes; `in` and `kernel` may hold kUnknownSize. `kernel` is the
// spatial shape of the weights; the attribute kernel_shape, where it is stated, has to agree. The axes have their
// inputs and kernels; pads are those of the attribute (0 for auto_pad VALID), outputs are unknown. Errors: a list whose
// length does not fit, values below their least or beyond 2^31, an unknown auto_pad.
Result<Window> read_window(const Node& node, std::span<const int64_t> in, std::span<const int64_t> kernel);

// Whether a kernel may be larger than the padded input.
enum class LargeKernel : uint8_t {
  kError,
  // As ONNX Runtime's pools: one window, which is cut, where the kernel is larger by less than a stride, none where it
  // is larger by less than two, and an error beyond.
  kCut
};
// Sets the outputs, and the pads of auto_pad SAME, of a window that slides forward, as far as sizes are known.
// Errors: the kernel is too large for the padded input.
Status slide(Window& window, LargeKernel large = LargeKernel::kError);

// Distributes `total` elements of padding: the odd one lies at the end for SAME_UPPER, at the beginning otherwise.
void distribute_padding(int64_t total, AutoPad auto_pad, WindowAxis& axis);

// A list attribute with an entry for each axis, or one value for all axes where it is left out. Borrows the node.
struct AxisValues {
  std::span<const int64_t> stated = {};
  int64_t fallback = 0;
  int64_t operator[](size_t axis) const { return stated.empty() ? fallback : stated[axis]; }
};

// Errors: another length than `count`; entries below `least` or beyond 2^31.
Result<AxisValues> read_axis_values(const Node& node, std::string_view name, size_t count, int64_t fallback,
                                    int64_t least);

}  // namespace tenon
