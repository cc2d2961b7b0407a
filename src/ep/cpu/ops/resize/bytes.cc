// Linear Resize of bytes: four weighted elements in float32, summed in the order of the reference kernel and cut off
// as there, so that both give the same bytes.
#include <algorithm>
#include <type_traits>

#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/resize/grid.h"
#include "ep/cpu/ops/resize/rows.h"
#include "ep/cpu/simd/byte_binary.h"

namespace tenon::cpu {

namespace {

template <typename T>
class ResizeBytes final : public Kernel {
 public:
  explicit ResizeBytes(ResizeGrid grid) : grid_(std::move(grid)) {
    const int64_t spread = grid_.inner;
    pixels_ = std::ssize(grid_.columns.index) / grid_.columns.width * spread;
    for (int64_t j = 0; j < pixels_; ++j) {
      // A pixel of an axis that stays as it is has one tap.
      const int64_t first = j / spread * grid_.columns.width, second = first + grid_.columns.width - 1;
      left_.push_back(static_cast<int32_t>(grid_.columns.index[first] * spread + j % spread));
      right_.push_back(static_cast<int32_t>(grid_.columns.index[second] * spread + j % spread));
      left_weight_.push_back(static_cast<float>(grid_.columns.weight[first]));
      right_weight_.push_back(first == second ? 0 : static_cast<float>(grid_.columns.weight[second]));
    }
  }

  Status run(KernelContext& context) const override {
    const T* const x = context.input<T>(0);
    T* const y = context.output<T>(0);
    const int64_t taps = grid_.rows.width, out_rows = std::ssize(grid_.rows.index) / taps;
    const int64_t in_row = grid_.columns.in * grid_.inner;
    context.pool->parallel_for(grid_.outer * out_rows, grain_of(pixels_), [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t plane = item / out_rows, first = item % out_rows * taps, second = first + taps - 1;
        const T* const image = x + plane * grid_.rows.in * in_row;
        run_row(image + grid_.rows.index[first] * in_row, image + grid_.rows.index[second] * in_row,
                static_cast<float>(grid_.rows.weight[first]),
                first == second ? 0 : static_cast<float>(grid_.rows.weight[second]), y + item * pixels_);
      }
    });
    return {};
  }
  std::string_view name() const override { return "resize bytes"; }

 private:
  void run_row(const T* top, const T* bottom, float top_weight, float bottom_weight, T* y) const {
    if (grid_.inner % 8 == 0) {
      byte_binary_table().mix({.top = reinterpret_cast<const uint8_t*>(top),
                               .bottom = reinterpret_cast<const uint8_t*>(bottom),
                               .top_weight = top_weight,
                               .bottom_weight = bottom_weight,
                               .left = left_.data(),
                               .right = right_.data(),
                               .left_weight = left_weight_.data(),
                               .right_weight = right_weight_.data(),
                               .flip = static_cast<uint8_t>(std::is_signed_v<T> ? 0x80 : 0),
                               .count = pixels_,
                               .y = reinterpret_cast<uint8_t*>(y)});
      return;
    }
    for (int64_t j = 0; j < pixels_; ++j) {
      const float left = left_weight_[j], right = right_weight_[j];
      float sum = (top_weight * left) * static_cast<float>(top[left_[j]]);
      sum += (top_weight * right) * static_cast<float>(top[right_[j]]);
      sum += (bottom_weight * left) * static_cast<float>(bottom[left_[j]]);
      sum += (bottom_weight * right) * static_cast<float>(bottom[right_[j]]);
      y[j] = static_cast<T>(static_cast<int32_t>(sum));
    }
  }

  const ResizeGrid grid_;
  int64_t pixels_ = 0;
  std::vector<int32_t> left_, right_;
  std::vector<float> left_weight_, right_weight_;
};

}  // namespace

Status match_resize_bytes(const KernelNode& node) {
  const DataType type = node.inputs[0].type;
  TENON_UNSUPPORTED_IF(!is_byte_type(type), "Only bytes are served, not {}.", data_type_name(type));
  TENON_TRY_ASSIGN(const ResizeSettings settings, read_resize_settings(*node.node));
  TENON_UNSUPPORTED_IF(settings.mode != ResizeSettings::Mode::kLinear || settings.antialias,
                       "The mode is not linear without antialiasing.");
  return resize_grid(node).status();
}

Result<std::unique_ptr<Kernel>> create_resize_bytes(const KernelNode& node) {
  TENON_TRY_ASSIGN(ResizeGrid grid, resize_grid(node));
  if (node.inputs[0].type == DataType::kInt8)
    return std::unique_ptr<Kernel>(std::make_unique<ResizeBytes<int8_t>>(std::move(grid)));
  return std::unique_ptr<Kernel>(std::make_unique<ResizeBytes<uint8_t>>(std::move(grid)));
}

}  // namespace tenon::cpu
