#include "ops/sample.h"

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

Result<GridSampleDesc> read_grid_sample(const Node& node, std::span<const int64_t> x, std::span<const int64_t> grid) {
  const auto differ = [](int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; };
  TENON_INVALID_IF(x.size() < 3 || grid.size() != x.size(),
                   "X of rank {} and the grid of rank {} need the same rank, 3 or more.", x.size(), grid.size());
  TENON_INVALID_IF(differ(x[0], grid[0]), "X has {} images and the grid {}.", x[0], grid[0]);
  TENON_INVALID_IF(differ(static_cast<int64_t>(x.size()) - 2, grid.back()),
                   "The grid has {} coordinates a position for {} spatial dimensions.", grid.back(), x.size() - 2);
  const Attributes attributes(node);
  GridSampleDesc sample{.align_corners = attributes.flag("align_corners")};
  const std::string_view mode = attributes.text("mode"), padding = attributes.text("padding_mode");
  // Version 16 has the names of two dimensions.
  if (mode == "nearest") {
    sample.mode = GridSampleDesc::Mode::kNearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    sample.mode = GridSampleDesc::Mode::kCubic;
  } else {
    TENON_INVALID_IF(mode != "linear" && mode != "bilinear", "Attribute \"mode\" (\"{}\") is unknown.", mode);
  }
  if (padding == "border") {
    sample.padding = GridSampleDesc::Padding::kBorder;
  } else if (padding == "reflection") {
    sample.padding = GridSampleDesc::Padding::kReflection;
  } else {
    TENON_INVALID_IF(padding != "zeros", "Attribute \"padding_mode\" (\"{}\") is unknown.", padding);
  }
  return sample;
}

Result<AffineGridDesc> read_affine_grid(const Node& node, const Shape& theta) {
  AffineGridDesc desc{.align_corners = Attributes(node).flag("align_corners")};
  const bool fits = theta.rank() == 3 && (theta[1] == 2 || theta[1] == 3) && theta[2] == theta[1] + 1;
  TENON_INVALID_IF(!fits, "AffineGrid has a theta of shape {}; it needs [batch,2,3] or [batch,3,4].",
                   theta.to_string());
  desc.batch = theta[0];
  desc.spatial = static_cast<int>(theta[1]);
  return desc;
}

namespace {

// An output size that no product of it with another one overflows.
Status check_pooled(std::string_view op, int64_t height, int64_t width) {
  constexpr int64_t kMost = int64_t{1} << 31;
  TENON_INVALID_IF(height < 1 || width < 1 || height > kMost || width > kMost,
                   "{} has the output size {} x {}; each has to be in 1 to {}.", op, height, width, kMost);
  return {};
}

Result<std::pair<int64_t, int64_t>> read_pooled_shape(const Node& node) {
  const std::span<const int64_t> pooled = Attributes(node).integers("pooled_shape");
  TENON_INVALID_IF(pooled.size() != 2, "Attribute \"pooled_shape\" has {} values instead of 2.", pooled.size());
  TENON_TRY(check_pooled(node.op_type, pooled[0], pooled[1]));
  return std::pair(pooled[0], pooled[1]);
}

Result<RoiDesc> read_regions(const Node& node, const Shape& x, const Shape& rois, int64_t columns) {
  TENON_INVALID_IF(x.rank() != 4, "{} needs an X of rank 4, not {}.", node.op_type, x.to_string());
  TENON_INVALID_IF(rois.rank() != 2 || rois[1] != columns, "{} has rois of shape {}; it needs [regions,{}].",
                   node.op_type, rois.to_string(), columns);
  return RoiDesc{.batch = x[0],
                 .channels = x[1],
                 .height = x[2],
                 .width = x[3],
                 .regions = rois[0],
                 .scale = Attributes(node).number("spatial_scale")};
}

}  // namespace

Result<RoiDesc> read_roi_align(const Node& node, const Shape& x, const Shape& rois, const Shape& batch_indices) {
  TENON_TRY_ASSIGN(RoiDesc desc, read_regions(node, x, rois, 4));
  TENON_INVALID_IF(!(batch_indices == Shape{desc.regions}), "RoiAlign has batch_indices of shape {} for {} regions.",
                   batch_indices.to_string(), desc.regions);
  const Attributes attributes(node);
  desc.out_height = attributes.integer("output_height");
  desc.out_width = attributes.integer("output_width");
  TENON_TRY(check_pooled(node.op_type, desc.out_height, desc.out_width));
  desc.sampling_ratio = attributes.integer("sampling_ratio");
  TENON_INVALID_IF(desc.sampling_ratio < 0 || desc.sampling_ratio > (int64_t{1} << 16),
                   "Attribute \"sampling_ratio\" is {}; it has to be in 0 to {}.", desc.sampling_ratio,
                   int64_t{1} << 16);
  const std::string_view mode = attributes.text("mode");
  TENON_INVALID_IF(mode != "avg" && mode != "max", "Attribute \"mode\" (\"{}\") is unknown.", mode);
  desc.max = mode == "max";
  // Version 10 has no choice, and its regions are not moved by half an element.
  if (node.since_version < 16) return desc;
  const std::string_view coordinates = attributes.text("coordinate_transformation_mode");
  TENON_INVALID_IF(coordinates != "half_pixel" && coordinates != "output_half_pixel",
                   "Attribute \"coordinate_transformation_mode\" (\"{}\") is unknown.", coordinates);
  desc.half_pixel = coordinates == "half_pixel";
  return desc;
}

Result<RoiDesc> read_max_roi_pool(const Node& node, const Shape& x, const Shape& rois) {
  TENON_TRY_ASSIGN(RoiDesc desc, read_regions(node, x, rois, 5));
  TENON_TRY_ASSIGN(std::tie(desc.out_height, desc.out_width), read_pooled_shape(node));
  desc.max = true;
  return desc;
}

namespace infer {

namespace {

Status infer_grid_sample(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || !c.ranked(1)) return {};
  std::vector<int64_t> x, grid;
  for (const Dim& dim : c.dims(0)) x.push_back(dim.value);
  for (const Dim& dim : c.dims(1)) grid.push_back(dim.value);
  TENON_TRY(read_grid_sample(c.node(), x, grid).status());
  Dims out = c.dims(1);
  out.pop_back();
  out.insert(out.begin() + 1, c.dims(0)[1]);
  return c.set_dims(0, std::move(out));
}

Status infer_affine_grid(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY(c.require_rank(0, 3, "theta"));
  const std::optional<std::vector<int64_t>> size = c.values(1);
  if (!size) return {};
  const auto rank = static_cast<int64_t>(size->size());
  TENON_INVALID_IF(rank != 4 && rank != 5, "AffineGrid has a size of {} numbers; it needs 4 or 5.", rank);
  TENON_TRY_ASSIGN(Dims dims, known_dims(*size));
  if (c.ranked(0)) {
    const Dims& theta = c.dims(0);
    TENON_INVALID_IF(certainly_differ(theta[0], dims[0]) || certainly_differ(theta[1], number(rank - 2)) ||
                         certainly_differ(theta[2], number(rank - 1)),
                     "AffineGrid has a theta of shape {} for an image of size {}.", text(theta), text(dims));
  }
  dims.erase(dims.begin() + 1);
  dims.push_back(number(rank - 2));
  return c.set_dims(0, std::move(dims));
}

Status infer_regions(Context& c, int64_t height, int64_t width) {
  c.set_type(0, c.type(0));
  TENON_TRY(c.require_rank(0, 4, "X"));
  TENON_TRY(c.require_rank(1, 2, "rois"));
  TENON_TRY(check_pooled(c.node().op_type, height, width));
  return c.set_dims(
      0, {c.ranked(1) ? c.dims(1)[0] : Dim{}, c.ranked(0) ? c.dims(0)[1] : Dim{}, number(height), number(width)});
}

Status infer_roi_align(Context& c) {
  const Attributes attributes(c.node());
  return infer_regions(c, attributes.integer("output_height"), attributes.integer("output_width"));
}

Status infer_max_roi_pool(Context& c) {
  TENON_TRY_ASSIGN(const auto pooled, read_pooled_shape(c.node()));
  return infer_regions(c, pooled.first, pooled.second);
}

constexpr Row kRows[] = {{"AffineGrid", &infer_affine_grid},
                         {"GridSample", &infer_grid_sample},
                         {"MaxRoiPool", &infer_max_roi_pool},
                         {"RoiAlign", &infer_roi_align}};

}  // namespace

std::span<const Row> sample_rows() { return kRows; }

}  // namespace infer

}  // namespace tenon
