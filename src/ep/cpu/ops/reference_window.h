// Positions of windows, for the loops of the reference kernels.
#pragma once

#include "ep/cpu/ops/reference_kernel.h"
#include "ops/window.h"

namespace tenon::cpu::ref {

// Moves `at` to the next position of the box whose sides are `size` of each axis: out, or kernel.
inline void advance(const Window& window, int64_t WindowAxis::* size, Strides& at) {
  for (size_t d = window.axes.size(); d-- > 0;) {
    if (++at[d] < window.axes[d].*size) return;
    at[d] = 0;
  }
}

// The flat input position that kernel position `k` of output position `o` reads, or -1 in the padding.
inline int64_t source_of(const Window& window, const Strides& o, const Strides& k) {
  int64_t flat = 0;
  for (size_t d = 0; d < window.axes.size(); ++d) {
    const WindowAxis& axis = window.axes[d];
    const int64_t i = o[d] * axis.stride - axis.pad_begin + k[d] * axis.dilation;
    if (i < 0 || i >= axis.in) return -1;
    flat = flat * axis.in + i;
  }
  return flat;
}

// The same for a transposed convolution: the input position that adds to output position `o` through `k`.
inline int64_t transposed_source_of(const Window& window, const Strides& o, const Strides& k) {
  int64_t flat = 0;
  for (size_t d = 0; d < window.axes.size(); ++d) {
    const WindowAxis& axis = window.axes[d];
    const int64_t scaled = o[d] + axis.pad_begin - k[d] * axis.dilation;
    if (scaled < 0 || scaled % axis.stride != 0 || scaled / axis.stride >= axis.in) return -1;
    flat = flat * axis.in + scaled / axis.stride;
  }
  return flat;
}

}  // namespace tenon::cpu::ref
