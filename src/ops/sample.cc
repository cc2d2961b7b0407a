#include "ops/sample.h"

#include <utility>

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

Status infer_roi_align(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY(c.require_rank(0, 4, "X"));
  TENON_TRY(c.require_rank(1, 2, "rois"));
  const Attributes attributes(c.node());
  const int64_t height = attributes.integer("output_height"), width = attributes.integer("output_width");
  TENON_INVALID_IF(height < 1 || width < 1, "The output size {} x {} has to be positive.", height, width);
  return c.set_dims(
      0, {c.ranked(1) ? c.dims(1)[0] : Dim{}, c.ranked(0) ? c.dims(0)[1] : Dim{}, number(height), number(width)});
}

constexpr Row kRows[] = {{"GridSample", &infer_grid_sample}, {"RoiAlign", &infer_roi_align}};

}  // namespace

std::span<const Row> sample_rows() { return kRows; }

}  // namespace infer

}  // namespace tenon
