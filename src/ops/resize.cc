#include "ops/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "ops/attributes.h"
#include "ops/shape_inference_context.h"
#include "ops/window.h"

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
Status choose(const Node& node, std::string_view attribute, const Choice<T> (&choices)[n], T& value) {
  const std::string_view name = Attributes(node).text(attribute);
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
  ResizeSettings settings;
  TENON_TRY(choose(node, "mode", kModes, settings.mode));
  // Upsample and Resize 10 knew no modes of rounding: they scale from the corner, and round down, or up to shrink.
  if (node.op_type == "Upsample" || node.since_version < 11) {
    settings.coordinates = Coordinates::kAsymmetric;
    settings.rounding = Rounding::kOld;
    return settings;
  }
  TENON_TRY(choose(node, "coordinate_transformation_mode", kCoordinates, settings.coordinates));
  TENON_TRY(choose(node, "nearest_mode", kRoundings, settings.rounding));
  TENON_TRY(choose(node, "keep_aspect_ratio_policy", kAspects, settings.aspect));
  const Attributes attributes(node);
  settings.antialias = attributes.flag("antialias");
  settings.exclude_outside = attributes.flag("exclude_outside");
  settings.cubic_a = static_cast<double>(attributes.number("cubic_coeff_a"));
  settings.extrapolation = static_cast<double>(attributes.number("extrapolation_value"));
  return settings;
}

Result<ResizeDesc> read_resize(const Node& node, int rank) {
  ResizeDesc resize;
  TENON_TRY_ASSIGN(resize.settings, read_resize_settings(node));
  if (node.op_type == "Upsample" || node.since_version < 11) {
    resize.scales_input = 1;
  } else {
    resize.roi_input = 1;
    resize.scales_input = 2;
    resize.sizes_input = 3;
  }
  const Attributes attributes(node);
  const std::span<const float> scales = attributes.numbers("scales");
  resize.scales.assign(scales.begin(), scales.end());
  const std::span<const int64_t> axes = attributes.integers("axes");
  for (int64_t axis : axes) {
    TENON_INVALID_IF(axis < -rank || axis >= rank, "Axis {} is out of range for rank {}.", axis, rank);
    const int normal = static_cast<int>(axis < 0 ? axis + rank : axis);
    TENON_INVALID_IF(std::find(resize.axes.begin(), resize.axes.end(), normal) != resize.axes.end(),
                     "Axis {} is repeated.", normal);
    resize.axes.push_back(normal);
  }
  for (int d = 0; axes.empty() && d < rank; ++d) resize.axes.push_back(d);
  return resize;
}

Result<std::vector<ResizeAxis>> resize_axes(const ResizeDesc& resize, std::span<const int64_t> x,
                                            const ResizeValues& values) {
  std::vector<ResizeAxis> axes(x.size());
  for (size_t d = 0; d < x.size(); ++d) axes[d].in = axes[d].out = x[d];
  const size_t count = resize.axes.size();
  const bool by_sizes = !values.sizes.empty(), by_attribute = !by_sizes && values.scales.empty();
  const size_t given = by_sizes ? values.sizes.size() : by_attribute ? resize.scales.size() : values.scales.size();
  TENON_INVALID_IF(given != count, "There are {} {} for {} axes.", given, by_sizes ? "sizes" : "scales", count);
  TENON_INVALID_IF(!values.roi.empty() && values.roi.size() != 2 * count, "The roi has {} values for {} axes.",
                   values.roi.size(), count);
  const bool keeps_aspect = by_sizes && resize.settings.aspect != Aspect::kStretch;
  // One scale for all axes: the smallest or the largest that the sizes ask for, in float32 as in ONNX Runtime.
  const bool smallest = resize.settings.aspect == Aspect::kNotLarger;
  float common = smallest ? std::numeric_limits<float>::max() : std::numeric_limits<float>::lowest();
  bool all_known = true;
  for (size_t i = 0; i < count; ++i) {
    ResizeAxis& axis = axes[resize.axes[i]];
    const bool known = axis.in != kUnknownSize;
    if (!values.roi.empty()) {
      axis.roi_start = values.roi[i];
      axis.roi_end = values.roi[i + count];
    }
    if (by_sizes) {
      axis.out = values.sizes[i];
      TENON_INVALID_IF(axis.out < 0, "The size {} is negative.", axis.out);
      TENON_INVALID_IF(axis.in == 0 && axis.out != 0, "Axis {} is empty and cannot have the size {}.", resize.axes[i],
                       axis.out);
      all_known = all_known && known;
      if (known && axis.in != 0) axis.scale = static_cast<double>(axis.out) / static_cast<double>(axis.in);
      const float one = axis.in == 0 ? 1.0f : static_cast<float>(axis.out) / static_cast<float>(axis.in);
      common = smallest ? std::min(common, one) : std::max(common, one);
      continue;
    }
    axis.scale = by_attribute ? static_cast<double>(resize.scales[i]) : values.scales[i];
    TENON_INVALID_IF(!(axis.scale > 0) || std::isinf(axis.scale), "The scale {} has to be positive and finite.",
                     axis.scale);
    if (!known) continue;
    // In float32, as the scales are: 0.6 of 5 is 3, and not the 2 that exact arithmetic on the float 0.6 leaves.
    const float length = static_cast<float>(axis.in) * static_cast<float>(axis.scale);
    TENON_INVALID_IF(!(length < 9.0e18f), "The size {} times the scale {} is too large.", axis.in, axis.scale);
    axis.out = static_cast<int64_t>(std::floor(length));
  }
  for (size_t i = 0; keeps_aspect && i < count; ++i) {
    ResizeAxis& axis = axes[resize.axes[i]];
    axis.out = kUnknownSize;
    if (!all_known) continue;
    axis.scale = static_cast<double>(common);
    const float length = std::round(common * static_cast<float>(axis.in));
    TENON_INVALID_IF(!(length < 9.0e18f), "The resized dimension {} is too large.", length);
    axis.out = static_cast<int64_t>(length);
  }
  return axes;
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

namespace infer {

namespace {

Status infer_resize(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(const ResizeDesc resize, read_resize(c.node(), c.rank(0)));
  Dims out = c.dims(0);
  ResizeValues values;
  const auto unknown = [&] {
    for (int axis : resize.axes) out[axis] = Dim{};
    return c.set_dims(0, std::move(out));
  };
  if (c.has(resize.sizes_input) &&
      !(c.in(resize.sizes_input).constant && c.in(resize.sizes_input).constant->size_bytes == 0)) {
    std::optional<std::vector<int64_t>> sizes = c.values(resize.sizes_input);
    if (!sizes) return unknown();
    TENON_INVALID_IF(sizes->size() != resize.axes.size(), "There are {} sizes for {} axes.", sizes->size(),
                     resize.axes.size());
    values.sizes = std::move(*sizes);
  } else if (const std::optional<std::vector<float>> scales = c.floats(resize.scales_input)) {
    TENON_INVALID_IF(scales->size() != resize.axes.size(), "There are {} scales for {} axes.", scales->size(),
                     resize.axes.size());
    values.scales.assign(scales->begin(), scales->end());
  } else if (resize.scales.empty()) {
    return unknown();
  }
  if (resize.axes.empty()) return c.set_dims(0, std::move(out));
  std::vector<int64_t> x;
  for (const Dim& dim : out) x.push_back(dim.value);
  TENON_TRY_ASSIGN(const std::vector<ResizeAxis> axes, resize_axes(resize, x, values));
  for (int d : resize.axes) {
    if (axes[d].out != kUnknownSize) {
      out[d] = number(axes[d].out);
    } else if (axes[d].scale != 1 || !values.sizes.empty()) {
      out[d] = Dim{};
    }
  }
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {{"Resize", &infer_resize}, {"Upsample", &infer_resize}};

}  // namespace

std::span<const Row> resize_rows() { return kRows; }

}  // namespace infer

}  // namespace tenon
