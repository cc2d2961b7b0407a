// Resize (10) and Upsample (1): how they scale each axis, and which elements with which weights a coordinate reads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/input_shapes.h"

namespace tenon {

struct ResizeSettings {
  enum class Mode : uint8_t { kNearest, kLinear, kCubic };
  enum class Coordinates : uint8_t {
    kHalfPixel,
    kHalfPixelSymmetric,
    kTfHalfPixelForNearest,  // Resize 11 only
    kPytorch,
    kAlignCorners,
    kAsymmetric,
    kTfCrop
  };
  enum class Rounding : uint8_t { kPreferFloor, kPreferCeil, kFloor, kCeil, kOld };
  enum class Aspect : uint8_t { kStretch, kNotLarger, kNotSmaller };
  Mode mode = Mode::kNearest;
  Coordinates coordinates = Coordinates::kHalfPixel;
  Rounding rounding = Rounding::kPreferFloor;
  Aspect aspect = Aspect::kStretch;
  bool antialias = false, exclude_outside = false;
  double cubic_a = -0.75;
  double extrapolation = 0;
};

// Of a Resize or an Upsample. Errors: kInvalidArgument names an attribute's unknown value.
Result<ResizeSettings> read_resize_settings(const Node& node);

// A Resize or an Upsample of a tensor whose rank is known.
struct ResizeDesc {
  ResizeSettings settings;
  std::vector<int> axes;           // that roi, scales and sizes speak of, in their order
  std::vector<float> scales;       // Upsample 7: the attribute
  size_t roi_input = kNoInput;     // Resize 11
  size_t scales_input = kNoInput;  // 1 or 2
  size_t sizes_input = kNoInput;   // Resize 11
};

// Errors: those of read_resize_settings; an axis out of range or repeated.
Result<ResizeDesc> read_resize(const Node& node, int rank);

// The values of the inputs, empty where an input is absent, empty or not known.
struct ResizeValues {
  std::vector<double> roi, scales;
  std::vector<int64_t> sizes;
};

struct ResizeAxis {
  int64_t in = 1, out = 1;
  double scale = 1;
  double roi_start = 0, roi_end = 1;
  int64_t stride = 1;  // of the input, in elements
};

// One entry an axis of X: its size before and after, its scale and its part of the roi; strides are 1. Sizes win over
// scales, scales over the attribute. A size of X that is kUnknownSize (ops/window.h) leaves the output's unknown where
// it depends on it. Errors: neither scales nor sizes, or another number of them than axes; a scale that is not positive
// and finite; a size that is negative, or positive where X has none; an output beyond int64.
Result<std::vector<ResizeAxis>> resize_axes(const ResizeDesc& resize, std::span<const int64_t> x,
                                            const ResizeValues& values);

// Output coordinate o reads `width` elements from o * width on in `index` (times the stride) and `weight`.
struct ResizeTaps {
  int64_t in = 1, stride = 1;  // of the axis
  int64_t width = 0;
  std::vector<int64_t> index;
  std::vector<double> weight;
  std::vector<bool> outside;  // tf_crop_and_resize: beyond the input
};

// `in` and `out` have to be positive.
ResizeTaps make_resize_taps(const ResizeSettings& settings, const ResizeAxis& axis);

}  // namespace tenon
