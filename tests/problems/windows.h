// Sliding windows for the oracles of convolutions and pooling: plain loops over any number of axes.
#pragma once

#include <string>

#include "problems/array.h"
#include "problems/case.h"
#include "problems/problem.h"

namespace tenon::problems {

// One spatial axis: output o and tap k read input o * stride + k * dilation - before.
struct WindowAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;
};

struct Window {
  std::vector<WindowAxis> axes;
  Dims input, output, kernel;           // sizes of the spatial axes
  std::vector<std::string> attributes;  // strides, dilations, pads, auto_pad as the line gives them
};

// From the sizes (d), h, w, k, s, dil, p of a line. A size with one number counts for all axes; p has one number, one
// for each axis, or all the beginnings and then all the ends, as ONNX has them. `auto_pad=` takes the place of p.
// Errors: kInvalidArgument for lists of other lengths and for windows that do not fit.
Result<Window> read_window(const Problem& problem, bool ceil_mode = false);
// The spatial sizes that the line names: {d, h, w}, {h, w} or {w}.
Dims spatial_sizes(const Problem& problem);
// `values` for each of `axes` axes.
Result<Dims> for_axes(const Problem& problem, std::string_view name, size_t axes, int64_t otherwise);

// Calls f(input offset, kernel offset) for each tap of the window at the output index that lies inside.
template <typename F>
void each_tap(const Window& window, const std::vector<int64_t>& at, F&& f) {
  const int64_t taps = product(window.kernel);
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t rest = tap, input = 0, stride = 1;
    bool inside = true;
    for (size_t a = window.axes.size(); a-- > 0;) {
      const WindowAxis& axis = window.axes[a];
      const int64_t k = rest % axis.kernel;
      rest /= axis.kernel;
      const int64_t place = at[a] * axis.stride + k * axis.dilation - axis.before;
      inside = inside && place >= 0 && place < axis.in;
      input += place * stride;
      stride *= axis.in;
    }
    if (inside) f(input, tap);
  }
}

}  // namespace tenon::problems
