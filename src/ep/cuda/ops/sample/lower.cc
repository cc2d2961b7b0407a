// GridSample: elements at computed positions.
#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/sample/grid_sample_params.h"
#include "ops/sample.h"

namespace tenon::cuda {

namespace {

template <auto kOurs, auto kTheirs>
constexpr bool same = static_cast<int>(kOurs) == static_cast<int>(kTheirs);
static_assert(same<SampleMode::kNearest, GridSampleDesc::Mode::kNearest> &&
              same<SampleMode::kLinear, GridSampleDesc::Mode::kLinear> &&
              same<SampleMode::kCubic, GridSampleDesc::Mode::kCubic> &&
              same<SamplePadding::kZeros, GridSampleDesc::Padding::kZeros> &&
              same<SamplePadding::kBorder, GridSampleDesc::Padding::kBorder> &&
              same<SamplePadding::kReflection, GridSampleDesc::Padding::kReflection>);

}  // namespace

Status lower_grid_sample(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId grid, to.plain(node.inputs[1]));
  const DeviceTensor x = to.program().tensor(from), positions = to.program().tensor(grid);
  const int axes = x.shape.rank() - 2;
  TENON_UNSUPPORTED_IF(compute_type(x.type) != "float" || compute_type(positions.type) != "float", "{} samples {}.",
                       to.label(node), data_type_name(x.type));
  TENON_TRY_ASSIGN(const GridSampleDesc sample, read_grid_sample(node, x.shape.dims(), positions.shape.dims()));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const Shape y = to.program().tensor(out).shape;
  TENON_INVALID_IF(x.shape.element_count() == 0 && y.element_count() != 0, "{} samples nothing.", to.label(node));
  const std::vector<int64_t> dims = dims_of(y);
  GridSampleParams params{
      .map = map_params(dims), .channels = x.shape[1], .align_corners = sample.align_corners ? 1 : 0};
  for (int d = 0; d < axes; ++d) {
    const int64_t size = x.shape[d + 2];
    const auto whole = static_cast<double>(size);
    params.out[d] = y[d + 2];
    params.axes[d] = {.size = size,
                      .whole = static_cast<float>(size),
                      .last = static_cast<float>(size - 1),
                      .low = sample.align_corners ? 0.0F : -0.5F,
                      .high = static_cast<float>(sample.align_corners ? whole - 1 : whole - 0.5)};
  }
  return add_map(to, node, "grid_sample", "ep/cuda/ops/sample/grid_sample.cuh",
                 template_instance("grid_sample", x.type, positions.type,
                                   TemplateEnum{"tenon::cuda::SampleMode", static_cast<int>(sample.mode)},
                                   TemplateEnum{"tenon::cuda::SamplePadding", static_cast<int>(sample.padding)}, axes,
                                   is_wide(to, dims, {from, grid, out})),
                 params, params.map.count, {from, grid}, {out});
}

}  // namespace tenon::cuda
