#include "ops/resize_taps.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace tenon {

namespace {

using Mode = ResizeSettings::Mode;
using Coordinates = ResizeSettings::Coordinates;
using Rounding = ResizeSettings::Rounding;
using Aspect = ResizeSettings::Aspect;

template <typename T>
struct Choice {
  std::string_view name;
  T value;
};
template <typename T, size_t n>
Status choose(const Node& node, std::string_view attribute, std::string_view fallback, const Choice<T> (&choices)[n],
              T& value) {
  const std::string_view name = node.string_or(attribute, fallback);
  for (const Choice<T>& choice : choices) {
    if (choice.name == name) {
      value = choice.value;
      return {};
    }
  }
  return invalid_argument("{} has the unknown {} \"{}\".", node.op_type, attribute, name);
}

// In float32, as ONNX Runtime computes them: which element is nearest, and whether integers are exact, hangs on the
// last digit.
float source_coordinate(const ResizeSettings& settings, const ResizeAxis& axis, int64_t index) {
  const auto x = static_cast<float>(index), in = static_cast<float>(axis.in), out = static_cast<float>(axis.out);
  const auto scale = static_cast<float>(axis.scale);
  const auto roi_start = static_cast<float>(axis.roi_start), roi_end = static_cast<float>(axis.roi_end);
  switch (settings.coordinates) {
    case Coordinates::kHalfPixel:
      return (x + 0.5f) / scale - 0.5f;
    case Coordinates::kHalfPixelSymmetric: {
      // Sizes that were rounded down leave a scale that differs from out / in; the given scale counts.
      const float adjustment = out / (in * scale);
      return in / 2 * (1 - adjustment) + (x + 0.5f) / scale - 0.5f;
    }
    case Coordinates::kTfHalfPixelForNearest:
      return (x + 0.5f) / scale;
    case Coordinates::kPytorch:
      return axis.out > 1 ? (x + 0.5f) / scale - 0.5f : 0;
    case Coordinates::kAlignCorners:
      return axis.out > 1 ? x * (in - 1) / (out - 1) : 0;
    case Coordinates::kAsymmetric:
      return x / scale;
    case Coordinates::kTfCrop:
      return axis.out > 1 ? roi_start * (in - 1) + x * (roi_end - roi_start) * (in - 1) / (out - 1)
                          : 0.5f * (roi_start + roi_end) * (in - 1);
  }
  return x;
}

double cubic(double a, double x) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

int64_t round_nearest(Rounding rounding, double x, bool shrinks) {
  // Coordinates this close to the middle of two elements are meant to be there, as in ONNX Runtime: float32 makes
  // 3.4999998 of 1 / (2 / 7).
  constexpr double kHalf = 1e-6;
  const double half = std::floor(x) + 0.5;
  if (std::abs(x - half) < kHalf) x = half;
  switch (rounding) {
    case Rounding::kOld:
      return static_cast<int64_t>(shrinks ? std::ceil(x) : std::floor(x));
    case Rounding::kPreferFloor:
      return static_cast<int64_t>(std::ceil(x - 0.5));
    case Rounding::kPreferCeil:
      return static_cast<int64_t>(std::floor(x + 0.5));
    case Rounding::kFloor:
      return static_cast<int64_t>(std::floor(x));
    case Rounding::kCeil:
      return static_cast<int64_t>(std::ceil(x));
  }
  return 0;
}

}  // namespace

Result<ResizeSettings> read_resize_settings(const Node& node) {
  static constexpr Choice<Mode> kModes[] = {
      {"nearest", Mode::kNearest}, {"linear", Mode::kLinear}, {"bilinear", Mode::kLinear}, {"cubic", Mode::kCubic}};
  static constexpr Choice<Coordinates> kCoordinates[] = {{"half_pixel", Coordinates::kHalfPixel},
                                                         {"half_pixel_symmetric", Coordinates::kHalfPixelSymmetric},
                                                         {"pytorch_half_pixel", Coordinates::kPytorch},
                                                         {"align_corners", Coordinates::kAlignCorners},
                                                         {"asymmetric", Coordinates::kAsymmetric},
                                                         {"tf_crop_and_resize", Coordinates::kTfCrop},
                                                         {"tf_half_pixel_for_nn", Coordinates::kTfHalfPixelForNearest}};
  static constexpr Choice<Rounding> kRoundings[] = {{"round_prefer_floor", Rounding::kPreferFloor},
                                                    {"round_prefer_ceil", Rounding::kPreferCeil},
                                                    {"floor", Rounding::kFloor},
                                                    {"ceil", Rounding::kCeil}};
  static constexpr Choice<Aspect> kAspects[] = {
      {"stretch", Aspect::kStretch}, {"not_larger", Aspect::kNotLarger}, {"not_smaller", Aspect::kNotSmaller}};
  // Upsample and Resize 10 knew no modes of rounding: they scale from the corner, and round down, or up to shrink.
  const bool old = node.op_type == "Upsample" || node.since_version < 11;
  ResizeSettings settings;
  TENON_TRY(choose(node, "mode", "nearest", kModes, settings.mode));
  TENON_TRY(choose(node, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel", kCoordinates,
                   settings.coordinates));
  TENON_TRY(choose(node, "nearest_mode", "round_prefer_floor", kRoundings, settings.rounding));
  if (old) settings.rounding = Rounding::kOld;
  TENON_TRY(choose(node, "keep_aspect_ratio_policy", "stretch", kAspects, settings.aspect));
  settings.antialias = node.int_or("antialias", 0) != 0;
  settings.exclude_outside = node.int_or("exclude_outside", 0) != 0;
  settings.cubic_a = static_cast<double>(node.float_or("cubic_coeff_a", -0.75f));
  settings.extrapolation = static_cast<double>(node.float_or("extrapolation_value", 0));
  return settings;
}

ResizeTaps make_resize_taps(const ResizeSettings& settings, const ResizeAxis& axis) {
  ResizeTaps taps{.in = axis.in, .stride = axis.stride};
  // An axis that keeps its size keeps its elements.
  const bool copy = axis.scale == 1 && axis.in == axis.out && settings.coordinates != Coordinates::kTfCrop;
  // Antialiasing stretches the filter over the input when it shrinks.
  const double stretch = settings.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double radius = (settings.mode == Mode::kLinear ? 1.0 : 2.0) / stretch;
  const bool nearest = settings.mode == Mode::kNearest || copy;
  taps.width = nearest ? 1 : static_cast<int64_t>(std::ceil(radius)) * 2 + (stretch < 1 ? 1 : 0);
  for (int64_t o = 0; o < axis.out; ++o) {
    const double x = copy ? static_cast<double>(o) : static_cast<double>(source_coordinate(settings, axis, o));
    taps.outside.push_back(settings.coordinates == Coordinates::kTfCrop &&
                           (x < 0 || x > static_cast<double>(axis.in - 1)));
    double bounded = std::clamp(x, -1e15, 1e15);
    // Beyond the edge, linear interpolation gives the edge: one whole element rather than two parts of it.
    if (settings.mode == Mode::kLinear && !settings.antialias)
      bounded = std::clamp(bounded, 0.0, static_cast<double>(axis.in - 1));
    if (nearest) {
      const int64_t i = copy ? o : round_nearest(settings.rounding, bounded, axis.scale < 1);
      taps.index.push_back(std::clamp<int64_t>(i, 0, axis.in - 1) * axis.stride);
      taps.weight.push_back(1);
      continue;
    }
    const auto first = static_cast<int64_t>(std::floor(bounded)) - taps.width / 2 + (taps.width % 2 == 0 ? 1 : 0);
    double sum = 0;
    const size_t begin = taps.weight.size();
    for (int64_t k = 0; k < taps.width; ++k) {
      const int64_t i = first + k;
      const double distance = (static_cast<double>(i) - bounded) * stretch;
      double weight =
          settings.mode == Mode::kLinear ? std::max(0.0, 1 - std::abs(distance)) : cubic(settings.cubic_a, distance);
      if (settings.exclude_outside && (i < 0 || i >= axis.in)) weight = 0;
      sum += weight;
      taps.index.push_back(std::clamp<int64_t>(i, 0, axis.in - 1) * axis.stride);
      taps.weight.push_back(weight);
    }
    for (size_t k = begin; k < taps.weight.size() && sum != 0; ++k) taps.weight[k] /= sum;
  }
  return taps;
}

}  // namespace tenon
