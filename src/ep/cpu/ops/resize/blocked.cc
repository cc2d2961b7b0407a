// Resize with mode nearest on the blocked layout: the source row and column of every output are found once.
#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/conv/support.h"
#include "ops/resize.h"

namespace tenon::cpu {

namespace {

class ResizeNearest final : public Kernel {
 public:
  ResizeNearest(const TensorSpec& x, std::vector<int64_t> rows, std::vector<int64_t> cols)
      : planes_(x.shape[0] * ((x.shape[1] + 7) / 8)),
        height_(x.shape[2]),
        width_(x.shape[3]),
        rows_(std::move(rows)),
        cols_(std::move(cols)) {}

  Status run(KernelContext& context) const override {
    const float* x = context.input<float>(0);
    float* y = context.output<float>(0);
    const int64_t out_rows = static_cast<int64_t>(rows_.size()), out_cols = static_cast<int64_t>(cols_.size());
    context.pool->parallel_for(planes_ * out_rows, std::max<int64_t>(16, grain_of(out_cols)),
                               [&](int64_t begin, int64_t end) {
                                 for (int64_t item = begin; item < end; ++item) {
                                   const int64_t plane = item / out_rows, row = item % out_rows;
                                   float* to = y + item * out_cols * 8;
                                   const int64_t source = rows_[row];
                                   if (item > begin && row > 0 && rows_[row - 1] == source) {
                                     std::memcpy(to, to - out_cols * 8, out_cols * 32);
                                     continue;
                                   }
                                   const float* from = x + (plane * height_ + source) * width_ * 8;
                                   for (int64_t i = 0; i < out_cols; ++i)
                                     std::memcpy(to + i * 8, from + cols_[i] * 8, 32);
                                 }
                               });
    return {};
  }
  std::string_view name() const override { return "resize_nearest"; }

 private:
  int64_t planes_, height_, width_;
  std::vector<int64_t> rows_, cols_;
};

// Scales that only the run knows are those of the output.
Result<std::vector<ResizeAxis>> axes_of(const KernelNode& node, const ResizeDesc& resize) {
  const TensorSpec &x = node.inputs[0], &y = node.outputs[0];
  const ConstantRef scales =
      node.constants.size() > resize.scales_input ? node.constants[resize.scales_input] : nullptr;
  ResizeValues values;
  if (scales != nullptr && scales->type == DataType::kFloat)
    values.scales.assign(scales->as<float>().begin(), scales->as<float>().end());
  if (values.scales.empty())
    for (int axis : resize.axes) values.sizes.push_back(y.shape[axis]);
  TENON_TRY_ASSIGN(std::vector<ResizeAxis> axes, resize_axes(resize, x.shape.dims(), values));
  for (int d = 0; d < x.shape.rank(); ++d)
    TENON_INVALID_IF(axes[d].out != y.shape[d], "The output {} has to have {} along axis {}.", y.shape.to_string(),
                     axes[d].out, d);
  return axes;
}

}  // namespace

Status match_resize_nearest(const KernelNode& node) {
  const TensorSpec &x = node.inputs[0], &y = node.outputs[0];
  TENON_UNSUPPORTED_IF(x.type != DataType::kFloat, "Only float32 is served, not {}.", data_type_name(x.type));
  TENON_UNSUPPORTED_IF(x.shape.rank() != 4 || y.shape.rank() != 4, "Rank {} is not 4.", x.shape.rank());
  TENON_TRY(expect_layout(x, Layout::kBlocked8, "The input"));
  TENON_TRY(expect_layout(y, Layout::kBlocked8, "The output"));
  TENON_TRY_ASSIGN(const ResizeDesc resize, read_resize(*node.node, x.shape.rank()));
  const ResizeSettings& settings = resize.settings;
  TENON_UNSUPPORTED_IF(settings.mode != ResizeSettings::Mode::kNearest, "The mode is not nearest.");
  using Coordinates = ResizeSettings::Coordinates;
  TENON_UNSUPPORTED_IF(
      settings.coordinates != Coordinates::kAsymmetric && settings.coordinates != Coordinates::kHalfPixel &&
          settings.coordinates != Coordinates::kPytorch && settings.coordinates != Coordinates::kAlignCorners,
      "The coordinate_transformation_mode is not served.");
  TENON_UNSUPPORTED_IF(settings.aspect != ResizeSettings::Aspect::kStretch, "The image keeps its aspect ratio.");
  TENON_UNSUPPORTED_IF(x.shape[2] <= 0 || x.shape[3] <= 0, "The maps are empty.");
  TENON_TRY_ASSIGN(const std::vector<ResizeAxis> axes, axes_of(node, resize));
  // A scale of 1.1 keeps the number of 8 channels, and still repeats one of them.
  TENON_UNSUPPORTED_IF(axes[0].scale != 1 || axes[1].scale != 1, "The first two axes are scaled.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_resize_nearest(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ResizeDesc resize, read_resize(*node.node, node.inputs[0].shape.rank()));
  TENON_TRY_ASSIGN(const std::vector<ResizeAxis> axes, axes_of(node, resize));
  return std::unique_ptr<Kernel>(std::make_unique<ResizeNearest>(node.inputs[0],
                                                                 make_resize_taps(resize.settings, axes[2]).index,
                                                                 make_resize_taps(resize.settings, axes[3]).index));
}

}  // namespace tenon::cpu
