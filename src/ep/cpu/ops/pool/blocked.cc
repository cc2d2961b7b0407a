// MaxPool, AveragePool and pooling over whole maps, on the blocked layout.
#include "ep/cpu/simd/blocked.h"

#include <limits>
#include <vector>

#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/simd/pool.h"
#include "ep/cpu/simd/window.h"
#include "ops/reduce.h"

namespace tenon::cpu {

namespace {

class WindowPool final : public Kernel {
 public:
  WindowPool(const ConvShape& shape, bool maximum, bool count_pads, int threads, int slots)
      : shape_(shape), maximum_(maximum), count_pads_(count_pads), slots_(slots) {
    const int64_t by_cache = std::max<int64_t>(4, 128 * 1024 / std::max<int64_t>(1, shape.w.in * shape.h.stride * 32));
    const int64_t planes = std::max<int64_t>(1, shape.batch * shape.in_blocks());
    const int64_t chunks = threads == 1 ? 1 : (4 * threads + planes - 1) / planes;
    rows_a_chunk_ = std::max<int64_t>(1, std::min(by_cache, (shape.h.out + chunks - 1) / chunks));
    const WindowAxis &h = shape_.h, &w = shape_.w;
    neighbours_ = h.stride == 1 && w.stride == 1 && h.dilation == 1 && h.kernel * w.kernel > 1;
    if (!neighbours_) return;
    pitch_ = std::max(w.pad_begin + w.in, w.out - 1 + w.reach()) * 8;
    rows_a_chunk_ = std::min(rows_a_chunk_, std::max<int64_t>(kBlock / pitch_, 4));
    slot_bytes_ = round_up((rows_a_chunk_ * pitch_ + kPoolSlack) * static_cast<int64_t>(sizeof(float)), 64);
    if (maximum_) return;
    columns_.assign(w.out * 8 + kPoolSlack, 1.0f);
    for (int64_t i = 0; i < w.out * 8; ++i)
      columns_[i] = static_cast<float>(count_pads ? w.padded_taps(i / 8) : taps_of(w, i / 8).count);
    by_row_.assign(h.out, 1.0f);
    for (int64_t row = 0; row < h.out; ++row)
      by_row_[row] = static_cast<float>(count_pads ? h.padded_taps(row) : taps_of(h, row).count);
  }

  Status run(KernelContext& context) const override {
    const float* x = context.input<float>(0);
    float* y = context.output<float>(0);
    const int64_t chunks = (shape_.h.out + rows_a_chunk_ - 1) / rows_a_chunk_;
    const int64_t in_plane = shape_.in_pixels() * 8, out_plane = shape_.out_pixels() * 8;
    const int64_t grain = grain_of(rows_a_chunk_ * shape_.w.out * shape_.h.kernel * shape_.w.kernel);
    ScratchSlots slots(context.scratch, slot_bytes_, slots_);
    context.pool->parallel_for(shape_.batch * shape_.in_blocks() * chunks, grain, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Claim claim(slots);
      float* const rows = claim.floats();
      // The padding beside the rows stays as it is from chunk to chunk.
      if (neighbours_)
        std::fill_n(rows, rows_a_chunk_ * pitch_, maximum_ ? -std::numeric_limits<float>::infinity() : 0.0f);
      for (int64_t item = begin; item < end; ++item) {
        const int64_t plane = item / chunks, first = item % chunks * rows_a_chunk_;
        const int64_t last = std::min(shape_.h.out, first + rows_a_chunk_);
        const float* const from = x + plane * in_plane;
        float* const to = y + plane * out_plane;
        if (!neighbours_ || !run_neighbours(rows, from, to, first, last)) run_rows(from, to, first, last);
      }
    });
    return {};
  }
  size_t scratch_bytes() const override { return slot_bytes_ * slots_; }
  std::string_view name() const override { return maximum_ ? "max_pool" : "average_pool"; }

 private:
  void run_rows(const float* x, float* y, int64_t begin, int64_t end) const {
    const WindowAxis &h = shape_.h, &w = shape_.w;
    WindowRun run;
    run.x_col = w.dilation * 8;
    run.x_row = h.dilation * w.in * 8;
    for_spans(h, w, begin, end, [&](const WindowSpan& span) {
      const int64_t row = span.row * h.stride - h.pad_begin + span.rows.first * h.dilation;
      const int64_t col = span.col * w.stride - w.pad_begin + span.cols.first * w.dilation;
      run.x = x + (row * w.in + col) * 8;
      run.x_pixel = span.down ? h.stride * w.in * 8 : w.stride * 8;
      run.rows = span.rows.count;
      run.cols = span.cols.count;
      run.y = y + (span.row * w.out + span.col) * 8;
      run.y_pixel = span.down ? w.out * 8 : 8;
      run.pixels = span.count;
      if (maximum_) {
        window_table().maximum(run);
      } else {
        const int64_t count =
            count_pads_ ? h.padded_taps(span.row) * w.padded_taps(span.col) : span.rows.count * span.cols.count;
        run.scale = 1.0f / static_cast<float>(count);
        window_table().average(run);
      }
    });
  }

  // Rows [begin, end) of windows of stride 1, or false.
  bool run_neighbours(float* rows, const float* x, float* y, int64_t begin, int64_t end) const {
    const WindowAxis &h = shape_.h, &w = shape_.w;
    const PoolPlane task{.x = x,
                         .height = h.in,
                         .width = w.in * 8,
                         .kernel_rows = h.kernel,
                         .pad_top = h.pad_begin,
                         .count = w.kernel,
                         .shift = w.dilation * 8,
                         .rows = rows,
                         .pitch = pitch_,
                         .pad = w.pad_begin * 8,
                         .y = y + begin * w.out * 8,
                         .out_width = w.out * 8,
                         .begin = begin,
                         .end = end,
                         .columns = columns_.data(),
                         .by_row = maximum_ ? nullptr : by_row_.data() + begin};
    return (maximum_ ? pool_table().maximum_plane : pool_table().average_plane)(task);
  }

  static constexpr int64_t kBlock = 8192;  // floats between rows and columns

  ConvShape shape_;
  bool maximum_;
  bool count_pads_;
  int slots_;
  int64_t rows_a_chunk_ = 1;
  bool neighbours_ = false;
  int64_t pitch_ = 0;                    // floats of a row with its padding
  std::vector<float> columns_, by_row_;  // AveragePool: the taps of each output along each axis
  size_t slot_bytes_ = 0;
};

// A number for each channel of each image.
class GlobalPool final : public Kernel {
 public:
  enum class Kind : uint8_t { kMaximum, kMean, kSum };
  GlobalPool(const TensorSpec& x, Kind kind, bool plain_output)
      : batch_(x.shape[0]), channels_(x.shape[1]), kind_(kind), plain_output_(plain_output) {
    for (int i = 2; i < x.shape.rank(); ++i) pixels_ *= x.shape[i];
  }

  Status run(KernelContext& context) const override {
    const float* x = context.input<float>(0);
    float* y = context.output<float>(0);
    const int64_t blocks = (channels_ + 7) / 8;
    const float scale = kind_ == Kind::kSum ? 1.0f : 1.0f / static_cast<float>(pixels_);
    context.pool->parallel_for(batch_ * blocks, grain_of(pixels_), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        float result[8];
        const float* from = x + plane * pixels_ * 8;
        if (kind_ == Kind::kMaximum) {
          blocked_table().maximum(from, pixels_, result);
        } else {
          blocked_table().sum(from, pixels_, result);
          for (float& value : result) value *= scale;
        }
        const int64_t image = plane / blocks, block = plane % blocks;
        if (plain_output_)
          std::copy_n(result, std::min<int64_t>(8, channels_ - block * 8), y + image * channels_ + block * 8);
        else
          std::copy_n(result, 8, y + plane * 8);
      }
    });
    return {};
  }
  std::string_view name() const override {
    return kind_ == Kind::kMaximum ? "global_max_pool" : kind_ == Kind::kMean ? "global_average_pool" : "global_sum";
  }

 private:
  int64_t batch_, channels_, pixels_ = 1;
  Kind kind_;
  bool plain_output_;
};

Result<PoolDesc> read_window_pool(const KernelNode& node) {
  const Shape& y = node.outputs[0].shape;
  TENON_TRY_ASSIGN(PoolDesc pool, read_pool(*node.node, node.inputs[0].shape));
  TENON_INVALID_IF(!(pool.output() == y), "The output is {}, not {}.", pool.output().to_string(), y.to_string());
  return pool;
}

}  // namespace

Status match_window_pool(const KernelNode& node) {
  TENON_TRY(expect_float(node.inputs[0]));
  TENON_TRY(expect_float(node.outputs[0]));
  TENON_TRY(expect_layout(node.inputs[0], Layout::kBlocked8, "The input"));
  TENON_TRY(expect_layout(node.outputs[0], Layout::kBlocked8, "The output"));
  TENON_UNSUPPORTED_IF(node.outputs.size() > 1 && node.outputs[1].present(), "The output of indices is not served.");
  TENON_TRY_ASSIGN(const PoolDesc pool, read_window_pool(node));
  TENON_TRY_ASSIGN(const ConvShape shape, pool_shape(node.inputs[0], pool));
  for (const WindowAxis* axis : {&shape.h, &shape.w}) {
    TENON_UNSUPPORTED_IF(axis->out <= 0 || taps_of(*axis, 0).count == 0 || taps_of(*axis, axis->out - 1).count == 0,
                         "Some windows hold no input.");
  }
  return {};
}

Result<std::unique_ptr<Kernel>> create_window_pool(const KernelNode& node) {
  TENON_TRY_ASSIGN(const PoolDesc pool, read_window_pool(node));
  TENON_TRY_ASSIGN(const ConvShape shape, pool_shape(node.inputs[0], pool));
  return std::unique_ptr<Kernel>(
      std::make_unique<WindowPool>(shape, pool.kind == PoolDesc::Kind::kMax, pool.count_include_pad,
                                   node.pool == nullptr ? 1 : node.pool->threads(), scratch_slots(node)));
}

Status match_global_pool(const KernelNode& node) {
  const TensorSpec& x = node.inputs[0];
  TENON_TRY(expect_float(x));
  TENON_TRY(expect_float(node.outputs[0]));
  TENON_UNSUPPORTED_IF(x.shape.rank() < 3, "Rank {} is below 3.", x.shape.rank());
  TENON_TRY(expect_layout(x, Layout::kBlocked8, "The input"));
  for (int i = 2; i < x.shape.rank(); ++i) TENON_UNSUPPORTED_IF(x.shape[i] <= 0, "The maps are empty.");
  if (node.node->op_type.starts_with("Global")) return {};
  const ConstantRef given = node.constants.size() > 1 ? node.constants[1] : nullptr;
  const std::optional<ReduceDesc> reduce =
      read_reduce(*node.node, node.inputs.size() > 1 && node.inputs[1].present(), given);
  TENON_UNSUPPORTED_IF(!reduce, "The axes are not constant.");
  TENON_TRY_ASSIGN(const AxisSet reduced, reduced_axes(reduce->axes, reduce->noop_with_empty_axes, x.shape.rank()));
  for (int i = 0; i < x.shape.rank(); ++i)
    TENON_UNSUPPORTED_IF(reduced[i] != (i >= 2), "The axes are not all the spatial ones.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_global_pool(const KernelNode& node) {
  const std::string_view op = node.node->op_type;
  const auto kind = op == "GlobalMaxPool" || op == "ReduceMax" ? GlobalPool::Kind::kMaximum
                    : op == "ReduceSum"                        ? GlobalPool::Kind::kSum
                                                               : GlobalPool::Kind::kMean;
  return std::unique_ptr<Kernel>(
      std::make_unique<GlobalPool>(node.inputs[0], kind, node.outputs[0].layout == Layout::kPlain));
}

}  // namespace tenon::cpu
