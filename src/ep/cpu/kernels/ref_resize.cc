// Resize and Upsample: nearest, linear and cubic along any set of axes, with antialiasing.
#include <algorithm>
#include <cstring>

#include "ep/cpu/kernels/ref_kernel.h"

namespace tenon::cpu::ref {

namespace {

enum class Mode : uint8_t { kNearest, kLinear, kCubic };
enum class Coordinates : uint8_t { kHalfPixel, kHalfPixelSymmetric, kPytorch, kAlignCorners, kAsymmetric, kTfCrop };
enum class Rounding : uint8_t { kPreferFloor, kPreferCeil, kFloor, kCeil };
enum class Aspect : uint8_t { kStretch, kNotLarger, kNotSmaller };

struct Settings {
  Mode mode = Mode::kNearest;
  Coordinates coordinates = Coordinates::kHalfPixel;
  Rounding rounding = Rounding::kPreferFloor;
  Aspect aspect = Aspect::kStretch;
  bool antialias = false, exclude_outside = false;
  double cubic_a = -0.75;
  double extrapolation = 0;
};

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

Result<Settings> settings_of(const Node& node) {
  static constexpr Choice<Mode> kModes[] = {
      {"nearest", Mode::kNearest}, {"linear", Mode::kLinear}, {"bilinear", Mode::kLinear}, {"cubic", Mode::kCubic}};
  static constexpr Choice<Coordinates> kCoordinates[] = {
      {"half_pixel", Coordinates::kHalfPixel},       {"half_pixel_symmetric", Coordinates::kHalfPixelSymmetric},
      {"pytorch_half_pixel", Coordinates::kPytorch}, {"align_corners", Coordinates::kAlignCorners},
      {"asymmetric", Coordinates::kAsymmetric},      {"tf_crop_and_resize", Coordinates::kTfCrop}};
  static constexpr Choice<Rounding> kRoundings[] = {{"round_prefer_floor", Rounding::kPreferFloor},
                                                    {"round_prefer_ceil", Rounding::kPreferCeil},
                                                    {"floor", Rounding::kFloor},
                                                    {"ceil", Rounding::kCeil}};
  static constexpr Choice<Aspect> kAspects[] = {
      {"stretch", Aspect::kStretch}, {"not_larger", Aspect::kNotLarger}, {"not_smaller", Aspect::kNotSmaller}};
  // Upsample and Resize 10 knew no modes of rounding: they scale from the corner and round down.
  const bool old = node.op_type == "Upsample" || node.since_version < 11;
  Settings settings;
  TENON_TRY(choose(node, "mode", "nearest", kModes, settings.mode));
  TENON_TRY(choose(node, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel", kCoordinates,
                   settings.coordinates));
  TENON_TRY(choose(node, "nearest_mode", old ? "floor" : "round_prefer_floor", kRoundings, settings.rounding));
  TENON_TRY(choose(node, "keep_aspect_ratio_policy", "stretch", kAspects, settings.aspect));
  settings.antialias = node.int_or("antialias", 0) != 0;
  settings.exclude_outside = node.int_or("exclude_outside", 0) != 0;
  settings.cubic_a = static_cast<double>(node.float_or("cubic_coeff_a", -0.75f));
  settings.extrapolation = static_cast<double>(node.float_or("extrapolation_value", 0));
  return settings;
}

struct Axis {
  int64_t in = 1, out = 1;
  double scale = 1;
  double roi_start = 0, roi_end = 1;
  int64_t stride = 1;  // of the input, in elements
};

// What one output coordinate reads along one axis: `count` taps from `first` on in Taps::index and weight.
struct Taps {
  int64_t width = 0;  // taps of each coordinate
  std::vector<int64_t> index;
  std::vector<double> weight;
  std::vector<bool> outside;  // tf_crop_and_resize: beyond the input
};

double source_coordinate(const Settings& settings, const Axis& axis, int64_t out) {
  const auto x = static_cast<double>(out), in = static_cast<double>(axis.in);
  // Sizes that were rounded down leave a scale that differs from out / in; the given scale counts.
  const double length = in * axis.scale;
  switch (settings.coordinates) {
    case Coordinates::kHalfPixel:
      return (x + 0.5) / axis.scale - 0.5;
    case Coordinates::kHalfPixelSymmetric: {
      const double adjustment = static_cast<double>(axis.out) / length;
      return in / 2 * (1 - adjustment) + (x + 0.5) / axis.scale - 0.5;
    }
    case Coordinates::kPytorch:
      return axis.out > 1 ? (x + 0.5) / axis.scale - 0.5 : 0;
    case Coordinates::kAlignCorners:
      return axis.out > 1 ? x * (in - 1) / static_cast<double>(axis.out - 1) : 0;
    case Coordinates::kAsymmetric:
      return x / axis.scale;
    case Coordinates::kTfCrop:
      return axis.out > 1 ? axis.roi_start * (in - 1) +
                                x * (axis.roi_end - axis.roi_start) * (in - 1) / static_cast<double>(axis.out - 1)
                          : 0.5 * (axis.roi_start + axis.roi_end) * (in - 1);
  }
  return x;
}

double cubic(double a, double x) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

int64_t round_nearest(Rounding rounding, double x) {
  switch (rounding) {
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

Taps make_taps(const Settings& settings, const Axis& axis) {
  Taps taps;
  // An axis that keeps its size keeps its elements.
  const bool copy = axis.scale == 1 && axis.in == axis.out && settings.coordinates != Coordinates::kTfCrop;
  // Antialiasing stretches the filter over the input when it shrinks.
  const double stretch = settings.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double radius = (settings.mode == Mode::kLinear ? 1.0 : 2.0) / stretch;
  const bool nearest = settings.mode == Mode::kNearest || copy;
  taps.width = nearest ? 1 : static_cast<int64_t>(std::ceil(radius)) * 2 + (stretch < 1 ? 1 : 0);
  for (int64_t o = 0; o < axis.out; ++o) {
    const double x = copy ? static_cast<double>(o) : source_coordinate(settings, axis, o);
    taps.outside.push_back(settings.coordinates == Coordinates::kTfCrop &&
                           (x < 0 || x > static_cast<double>(axis.in - 1)));
    const double bounded = std::clamp(x, -1e15, 1e15);
    if (nearest) {
      const int64_t i = copy ? o : round_nearest(settings.rounding, bounded);
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

using Interpolate = void (*)(const void* x, void* y, const std::vector<Taps>& taps, const Shape& out,
                             double extrapolation);

template <typename T>
void interpolate(const void* x, void* y, const std::vector<Taps>& taps, const Shape& out, double extrapolation) {
  const int64_t count = out.element_count();
  const int rank = out.rank();
  Strides at{};
  for (int64_t e = 0; e < count; ++e) {
    bool outside = false;
    for (int d = 0; d < rank; ++d)
      outside |= taps[static_cast<size_t>(d)].outside[static_cast<size_t>(at[static_cast<size_t>(d)])];
    double value = 0;
    Strides tap{};
    bool more = !outside;
    int64_t only = -1;
    while (more) {
      double weight = 1;
      int64_t offset = 0;
      for (int d = 0; d < rank; ++d) {
        const auto u = static_cast<size_t>(d);
        const auto k = static_cast<size_t>(at[u] * taps[u].width + tap[u]);
        weight *= taps[u].weight[k];
        offset += taps[u].index[k];
      }
      if (weight != 0) value += weight * static_cast<double>(static_cast<const T*>(x)[offset]);
      if (weight == 1) only = offset;
      more = false;
      for (int d = rank - 1; d >= 0 && !more; --d) {
        const auto u = static_cast<size_t>(d);
        more = ++tap[u] < taps[u].width;
        if (!more) tap[u] = 0;
      }
    }
    // A whole element is copied: integers beyond a double's precision stay what they are.
    if (only >= 0) {
      static_cast<T*>(y)[e] = static_cast<const T*>(x)[only];
    } else if constexpr (std::is_integral_v<T>) {
      const double bounded =
          std::clamp(outside ? extrapolation : value, static_cast<double>(std::numeric_limits<T>::min()),
                     static_cast<double>(std::numeric_limits<T>::max()) * (sizeof(T) == 8 ? 0.999 : 1));
      static_cast<T*>(y)[e] = static_cast<T>(bounded);
    } else {
      static_cast<T*>(y)[e] = T(outside ? extrapolation : value);
    }
    for (int d = rank - 1; d >= 0; --d) {
      if (++at[static_cast<size_t>(d)] < out[d]) break;
      at[static_cast<size_t>(d)] = 0;
    }
  }
}

// Reads float32, float64, float16 or bfloat16.
using FloatReader = double (*)(const void* x, int64_t i);
FloatReader float_reader(DataType type) {
  return select(FloatTypes(), type, []<typename T>() -> FloatReader {
    return [](const void* x, int64_t i) { return static_cast<double>(static_cast<const T*>(x)[i]); };
  });
}

// Everything that says how large the output is.
struct Sizes {
  Shape x;
  std::vector<int> axes;  // that roi, scales and sizes speak of
  Settings settings;
  std::vector<float> attribute;  // Upsample 7
  size_t roi_input = 1000, scales_input = 1000, sizes_input = 1000;
  TensorSpec roi, scales, sizes;
};

Result<Shape> resolve(const Sizes& plan, std::span<const void* const> inputs, std::vector<Axis>& axes) {
  const Strides strides = dense_strides(plan.x);
  Shape out = plan.x;
  axes.assign(static_cast<size_t>(plan.x.rank()), Axis());
  for (int d = 0; d < plan.x.rank(); ++d) {
    Axis& axis = axes[static_cast<size_t>(d)];
    axis.in = axis.out = plan.x[d];
    axis.stride = strides[static_cast<size_t>(d)];
  }
  const auto count = static_cast<int64_t>(plan.axes.size());
  const bool by_sizes = plan.sizes.present() && plan.sizes.shape.element_count() > 0;
  const bool by_scales = plan.scales.present() && plan.scales.shape.element_count() > 0;
  TENON_INVALID_IF((by_sizes && plan.sizes.shape.element_count() != count) ||
                       (by_scales && plan.scales.shape.element_count() != count) ||
                       (!by_sizes && !by_scales && static_cast<int64_t>(plan.attribute.size()) != count),
                   "Resize of {} needs {} scales or sizes.", plan.x.to_string(), count);
  double common = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto u = static_cast<size_t>(i);
    const int d = plan.axes[u];
    Axis& axis = axes[static_cast<size_t>(d)];
    if (by_sizes) {
      axis.out = plan.sizes.type == DataType::kInt32 ? static_cast<const int32_t*>(inputs[plan.sizes_input])[i]
                                                     : static_cast<const int64_t*>(inputs[plan.sizes_input])[i];
      TENON_INVALID_IF(axis.out < 0 || (axis.in == 0 && axis.out != 0), "Resize makes axis {} of {} {} long.", d,
                       plan.x.to_string(), axis.out);
      axis.scale = axis.in == 0 ? 1 : static_cast<double>(axis.out) / static_cast<double>(axis.in);
      if (i == 0 || (plan.settings.aspect == Aspect::kNotLarger ? axis.scale < common : axis.scale > common)) {
        common = axis.scale;
      }
    } else {
      axis.scale = by_scales ? float_reader(plan.scales.type)(inputs[plan.scales_input], i)
                             : static_cast<double>(plan.attribute[u]);
      // In float, as the scales are: 0.6 of 5 is 3, and not the 2 that exact arithmetic on the float 0.6 leaves.
      const float length = static_cast<float>(axis.in) * static_cast<float>(axis.scale);
      TENON_INVALID_IF(!(axis.scale > 0) || !(length < 0x1p31f), "Resize scales axis {} of {} by {}.", d,
                       plan.x.to_string(), axis.scale);
      axis.out = static_cast<int64_t>(std::floor(length));
    }
    if (plan.roi.present() && plan.roi.shape.element_count() == 2 * count) {
      const FloatReader read = float_reader(plan.roi.type);
      axis.roi_start = read(inputs[plan.roi_input], i);
      axis.roi_end = read(inputs[plan.roi_input], i + count);
    }
  }
  for (int d : plan.axes) {
    Axis& axis = axes[static_cast<size_t>(d)];
    if (by_sizes && plan.settings.aspect != Aspect::kStretch) {
      axis.scale = common;
      axis.out = static_cast<int64_t>(std::floor(common * static_cast<double>(axis.in) + 0.5));
    }
    // A crop scales by what it cuts out.
    out[d] = axis.out;
  }
  TENON_TRY(out.checked_element_count().status());
  return out;
}

using Types = decltype(FloatTypes() + TypeList<int8_t, uint8_t, int32_t, int64_t>());

Result<RefImpl> make_resize(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  Sizes plan;
  plan.x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(plan.settings, settings_of(*node.node));
  if (node.node->op_type == "Upsample" || node.node->since_version == 10) {
    plan.scales_input = 1;
    if (const Attribute* scales = node.node->find("scales")) plan.attribute = scales->floats;
  } else {
    plan.roi_input = 1;
    plan.scales_input = 2;
    plan.sizes_input = 3;
  }
  plan.roi = input_spec(node, plan.roi_input);
  plan.scales = input_spec(node, plan.scales_input);
  plan.sizes = input_spec(node, plan.sizes_input);
  TENON_INVALID_IF((plan.scales.present() && float_reader(plan.scales.type) == nullptr) ||
                       (plan.roi.present() && float_reader(plan.roi.type) == nullptr),
                   "{} has scales of {} and a roi of {}.", node.node->op_type, data_type_name(plan.scales.type),
                   data_type_name(plan.roi.type));
  const std::span<const int64_t> given = node.node->ints("axes");
  for (int d = 0; given.empty() && d < plan.x.rank(); ++d) plan.axes.push_back(d);
  for (int64_t value : given) {
    TENON_TRY_ASSIGN(const int axis, resolve_axis(node, value, plan.x.rank()));
    plan.axes.push_back(axis);
  }
  const Interpolate chosen =
      select(Types(), node.inputs[0].type, []<typename T>() -> Interpolate { return &interpolate<T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));

  // With known scales and sizes the taps are made once.
  struct Prepared {
    Shape out;
    std::vector<Taps> taps;
  };
  const auto prepare = [plan](std::span<const void* const> inputs) -> Result<Prepared> {
    Prepared prepared;
    std::vector<Axis> axes;
    TENON_TRY_ASSIGN(prepared.out, resolve(plan, inputs, axes));
    if (prepared.out.element_count() == 0) return prepared;
    for (const Axis& axis : axes) prepared.taps.push_back(make_taps(plan.settings, axis));
    return prepared;
  };
  bool known = true;
  std::vector<const void*> values(node.inputs.size(), nullptr);
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const bool constant = i < node.constants.size() && node.constants[i] != nullptr;
    if (constant) values[i] = node.constants[i]->data;
    known &= constant || !node.inputs[i].present() || node.inputs[i].shape.element_count() == 0;
  }
  std::shared_ptr<const Prepared> ready;
  if (known) {
    TENON_TRY_ASSIGN(Prepared prepared, prepare(values));
    TENON_TRY(require_output(node, 0, prepared.out));
    ready = std::make_shared<const Prepared>(std::move(prepared));
  }
  RefImpl impl;
  impl.run = [prepare, ready, chosen, out = output_spec(node, 0),
              extrapolation = plan.settings.extrapolation](KernelContext& context) -> Status {
    if (ready != nullptr) {
      if (!ready->taps.empty() || ready->out.rank() == 0) {
        chosen(context.inputs[0], context.outputs[0], ready->taps, ready->out, extrapolation);
      }
      return {};
    }
    TENON_TRY_ASSIGN(const Prepared prepared, prepare(context.inputs));
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, prepared.out));
    if (!prepared.taps.empty() || prepared.out.rank() == 0) {
      chosen(context.inputs[0], y, prepared.taps, prepared.out, extrapolation);
    }
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<type_set(Types()), &make_resize>("Resize", 10),
    ref_row<type_set(Types()), &make_resize>("Upsample", 7),
};

}  // namespace

std::span<const KernelEntry> ref_resize_rows() { return kRows; }

}  // namespace tenon::cpu::ref
