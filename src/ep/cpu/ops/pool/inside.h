// Which taps of a window lie in the image.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/window.h"

namespace tenon::cpu::nn {

// The taps of an axis that lie in the image: [first, last), the first one at element `begin`.
struct Inside {
  int64_t first = 0, last = 0, begin = 0;
  Inside(const WindowAxis& axis, int64_t out) {
    const int64_t start = out * axis.stride - axis.pad_begin;
    first = start < 0 ? std::min(axis.kernel, (-start + axis.dilation - 1) / axis.dilation) : 0;
    last = start >= axis.in ? first : std::min(axis.kernel, (axis.in - 1 - start) / axis.dilation + 1);
    last = std::max(first, last);
    begin = start + first * axis.dilation;
  }
  int64_t count() const { return last - first; }
};

// Those of each output along each axis.
inline std::vector<std::vector<Inside>> insides_of(const Window& window) {
  std::vector<std::vector<Inside>> insides;
  for (const WindowAxis& axis : window.axes) {
    std::vector<Inside>& along = insides.emplace_back();
    for (int64_t out = 0; out < axis.out; ++out) along.emplace_back(axis, out);
  }
  return insides;
}

}  // namespace tenon::cpu::nn
