#include "ops/image.h"

#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/status.h"
#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

// Sizes beyond this are nonsense, and below it no sum or product of two of them overflows.
constexpr int64_t kMostPositions = int64_t{1} << 31;

// The windows of `block` over `image`, how often they fit along each axis.
Result<Window> read_col2im_window(const Node& node, std::span<const int64_t> image, std::span<const int64_t> block) {
  const size_t rank = image.size();
  TENON_INVALID_IF(rank == 0 || block.size() != rank, "Col2Im has an image of {} axes and a block of {}.", rank,
                   block.size());
  TENON_TRY_ASSIGN(const AxisValues strides, read_axis_values(node, "strides", rank, 1, 1));
  TENON_TRY_ASSIGN(const AxisValues dilations, read_axis_values(node, "dilations", rank, 1, 1));
  TENON_TRY_ASSIGN(const AxisValues pads, read_axis_values(node, "pads", 2 * rank, 0, 0));
  Window window;
  for (size_t i = 0; i < rank; ++i) {
    WindowAxis axis{.in = image[i],
                    .kernel = block[i],
                    .stride = strides[i],
                    .dilation = dilations[i],
                    .pad_begin = pads[i],
                    .pad_end = pads[i + rank]};
    for (int64_t size : {axis.in, axis.kernel}) {
      TENON_INVALID_IF(size < 1 || size > kMostPositions, "Col2Im has the size {} in axis {}; it has to be in 1 to {}.",
                       size, i, kMostPositions);
    }
    window.axes.push_back(axis);
  }
  TENON_TRY(slide(window));
  return window;
}

Result<Shape> unpooled_shape(const Node& node, std::span<const int64_t> x) {
  const std::span<const int64_t> kernel = Attributes(node).integers("kernel_shape");
  const size_t rank = kernel.size();
  TENON_INVALID_IF(x.size() < 3 || rank + 2 != x.size(), "MaxUnpool has a kernel_shape of {} axes for an X of rank {}.",
                   rank, x.size());
  TENON_TRY_ASSIGN(const AxisValues kernels, read_axis_values(node, "kernel_shape", rank, 1, 1));
  TENON_TRY_ASSIGN(const AxisValues strides, read_axis_values(node, "strides", rank, 1, 1));
  TENON_TRY_ASSIGN(const AxisValues pads, read_axis_values(node, "pads", 2 * rank, 0, 0));
  Shape whole{x[0], x[1]};
  for (size_t i = 0; i < rank; ++i) {
    const int64_t in = x[i + 2];
    TENON_INVALID_IF(in > kMostPositions, "MaxUnpool has an X with {} elements along axis {}.", in, i + 2);
    // The attributes are at most 2^31 each.
    const int64_t out = (in - 1) * strides[i] - (pads[i] + pads[i + rank]) + kernels[i];
    TENON_INVALID_IF(out < 0, "MaxUnpool has {} elements along axis {} of its output.", out, i + 2);
    whole.push_back(out);
  }
  return whole;
}

}  // namespace

Shape Col2ImDesc::output() const {
  Shape shape{batch, channels};
  for (const WindowAxis& axis : window.axes) shape.push_back(axis.in);
  return shape;
}

Result<Col2ImDesc> read_col2im(const Node& node, const Shape& x, std::span<const int64_t> image,
                               std::span<const int64_t> block) {
  TENON_INVALID_IF(x.rank() != 3, "Col2Im needs columns of rank 3, not {}.", x.to_string());
  TENON_INVALID_IF(image.size() + 2 > Shape::kMaxRank, "Col2Im makes an image of {} axes; the limit is {}.",
                   image.size(), Shape::kMaxRank - 2);
  Col2ImDesc desc{.batch = x[0]};
  TENON_TRY_ASSIGN(desc.window, read_col2im_window(node, image, block));
  const std::optional<int64_t> each = checked_product(block);
  TENON_INVALID_IF(!each || x[1] % *each != 0, "Col2Im has {} rows, no multiple of the block's {} elements.", x[1],
                   each.value_or(0));
  std::vector<int64_t> positions;
  for (const WindowAxis& axis : desc.window.axes) positions.push_back(axis.out);
  const std::optional<int64_t> columns = checked_product(positions);
  TENON_INVALID_IF(!columns || x[2] != *columns, "Col2Im has {} columns for the {} positions of its windows.", x[2],
                   columns.value_or(0));
  desc.channels = x[1] / *each;
  return desc;
}

Result<MaxUnpoolDesc> read_max_unpool(const Node& node, const Shape& x, const Shape& indices,
                                      const std::optional<std::vector<int64_t>>& output_shape) {
  TENON_INVALID_IF(x != indices, "MaxUnpool has an X of shape {} and indices of {}.", x.to_string(),
                   indices.to_string());
  MaxUnpoolDesc desc;
  TENON_TRY_ASSIGN(desc.whole, unpooled_shape(node, x.dims()));
  TENON_TRY(desc.whole.checked_element_count().status());
  desc.output = desc.whole;
  if (!output_shape) return desc;
  bool fits = std::ssize(*output_shape) == desc.whole.rank();
  for (int d = 0; fits && d < desc.whole.rank(); ++d) fits = (*output_shape)[d] >= desc.whole[d];
  TENON_INVALID_IF(!fits, "MaxUnpool has an output_shape that does not hold its image of {}.", desc.whole.to_string());
  desc.output = Shape(*output_shape);
  return desc;
}

Result<std::vector<int>> read_crop_axes(const Node& node, int rank) {
  std::vector<int> axes;
  if (!node.has("axes")) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  AxisSet set;
  for (int64_t axis : Attributes(node).integers("axes")) {
    TENON_TRY_ASSIGN(const int d, add_axis(set, axis, rank));
    axes.push_back(d);
  }
  return axes;
}

namespace infer {
namespace {

Status infer_col2im(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY(c.require_rank(0, 3, "input"));
  const std::optional<std::vector<int64_t>> image = c.values(1), block = c.values(2);
  if (!image) {
    const std::optional<int64_t> axes = c.length(1);
    return axes ? c.set_unknown_dims(*axes + 2) : Status();
  }
  TENON_TRY_ASSIGN(Dims dims, known_dims(*image));
  Dim channels;
  if (block) {
    TENON_TRY(read_col2im_window(c.node(), *image, *block).status());
    const std::optional<int64_t> each = checked_product(*block);
    if (c.ranked(0) && c.dims(0)[1].known() && each && *each > 0) channels = number(c.dims(0)[1].value / *each);
  }
  dims.insert(dims.begin(), {c.ranked(0) ? c.dims(0)[0] : Dim{}, channels});
  return c.set_dims(0, std::move(dims));
}

Status infer_max_unpool(Context& c) {
  c.set_type(0, c.type(0));
  if (c.has(2)) {
    const std::optional<std::vector<int64_t>> shape = c.values(2);
    if (!shape) return c.ranked(0) ? c.set_unknown_dims(c.rank(0)) : Status();
    TENON_TRY_ASSIGN(Dims dims, known_dims(*shape));
    return c.set_dims(0, std::move(dims));
  }
  if (!c.ranked(0)) return {};
  std::vector<int64_t> x;
  for (const Dim& dim : c.dims(0)) x.push_back(dim.known() ? dim.value : int64_t{1} << 20);
  TENON_TRY_ASSIGN(const Shape whole, unpooled_shape(c.node(), x));
  Dims out = c.dims(0);
  for (size_t d = 2; d < out.size(); ++d) out[d] = out[d].known() ? number(whole[static_cast<int>(d)]) : Dim{};
  return c.set_dims(0, std::move(out));
}

Status infer_center_crop_pad(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(const std::vector<int> axes, read_crop_axes(c.node(), c.rank(0)));
  Dims out = c.dims(0);
  const std::optional<std::vector<int64_t>> shape = c.values(1);
  TENON_INVALID_IF(shape && shape->size() != axes.size(), "CenterCropPad has a shape of {} numbers for {} axes.",
                   shape->size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    TENON_INVALID_IF(shape && (*shape)[i] < 0, "CenterCropPad has the negative size {}.", (*shape)[i]);
    out[axes[i]] = shape ? number((*shape)[i]) : Dim{};
  }
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {
    {"CenterCropPad", &infer_center_crop_pad},
    {"Col2Im", &infer_col2im},
    {"MaxUnpool", &infer_max_unpool},
};

}  // namespace

std::span<const Row> image_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
