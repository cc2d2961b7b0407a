#include "ep/cpu/ops/resize/grid.h"

#include <algorithm>

namespace tenon::cpu {

namespace {

// Longer axes are the reference kernel's, which asks for memory before it makes tables.
constexpr int64_t kMostCoordinates = int64_t{1} << 22;

bool is_identity(const ResizeTaps& taps) {
  if (taps.width != 1 || taps.in != std::ssize(taps.index)) return false;
  for (int64_t i = 0; i < taps.in; ++i)
    if (taps.index[i] != i) return false;
  return true;
}

// An axis that stays as it is.
ResizeTaps same(int64_t length) {
  ResizeTaps taps{.in = length, .stride = 1, .width = 1};
  for (int64_t i = 0; i < length; ++i) taps.index.push_back(i);
  taps.weight.assign(length, 1);
  return taps;
}

// A tap of weight 0 would turn an infinity or a NaN into a NaN: it takes half of the largest tap instead. Halving is
// exact.
void fill_empty_taps(ResizeTaps& taps) {
  for (int64_t begin = 0; begin < std::ssize(taps.weight); begin += taps.width) {
    const auto first = taps.weight.begin() + begin, last = first + taps.width;
    for (auto empty = std::find(first, last, 0.0); empty != last; empty = std::find(empty + 1, last, 0.0)) {
      const auto largest = std::max_element(first, last);
      if (*largest <= 0) break;
      *largest /= 2;
      *empty = *largest;
      taps.index[empty - taps.weight.begin()] = taps.index[largest - taps.weight.begin()];
    }
  }
}

bool changes(const ResizeAxis& axis) { return axis.in != axis.out || axis.scale != 1; }

}  // namespace

bool ResizeGrid::same_rows() const { return is_identity(rows); }
bool ResizeGrid::same_columns() const { return is_identity(columns); }

Result<std::vector<ResizeAxis>> known_resize_axes(const KernelNode& node, const ResizeDesc& resize) {
  const TensorSpec &x = node.inputs[0], &y = node.outputs[0];
  const auto present = [&](size_t input) {
    return input < node.inputs.size() && node.inputs[input].present() && node.inputs[input].shape.element_count() > 0;
  };
  TENON_UNSUPPORTED_IF(y.dynamic, "The output's size is known only to the run.");
  TENON_UNSUPPORTED_IF(resize.settings.coordinates == ResizeSettings::Coordinates::kTfCrop,
                       "The region of interest may reach beyond the input.");
  TENON_UNSUPPORTED_IF(resize.settings.aspect != ResizeSettings::Aspect::kStretch, "The image keeps its aspect ratio.");
  ResizeValues values;
  if (present(resize.sizes_input)) {
    for (int axis : resize.axes) values.sizes.push_back(y.shape[axis]);
  } else if (present(resize.scales_input)) {
    const ConstantRef scales =
        resize.scales_input < node.constants.size() ? node.constants[resize.scales_input] : nullptr;
    TENON_UNSUPPORTED_IF(scales == nullptr || scales->type != DataType::kFloat,
                         "The scales are known only to the run.");
    values.scales.assign(scales->as<float>().begin(), scales->as<float>().end());
  }
  TENON_TRY_ASSIGN(std::vector<ResizeAxis> axes, resize_axes(resize, x.shape.dims(), values));
  for (int d = 0; d < x.shape.rank(); ++d) {
    TENON_INVALID_IF(axes[d].out != y.shape[d], "The output {} has to have {} along axis {}.", y.shape.to_string(),
                     axes[d].out, d);
    TENON_UNSUPPORTED_IF(axes[d].in <= 0 || axes[d].out <= 0, "The tensors are empty.");
  }
  return axes;
}

Result<ResizeGrid> resize_grid(const KernelNode& node, int most) {
  const TensorSpec &x = node.inputs[0], &y = node.outputs[0];
  TENON_UNSUPPORTED_IF(x.layout != y.layout, "Input and output have different layouts.");
  const bool blocked = x.layout == Layout::kBlocked8;
  const int rank = x.shape.rank();
  TENON_TRY_ASSIGN(const ResizeDesc resize, read_resize(*node.node, rank));
  TENON_TRY_ASSIGN(const std::vector<ResizeAxis> axes, known_resize_axes(node, resize));
  int first = rank, last = -1;
  for (int d = 0; d < rank; ++d) {
    if (!changes(axes[d])) continue;
    first = std::min(first, d);
    last = d;
  }
  if (last < 0) first = last = rank - 1;
  TENON_UNSUPPORTED_IF(rank == 0 || last - first >= most, "Axes from {} to {} are resized, not up to {} neighbours.",
                       first, last, most);
  TENON_UNSUPPORTED_IF(blocked && (rank < 3 || first < 2), "The axes of the blocks are resized.");
  for (int d = first; d <= last; ++d)
    TENON_UNSUPPORTED_IF(std::max(axes[d].in, axes[d].out) > kMostCoordinates, "Axis {} goes from {} to {} elements.",
                         d, axes[d].in, axes[d].out);
  ResizeGrid grid;
  for (int d = 0; d < first; ++d) grid.outer *= blocked && d == 1 ? (x.shape[1] + 7) / 8 : x.shape[d];
  for (int d = last + 1; d < rank; ++d) grid.inner *= x.shape[d];
  if (blocked) grid.inner *= 8;
  grid.planes = last - first < 2 ? same(1) : make_resize_taps(resize.settings, axes[first]);
  grid.rows = first == last ? same(1) : make_resize_taps(resize.settings, axes[last - 1]);
  grid.columns = make_resize_taps(resize.settings, axes[last]);
  fill_empty_taps(grid.planes);
  fill_empty_taps(grid.rows);
  fill_empty_taps(grid.columns);
  TENON_UNSUPPORTED_IF(grid.columns.in > INT32_MAX / grid.inner || y.shape[last] > INT32_MAX / grid.inner,
                       "A row has more elements than a table's numbers.");
  return grid;
}

}  // namespace tenon::cpu
