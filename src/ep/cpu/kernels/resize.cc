// Resize with mode nearest on the blocked layout: the source row and column of every output are found once.
#include "ep/cpu/kernels/conv_kernels.h"
#include "ep/cpu/kernels/conv_support.h"
#include "ops/resize_taps.h"

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
                                   const int64_t source = rows_[static_cast<size_t>(row)];
                                   if (item > begin && row > 0 && rows_[static_cast<size_t>(row - 1)] == source) {
                                     std::memcpy(to, to - out_cols * 8, static_cast<size_t>(out_cols) * 32);
                                     continue;
                                   }
                                   const float* from = x + (plane * height_ + source) * width_ * 8;
                                   for (int64_t i = 0; i < out_cols; ++i)
                                     std::memcpy(to + i * 8, from + cols_[static_cast<size_t>(i)] * 8, 32);
                                 }
                               });
    return {};
  }
  std::string_view name() const override { return "resize_nearest"; }

 private:
  int64_t planes_, height_, width_;
  std::vector<int64_t> rows_, cols_;
};

}  // namespace

Status match_resize_nearest(const KernelNode& node) {
  const TensorSpec &x = node.inputs[0], &y = node.outputs[0];
  const Node& n = *node.node;
  TENON_UNSUPPORTED_IF(x.type != DataType::kFloat, "Only float32 is served, not {}.", data_type_name(x.type));
  TENON_UNSUPPORTED_IF(x.shape.rank() != 4 || y.shape.rank() != 4, "Rank {} is not 4.", x.shape.rank());
  TENON_TRY(expect_layout(x, Layout::kBlocked8, "The input"));
  TENON_TRY(expect_layout(y, Layout::kBlocked8, "The output"));
  TENON_UNSUPPORTED_IF(n.string_or("mode", "nearest") != "nearest", "Mode {} is not nearest.",
                       n.string_or("mode", "nearest"));
  const std::string_view transform = n.string_or("coordinate_transformation_mode", "half_pixel");
  TENON_UNSUPPORTED_IF(transform != "asymmetric" && transform != "half_pixel" && transform != "pytorch_half_pixel" &&
                           transform != "align_corners",
                       "coordinate_transformation_mode \"{}\" is not served.", transform);
  TENON_UNSUPPORTED_IF(n.has("axes") || n.has("keep_aspect_ratio_policy"),
                       "The sizes are not for all axes, stretched.");
  TENON_UNSUPPORTED_IF(x.shape[0] != y.shape[0] || x.shape[1] != y.shape[1], "The first two axes change.");
  TENON_UNSUPPORTED_IF(x.shape[2] <= 0 || x.shape[3] <= 0, "The maps are empty.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_resize_nearest(const KernelNode& node) {
  const TensorSpec &x = node.inputs[0], &y = node.outputs[0];
  float scales[2] = {static_cast<float>(y.shape[2]) / static_cast<float>(x.shape[2]),
                     static_cast<float>(y.shape[3]) / static_cast<float>(x.shape[3])};
  if (node.constants.size() > 2 && node.constants[2] != nullptr && node.constants[2]->as<float>().size() == 4) {
    scales[0] = node.constants[2]->as<float>()[2];
    scales[1] = node.constants[2]->as<float>()[3];
  }
  TENON_TRY_ASSIGN(const ResizeSettings settings, read_resize_settings(*node.node));
  std::vector<int64_t> sources[2];
  for (int i = 0; i < 2; ++i) {
    TENON_INVALID_IF(!(scales[i] > 0), "Scale {} is not positive.", scales[i]);
    const ResizeAxis axis{.in = x.shape[2 + i], .out = y.shape[2 + i], .scale = static_cast<double>(scales[i])};
    sources[i] = make_resize_taps(settings, axis).index;
  }
  auto &rows = sources[0], &cols = sources[1];
  return std::unique_ptr<Kernel>(std::make_unique<ResizeNearest>(x, std::move(rows), std::move(cols)));
}

}  // namespace tenon::cpu
