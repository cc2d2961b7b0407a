// Resize of f32 with modes linear and cubic, antialiased or not: one axis after the other. Rows that shrink are summed
// first, so that columns are computed for the rows of the output only; rows that grow are summed last, from rows whose
// columns are already those of the output and that serve several output rows. Of three axes, the first one is summed
// over whole planes of the input.
#include <algorithm>
#include <array>

#include "base/checked.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/resize/grid.h"
#include "ep/cpu/ops/resize/rows.h"
#include "ep/cpu/simd/resize.h"

namespace tenon::cpu {

namespace {

// Short inner sizes are spread over the table: then neighbouring floats are neighbouring pixels.
constexpr int64_t kShortInner = 24;
// Planes of which one of the output is a sum, at most.
constexpr int64_t kMostPlanes = 32;

class ResizeMix final : public Kernel {
 public:
  ResizeMix(ResizeGrid grid, int slots)
      : planes_(grid.planes),
        outer_(grid.outer * (std::ssize(planes_.index) / planes_.width)),
        in_rows_(grid.rows.in),
        out_rows_(std::ssize(grid.rows.index) / grid.rows.width),
        in_row_(grid.columns.in * grid.inner),
        out_row_(std::ssize(grid.columns.index) / grid.columns.width * grid.inner),
        row_taps_(grid.rows.width),
        same_rows_(grid.same_rows()),
        same_columns_(grid.same_columns()),
        columns_last_(out_rows_ <= in_rows_),
        row_index_(grid.rows.index),
        row_weight_(grid.rows.weight.begin(), grid.rows.weight.end()),
        slots_(slots) {
    plane_weight_.assign(planes_.weight.begin(), planes_.weight.end());
    mixes_planes_ = planes_.width > 1 || planes_.in > 1;
    make_columns(grid);
    kept_rows_ = std::min(row_taps_, in_rows_);
    const int64_t floats = same_rows_ || same_columns_ ? 0 : columns_last_ ? in_row_ : kept_rows_ * out_row_;
    numbers_bytes_ = round_up(row_taps_ * static_cast<int64_t>(sizeof(float*)), 64);
    pointers_bytes_ = numbers_bytes_ + round_up(kept_rows_ * static_cast<int64_t>(sizeof(int64_t)), 64);
    slot_bytes_ = pointers_bytes_ + round_up(floats * static_cast<int64_t>(sizeof(float)), 64);
  }

  Status run(KernelContext& context) const override {
    const float* x = context.input<float>(0);
    if (mixes_planes_) {
      auto* const mixed = reinterpret_cast<float*>(context.scratch + slot_bytes_ * slots_);
      mix_planes(x, mixed, *context.pool);
      x = mixed;
    }
    float* const y = context.output<float>(0);
    ScratchSlots slots(context.scratch, slot_bytes_, slots_);
    const int64_t row_vectors = (columns_.width * out_row_ + row_taps_ * std::min(in_row_, out_row_)) / 8;
    // Eight rows at least: the first rows of a chunk share nothing with those before.
    context.pool->parallel_for(
        outer_ * out_rows_, std::max<int64_t>(8, grain_of(row_vectors)), [&](int64_t begin, int64_t end) {
          const ScratchSlots::Claim claim(slots);
          auto* const scratch = reinterpret_cast<std::byte*>(claim.floats());
          while (begin < end) {
            const int64_t plane = begin / out_rows_, first = begin % out_rows_;
            const int64_t last = std::min(out_rows_, first + end - begin);
            run_rows(x + plane * in_rows_ * in_row_, y + plane * out_rows_ * out_row_, first, last, scratch);
            begin += last - first;
          }
        });
    return {};
  }
  size_t scratch_bytes() const override {
    return slot_bytes_ * slots_ + (mixes_planes_ ? outer_ * in_rows_ * in_row_ * sizeof(float) : 0);
  }
  std::string_view name() const override { return "resize f32"; }

 private:
  // The planes of the output, each as large as one of the input.
  void mix_planes(const float* x, float* to, ThreadPool& pool) const {
    const int64_t floats = in_rows_ * in_row_, taps = planes_.width, planes = std::ssize(planes_.index) / taps;
    pool.parallel_for(outer_ * in_rows_, grain_of(taps * in_row_ / 8), [&](int64_t begin, int64_t end) {
      std::array<const float*, kMostPlanes> sources{};
      for (int64_t item = begin; item < end; ++item) {
        const int64_t plane = item / in_rows_, first = plane % planes * taps, row = item % in_rows_;
        const float* const image = x + plane / planes * planes_.in * floats + row * in_row_;
        for (int64_t k = 0; k < taps; ++k) sources[k] = image + planes_.index[first + k] * floats;
        resize_table().mix_rows(sources.data(), plane_weight_.data() + first, taps, to + item * in_row_, in_row_);
      }
    });
  }

  void make_columns(const ResizeGrid& grid) {
    const int64_t spread = grid.inner < kShortInner && grid.inner % 8 != 0 ? grid.inner : 1;
    const int64_t taps = grid.columns.width, pixels = std::ssize(grid.columns.index) / taps;
    column_index_.resize(taps * pixels * spread);
    column_weight_.resize(taps * pixels * spread);
    for (int64_t j = 0; j < pixels * spread; ++j) {
      for (int64_t k = 0; k < taps; ++k) {
        const int64_t from = j / spread * taps + k, to = k * pixels * spread + j;
        column_index_[to] = static_cast<int32_t>(grid.columns.index[from] * grid.inner + j % spread);
        column_weight_[to] = static_cast<float>(grid.columns.weight[from]);
      }
    }
    columns_ = {.index = column_index_.data(),
                .weight = column_weight_.data(),
                .width = taps,
                .pixels = pixels * spread,
                .inner = grid.inner / spread};
  }

  // Output rows [first, last) of one plane.
  void run_rows(const float* x, float* y, int64_t first, int64_t last, std::byte* scratch) const {
    auto** const sources = reinterpret_cast<const float**>(scratch);
    auto* const kept = reinterpret_cast<int64_t*>(scratch + numbers_bytes_);  // which input row each row of `rows` is
    auto* const rows = reinterpret_cast<float*>(scratch + pointers_bytes_);
    std::fill_n(kept, kept_rows_, -1);
    for (int64_t i = first; i < last; ++i) {
      float* const to = y + i * out_row_;
      if (same_rows_) {
        resize_table().mix_pixels(columns_, x + i * in_row_, to);
        continue;
      }
      const int64_t* const index = row_index_.data() + i * row_taps_;
      const float* const weights = row_weight_.data() + i * row_taps_;
      if (same_columns_ || columns_last_) {
        for (int64_t k = 0; k < row_taps_; ++k) sources[k] = x + index[k] * in_row_;
        float* const sum = same_columns_ ? to : rows;
        resize_table().mix_rows(sources, weights, row_taps_, sum, in_row_);
        if (!same_columns_) resize_table().mix_pixels(columns_, sum, to);
        continue;
      }
      for (int64_t k = 0; k < row_taps_; ++k) {
        // The taps of a row lie within as many input rows as there are taps, so none of them takes another's place.
        const int64_t place = index[k] % kept_rows_;
        float* const row = rows + place * out_row_;
        if (kept[place] != index[k]) {
          resize_table().mix_pixels(columns_, x + index[k] * in_row_, row);
          kept[place] = index[k];
        }
        sources[k] = row;
      }
      resize_table().mix_rows(sources, weights, row_taps_, to, out_row_);
    }
  }

  const ResizeTaps planes_;
  std::vector<float> plane_weight_;
  bool mixes_planes_ = false;
  const int64_t outer_, in_rows_, out_rows_, in_row_, out_row_, row_taps_;
  const bool same_rows_, same_columns_, columns_last_;
  const std::vector<int64_t> row_index_;
  const std::vector<float> row_weight_;
  std::vector<int32_t> column_index_;
  std::vector<float> column_weight_;
  ResizeRow columns_;
  int64_t kept_rows_ = 0;
  const int slots_;
  size_t numbers_bytes_ = 0, pointers_bytes_ = 0, slot_bytes_ = 0;
};

}  // namespace

Status match_resize_mix(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(node.inputs[0].type != DataType::kFloat, "Only float32 is served, not {}.",
                       data_type_name(node.inputs[0].type));
  TENON_UNSUPPORTED_IF(node.inputs[0].layout != node.outputs[0].layout, "Input and output have different layouts.");
  TENON_TRY_ASSIGN(const ResizeSettings settings, read_resize_settings(*node.node));
  TENON_UNSUPPORTED_IF(settings.mode == ResizeSettings::Mode::kNearest, "The mode is nearest.");
  // Layouts are chosen by this answer, so that it has to be the last word.
  TENON_TRY_ASSIGN(const ResizeGrid grid, resize_grid(node, 3));
  TENON_UNSUPPORTED_IF(grid.planes.width > kMostPlanes, "A plane is a sum of {} planes.", grid.planes.width);
  return {};
}

Result<std::unique_ptr<Kernel>> create_resize_mix(const KernelNode& node) {
  TENON_TRY_ASSIGN(ResizeGrid grid, resize_grid(node, 3));
  return std::unique_ptr<Kernel>(std::make_unique<ResizeMix>(std::move(grid), scratch_slots(node)));
}

}  // namespace tenon::cpu
