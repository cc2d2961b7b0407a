// Resize with mode nearest on the blocked layout: the source row and column of every output are found once.
#include <cmath>

#include "ep/cpu/kernels/conv_kernels.h"
#include "ep/cpu/kernels/conv_support.h"

namespace tenon::cpu {

namespace {

// The input that output `out` copies, by ONNX's coordinate_transformation_mode and nearest_mode.
Result<std::vector<int64_t>> nearest_sources(const Node& node, int64_t in, int64_t out, float scale) {
  const std::string_view transform = node.string_or("coordinate_transformation_mode", "half_pixel");
  const std::string_view nearest = node.string_or("nearest_mode", "round_prefer_floor");
  TENON_INVALID_IF(!(scale > 0), "Scale {} is not positive.", scale);
  std::vector<int64_t> sources(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const float o = static_cast<float>(i);
    float x = 0;
    if (transform == "asymmetric")
      x = o / scale;
    else if (transform == "half_pixel")
      x = (o + 0.5f) / scale - 0.5f;
    else if (transform == "pytorch_half_pixel")
      x = out > 1 ? (o + 0.5f) / scale - 0.5f : 0.0f;
    else if (transform == "align_corners")
      x = out > 1 ? o * static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f;
    else
      return unsupported("coordinate_transformation_mode \"{}\" is not served.", transform);
    float rounded = 0;
    if (nearest == "floor")
      rounded = std::floor(x);
    else if (nearest == "ceil")
      rounded = std::ceil(x);
    else if (nearest == "round_prefer_floor")
      rounded = std::ceil(x - 0.5f);
    else
      rounded = std::floor(x + 0.5f);
    sources[static_cast<size_t>(i)] =
        static_cast<int64_t>(std::clamp(static_cast<double>(rounded), 0.0, static_cast<double>(in - 1)));
  }
  return sources;
}

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
  TENON_TRY_ASSIGN(std::vector<int64_t> rows, nearest_sources(*node.node, x.shape[2], y.shape[2], scales[0]));
  TENON_TRY_ASSIGN(std::vector<int64_t> cols, nearest_sources(*node.node, x.shape[3], y.shape[3], scales[1]));
  return std::unique_ptr<Kernel>(std::make_unique<ResizeNearest>(x, std::move(rows), std::move(cols)));
}

}  // namespace tenon::cpu
