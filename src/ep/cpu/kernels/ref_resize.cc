// Resize and Upsample: nearest, linear and cubic along any set of axes, with antialiasing.
#include <algorithm>
#include <cstring>

#include "ep/cpu/kernels/ref_kernel.h"
#include "graph/resize_taps.h"

namespace tenon::cpu::ref {

namespace {

using Aspect = ResizeSettings::Aspect;
using Taps = ResizeTaps;
using Axis = ResizeAxis;

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
  ResizeSettings settings;
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
  TENON_TRY_ASSIGN(plan.settings, read_resize_settings(*node.node));
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
    for (const Axis& axis : axes) prepared.taps.push_back(make_resize_taps(plan.settings, axis));
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
