// Resize and Upsample: repetitions of whole elements as a move, all others by tables of source positions.
#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "ep/cuda/compute/kernel_template.h"
#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/resize/resize_params.h"
#include "ops/resize.h"

namespace tenon::cuda {

namespace {

// Loops over so many taps are unrolled: those of nearest, linear and cubic modes.
constexpr int64_t kMostFixedWidth = 4;

std::vector<float> given_floats(Lowering& to, const Node& node, size_t input) {
  const ConstantRef& given = to.constant(node.input(input));
  return given != nullptr && (given->type == DataType::kFloat || data_type_size(given->type) == 2)
             ? floats_of(*given)
             : std::vector<float>{};
}

// Each dimension by its size, its scale and the region of interest. Scales that are only known at run time
// are those of the output.
Result<std::vector<ResizeAxis>> axes_of(Lowering& to, const Node& node, const ResizeDesc& resize, const Shape& x,
                                        const Shape& y) {
  const std::vector<float> roi = given_floats(to, node, resize.roi_input),
                           scales = given_floats(to, node, resize.scales_input);
  const bool crops = resize.settings.coordinates == ResizeSettings::Coordinates::kTfCrop;
  TENON_UNSUPPORTED_IF(crops && roi.size() != 2 * resize.axes.size(), "{} crops by what is only known at run time.",
                       to.label(node));
  ResizeValues values;
  if (crops) values.roi.assign(roi.begin(), roi.end());
  if (!scales.empty()) {
    values.scales.assign(scales.begin(), scales.end());
  } else if (resize.settings.aspect != ResizeSettings::Aspect::kStretch) {
    TENON_TRY_ASSIGN(values.sizes, to.integers(node, resize.sizes_input));
  } else if (resize.scales.empty()) {
    for (int axis : resize.axes) values.sizes.push_back(y[axis]);
  }
  TENON_TRY_ASSIGN(std::vector<ResizeAxis> axes, resize_axes(resize, x.dims(), values));
  for (int d = 0; d < y.rank(); ++d)
    TENON_INVALID_IF(axes[d].out != y[d], "{} makes {} of {}.", to.label(node), y.to_string(), x.to_string());
  return axes;
}

// Every element is there `factor` times; 0: it is something else.
int64_t repetition(const ResizeAxis& axis, const ResizeTaps& taps) {
  if (taps.width != 1 || axis.out % axis.in != 0) return 0;
  const int64_t factor = axis.out / axis.in;
  for (int64_t o = 0; o < axis.out; ++o)
    if (taps.index[o] != o / factor || taps.outside[o]) return 0;
  return factor;
}

Status lower_repetition(Lowering& to, const Node& node, TensorId from, const std::vector<int64_t>& factors) {
  const DeviceTensor tensor = to.program().tensor(from);
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0], tensor.layout));
  const std::vector<int64_t> read = tensor.strides(), written = to.program().tensor(out).strides();
  GeneratedElementwise kernel{.type = tensor.type};
  GeneratedLeaf leaf{.type = tensor.type};
  for (size_t d = 0; d < factors.size(); ++d) {
    kernel.dims.insert(kernel.dims.end(), {tensor.shape[static_cast<int>(d)], factors[d]});
    kernel.strides.insert(kernel.strides.end(), {written[d] * factors[d], written[d]});
    leaf.strides.insert(leaf.strides.end(), {read[d], 0});
  }
  kernel.leaves = {std::move(leaf)};
  return to.add_generated(node, "resize", kernel, {from}, {}, out);
}

std::string key_of(const ResizeSettings& s, const ResizeAxis& a) {
  return format("resize {} {} {} {} {} {} {} {} {} {} {} {}", a.in, a.out, a.scale, a.roi_start, a.roi_end,
                static_cast<int>(s.mode), static_cast<int>(s.coordinates), static_cast<int>(s.rounding), s.antialias,
                s.exclude_outside, s.cubic_a, s.extrapolation);
}

}  // namespace

Status lower_resize(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.any(node.inputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  TENON_TRY_ASSIGN(const ResizeDesc resize, read_resize(node, tensor.shape.rank()));
  const ResizeSettings& settings = resize.settings;
  const Shape shape = to.value(node.outputs[0]).shape();
  TENON_INVALID_IF(shape.rank() != tensor.shape.rank(), "{} makes {} of {}.", to.label(node), shape.to_string(),
                   tensor.shape.to_string());
  TENON_TRY_ASSIGN(const std::vector<ResizeAxis> axes, axes_of(to, node, resize, tensor.shape, shape));
  if (shape.element_count() == 0) return to.make(node.outputs[0]).status();
  TENON_INVALID_IF(tensor.shape.element_count() == 0, "{} makes {} of nothing.", to.label(node), shape.to_string());
  std::vector<ResizeTaps> taps;
  std::vector<int64_t> factors;
  ResizeParams params{.fill = static_cast<float>(settings.extrapolation)};
  bool copies = true;
  for (const ResizeAxis& axis : axes) {
    taps.push_back(make_resize_taps(settings, axis));
    factors.push_back(repetition(axis, taps.back()));
    copies = copies && taps.back().width == 1;
    if (std::find(taps.back().outside.begin(), taps.back().outside.end(), true) != taps.back().outside.end())
      params.outside = 1;
  }
  if (std::find(factors.begin(), factors.end(), 0) == factors.end()) return lower_repetition(to, node, from, factors);
  const std::string compute = compute_type(tensor.type);
  TENON_UNSUPPORTED_IF(compute.empty() || (!copies && compute != "float"), "{} resizes {}.", to.label(node),
                       data_type_name(tensor.type));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0], tensor.layout));
  const std::vector<int64_t> read = tensor.strides(), written = to.program().tensor(out).strides();
  // Dimensions as they lie in the output, outermost first.
  std::vector<size_t> order(axes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return written[a] > written[b]; });
  std::vector<int64_t> dims;
  std::vector<ResizeTaps> tables;
  std::string key, widths;
  int64_t entries = 0;
  for (size_t d : order) {
    const size_t at = dims.size();
    dims.push_back(axes[d].out);
    params.strides[at] = read[d];
    params.out_strides[at] = written[d];
    int width = kKeptWidth;
    if (factors[d] != 1) {
      params.tables[at] = entries;
      params.widths[at] = static_cast<int32_t>(taps[d].width);
      width = taps[d].width <= kMostFixedWidth ? static_cast<int>(taps[d].width) : kAnyWidth;
      entries += static_cast<int64_t>(taps[d].index.size());
      key += (key.empty() ? "" : ", ") + key_of(settings, axes[d]);
      tables.push_back(std::move(taps[d]));
    }
    widths += format("{}{}", widths.empty() ? "" : ", ", width);
  }
  params.map = map_params(dims);
  TENON_TRY_ASSIGN(
      const TensorId index,
      to.program().add_constant(DataType::kInt32, Shape{entries}, key + " index", [tables](std::byte* bytes) {
        auto* next = reinterpret_cast<int32_t*>(bytes);
        for (const ResizeTaps& table : tables)
          for (size_t i = 0; i < table.index.size(); ++i)
            *next++ = table.outside[i / table.width] ? -1 : static_cast<int32_t>(table.index[i]);
      }));
  TENON_TRY_ASSIGN(
      const TensorId weight,
      to.program().add_constant(DataType::kFloat, Shape{entries}, key + " weight", [tables](std::byte* bytes) {
        auto* next = reinterpret_cast<float*>(bytes);
        for (const ResizeTaps& table : tables) next = std::copy(table.weight.begin(), table.weight.end(), next);
      }));
  return add_map(to, node, "resize", "ep/cuda/ops/resize/resize.cuh",
                 template_instance("resize", tensor.type, copies, is_wide(to, dims, {from, index, out}), widths),
                 params, params.map.count, {from, index, weight}, {out});
}

}  // namespace tenon::cuda
