// Signals: DFT (17), STFT (17), MelWeightMatrix (17), BlackmanWindow, HammingWindow and HannWindow (17).
#pragma once

#include <cstdint>
#include <optional>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// A transform of `length` numbers along an axis of [outer, in, inner, components]; components is 1 for real numbers and
// 2 for complex ones. Numbers that are missing count as 0, further ones are left out.
struct DftDesc {
  bool inverse = false;
  bool onesided = false;  // the spectrum of real numbers: its first half is what is given or made
  int axis = 1;
  int64_t outer = 1, in = 0, inner = 1;
  int64_t length = 0;  // of the transform
  int64_t out = 0;     // numbers that are kept: length, or length / 2 + 1
  int64_t in_components = 1, out_components = 2;

  Shape output(const Shape& x) const;
};
// `length` and `axis` are the values of the inputs, where they are there. Errors: a rank below 2, a last dimension
// other than 1 and 2, an axis out of range or the last one, a length below 1.
Result<DftDesc> read_dft(const Node& node, const Shape& x, std::optional<int64_t> length, std::optional<int64_t> axis);

// STFT of [batch, samples, components]: the transforms of frames of `length`, each `step` after the one before it.
struct StftDesc {
  bool onesided = true;
  int64_t batch = 0, samples = 0, components = 1;
  int64_t step = 1, length = 0;
  int64_t frames = 0, bins = 0;

  Shape output() const { return {batch, frames, bins, 2}; }
};
// `window` is the window's length. Errors: a signal of another rank, a step below 1, a frame that is longer than the
// signal, neither a window nor a frame's length, lengths of both that differ.
Result<StftDesc> read_stft(const Node& node, const Shape& signal, int64_t step, std::optional<int64_t> window,
                           std::optional<int64_t> frame);

// A weighted sum of cosines: sum of coefficients[k] * cos(2 pi k n / period).
struct WindowFunctionDesc {
  double coefficients[3] = {};
  bool periodic = true;
};
WindowFunctionDesc read_window_function(const Node& node);

// The element type that the attribute output_datatype names.
DataType read_output_type(const Node& node);

}  // namespace tenon
