// Where Resize and Upsample read: for each coordinate of an axis, which elements with which weights.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

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

struct ResizeAxis {
  int64_t in = 1, out = 1;
  double scale = 1;
  double roi_start = 0, roi_end = 1;
  int64_t stride = 1;  // of the input, in elements
};

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
