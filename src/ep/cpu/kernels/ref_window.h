// Sliding windows over the spatial axes: what convolution and pooling share.
#pragma once

#include "ep/cpu/kernels/ref_kernel.h"

namespace tenon::cpu::ref {

struct Window {
  int rank = 0;  // spatial axes
  Strides in{}, out{}, kernel{}, stride{}, dilation{}, pad{}, pad_end{};

  // Positions of the input, of the output and of the kernel.
  int64_t in_count() const { return product(in); }
  int64_t out_count() const { return product(out); }
  int64_t kernel_count() const { return product(kernel); }
  // Splits a flat index of a box into coordinates.
  static void unflatten(int64_t flat, const Strides& dims, int rank, Strides& at) {
    for (int d = rank - 1; d >= 0; --d) {
      at[static_cast<size_t>(d)] = flat % dims[static_cast<size_t>(d)];
      flat /= dims[static_cast<size_t>(d)];
    }
  }
  // Moves `at` to the next position of the box.
  static void advance(const Strides& dims, int rank, Strides& at) {
    for (int d = rank - 1; d >= 0; --d) {
      if (++at[static_cast<size_t>(d)] < dims[static_cast<size_t>(d)]) return;
      at[static_cast<size_t>(d)] = 0;
    }
  }
  // The flat input position that kernel position `k` of output position `o` reads, or -1 in the padding.
  int64_t source(const Strides& o, const Strides& k) const {
    int64_t flat = 0;
    for (int d = 0; d < rank; ++d) {
      const auto u = static_cast<size_t>(d);
      const int64_t i = o[u] * stride[u] - pad[u] + k[u] * dilation[u];
      if (i < 0 || i >= in[u]) return -1;
      flat = flat * in[u] + i;
    }
    return flat;
  }
  // The same for a transposed convolution: which input position adds to output position `o` through `k`.
  int64_t transposed_source(const Strides& o, const Strides& k) const {
    int64_t flat = 0;
    for (int d = 0; d < rank; ++d) {
      const auto u = static_cast<size_t>(d);
      const int64_t scaled = o[u] + pad[u] - k[u] * dilation[u];
      if (scaled < 0 || scaled % stride[u] != 0 || scaled / stride[u] >= in[u]) return -1;
      flat = flat * in[u] + scaled / stride[u];
    }
    return flat;
  }

 private:
  int64_t product(const Strides& dims) const {
    int64_t count = 1;
    for (int d = 0; d < rank; ++d) count *= dims[static_cast<size_t>(d)];
    return count;
  }
};

// Reads kernel_shape (or takes it from `weights`' axes 2 and up), strides, dilations, pads, auto_pad and ceil_mode,
// checks them against X and computes the output's spatial shape.
Result<Window> forward_window(const Node& node, const Shape& x, const Shape* weights);
// Of ConvTranspose: output_padding and output_shape too.
Result<Window> transposed_window(const Node& node, const Shape& x, const Shape& weights);
// [n, c, window.out...]
Shape window_output(const Window& window, int64_t n, int64_t c);

}  // namespace tenon::cpu::ref
