// Resize and Upsample: repetitions of whole elements as a move, all others by tables of source positions.
#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "ep/cuda/compute/codegen_images.h"
#include "ep/cuda/compute/lowering.h"
#include "ops/resize.h"

namespace tenon::cuda {

namespace {

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
    TENON_INVALID_IF(axes[static_cast<size_t>(d)].out != y[d], "{} makes {} of {}.", to.label(node), y.to_string(),
                     x.to_string());
  return axes;
}

// Every element is there `factor` times; 0: it is something else.
int64_t repetition(const ResizeAxis& axis, const ResizeTaps& taps) {
  if (taps.width != 1 || axis.out % axis.in != 0) return 0;
  const int64_t factor = axis.out / axis.in;
  for (int64_t o = 0; o < axis.out; ++o)
    if (taps.index[static_cast<size_t>(o)] != o / factor || taps.outside[static_cast<size_t>(o)]) return 0;
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
  GeneratedResize kernel{.type = tensor.type, .copies = true, .wide = tensor.shape.element_count() > INT32_MAX};
  for (const ResizeAxis& axis : axes) {
    taps.push_back(make_resize_taps(settings, axis));
    factors.push_back(repetition(axis, taps.back()));
    kernel.copies = kernel.copies && taps.back().width == 1;
    kernel.outside = kernel.outside || std::any_of(taps.back().outside.begin(), taps.back().outside.end(),
                                                   [](bool outside) { return outside; });
  }
  if (std::find(factors.begin(), factors.end(), 0) == factors.end()) return lower_repetition(to, node, from, factors);
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0], tensor.layout));
  const std::vector<int64_t> read = tensor.strides(), written = to.program().tensor(out).strides();
  kernel.fill = format("({:.9e}f)", settings.extrapolation);
  // Dimensions as they lie in the output, outermost first.
  std::vector<size_t> order(axes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return written[a] > written[b]; });
  std::vector<TensorId> reads = {from};
  for (size_t d : order) {
    const bool same = factors[d] == 1;
    kernel.dims.push_back(axes[d].out);
    kernel.strides.push_back(read[d]);
    kernel.out_strides.push_back(written[d]);
    kernel.widths.push_back(same ? 0 : taps[d].width);
    if (same) continue;
    const std::string key = key_of(settings, axes[d]);
    const Shape table{static_cast<int64_t>(taps[d].index.size())};
    TENON_TRY_ASSIGN(
        const TensorId index,
        to.program().add_constant(DataType::kInt32, table, key + " index", [held = taps[d]](std::byte* bytes) {
          auto* const numbers = reinterpret_cast<int32_t*>(bytes);
          for (size_t i = 0; i < held.index.size(); ++i) {
            const bool outside = held.outside[i / static_cast<size_t>(held.width)];
            numbers[i] = outside ? -1 : static_cast<int32_t>(held.index[i]);
          }
        }));
    TENON_TRY_ASSIGN(
        const TensorId weight,
        to.program().add_constant(DataType::kFloat, table, key + " weight", [held = taps[d].weight](std::byte* bytes) {
          std::copy(held.begin(), held.end(), reinterpret_cast<float*>(bytes));
        }));
    reads.insert(reads.end(), {index, weight});
  }
  TENON_TRY_ASSIGN(GeneratedKernel generated, generate_resize(kernel));
  return to.add_kernel(node, "resize", std::move(generated), std::move(reads), out);
}

}  // namespace tenon::cuda
