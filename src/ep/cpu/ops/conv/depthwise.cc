// Depthwise convolution on the blocked layout: each block of 8 channels is a plane of its own.
#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/simd/window.h"
#include "ops/unary.h"

namespace tenon::cpu {

namespace {

// Floats of a plane, or of a part of it, with its borders.
constexpr int64_t kSmallPlane = 4096, kPart = 12288;
// A window of so many taps pays for the copy of larger planes.
constexpr int64_t kManyTaps = 36;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class DepthwiseConv final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelNode& node);

  Status run(KernelContext& context) const override;
  size_t scratch_bytes() const override { return bias_.scratch_bytes(); }
  bool may_run_in_place(size_t input, size_t) const override {
    return input == 3 && residual_.may_be_output() && !epilogue_.residual_after && !padded_;
  }
  bool reads(size_t input) const override { return input != 1; }
  std::string_view name() const override { return name_; }

 private:
  WindowRun window_run(const float* bias, int64_t block) const;
  void run_rows(const float* x, const float* residual, const float* bias, float* y, int64_t block, int64_t begin,
                int64_t end) const;
  void run_padded(const float* x, const float* residual, const float* bias, float* y, int64_t block, int64_t begin,
                  int64_t end, float* padded) const;
  void activate(const float* residual, float* y, int64_t block, int64_t begin, int64_t end) const;

  ConvShape shape_;
  Epilogue epilogue_;
  std::string name_;
  bool clamps_ = true;
  std::shared_ptr<const float> weights_;  // [block][row][tap of w_taps_][8]
  ConvBias bias_;
  ConvResidual residual_;
  int64_t rows_a_chunk_ = 1;
  bool padded_ = false;   // run_padded() takes chunks
  int64_t w_taps_ = 0;    // of a row, with those that fill it up
  int64_t w_padded_ = 0;  // pixels of a line with its borders
};

Result<std::unique_ptr<Kernel>> DepthwiseConv::create(const KernelNode& node) {
  auto kernel = std::make_unique<DepthwiseConv>();
  TENON_TRY_ASSIGN(kernel->shape_, conv_shape(node));
  TENON_TRY_ASSIGN(kernel->epilogue_, read_epilogue(*node.node));
  const ConvShape& shape = kernel->shape_;
  kernel->clamps_ = is_clamp(kernel->epilogue_) && (keeps_zero(kernel->epilogue_) || shape.outputs % 8 == 0);
  kernel->name_ = format("conv{}x{}_depthwise", shape.h.kernel, shape.w.kernel);
  const int64_t taps = shape.h.kernel * shape.w.kernel;
  TENON_TRY(expect_constant_floats(node, 1, shape.channels * taps));
  // Border pixels that come singly would take longer than the rest of a small plane, or of one whose window is large.
  const auto with_borders = [](const WindowAxis& axis) { return axis.out + axis.reach() - 1; };
  const bool is_dense = shape.h.stride == 1 && shape.w.stride == 1 && shape.w.dilation == 1 && shape.w.kernel > 1;
  const bool is_small = with_borders(shape.h) <= kSmallPlane / 8 / with_borders(shape.w);
  kernel->w_taps_ = is_dense ? taken_columns(shape.w.kernel) : shape.w.kernel;
  kernel->w_padded_ = round_up(round_up(shape.w.out, 2) + kernel->w_taps_ - 1, 2);
  const int64_t part_rows = kPart / 8 / kernel->w_padded_ - shape.h.reach() + 1;
  kernel->padded_ = is_dense && (is_small || taps >= kManyTaps) && part_rows >= std::min(shape.h.out, shape.h.reach());
  if (!kernel->padded_) kernel->w_taps_ = shape.w.kernel;
  const int64_t w_taps = kernel->w_taps_, rows = shape.h.kernel;
  auto pack = [&](const float* weights, float* out) {
    std::fill_n(out, shape.in_blocks() * rows * w_taps * 8, 0.0f);
    for (int64_t c = 0; c < shape.channels; ++c)
      for (int64_t t = 0; t < taps; ++t)
        out[((c / 8 * rows + t / shape.w.kernel) * w_taps + t % shape.w.kernel) * 8 + c % 8] = weights[c * taps + t];
  };
  TENON_TRY_ASSIGN(kernel->weights_, pack_weights(node, 1, kernel->padded_ ? "conv_depthwise_rows" : "conv_depthwise",
                                                  shape.in_blocks() * rows * w_taps * 8, pack));
  TENON_TRY_ASSIGN(kernel->bias_, ConvBias::create(node, 2, shape.outputs));
  TENON_TRY_ASSIGN(kernel->residual_, ConvResidual::create(node, 3));
  // Long chunks make long runs down the borders; their rows and those around them still fit L2.
  const int64_t threads = node.pool == nullptr ? 1 : node.pool->threads();
  const int64_t by_cache = std::max<int64_t>(4, 128 * 1024 / std::max<int64_t>(1, shape.w.in * shape.h.stride * 32));
  const int64_t planes = shape.batch * shape.in_blocks();
  const int64_t chunks = threads == 1 ? 1 : (4 * threads + planes - 1) / planes;
  kernel->rows_a_chunk_ = std::max<int64_t>(1, std::min(by_cache, (shape.h.out + chunks - 1) / chunks));
  if (kernel->padded_) {
    // Parts of nearly the same size.
    const int64_t most = std::min(kernel->rows_a_chunk_, part_rows), parts = (shape.h.out + most - 1) / most;
    kernel->rows_a_chunk_ = (shape.h.out + parts - 1) / parts;
  }
  return std::unique_ptr<Kernel>(std::move(kernel));
}

// All taps of a run whose bounds are still open.
WindowRun DepthwiseConv::window_run(const float* bias, int64_t block) const {
  WindowRun run;
  run.w_row = w_taps_ * 8;
  run.w = weights_.get() + block * shape_.h.kernel * run.w_row;
  run.bias = bias + block * 8;
  run.low = clamps_ ? clamp_low(epilogue_) : -kInfinity;
  run.high = clamps_ ? clamp_high(epilogue_) : kInfinity;
  run.x_col = shape_.w.dilation * 8;
  run.rows = shape_.h.kernel;
  run.cols = shape_.w.kernel;
  return run;
}

// The activations that are not clamps, over what was just stored.
void DepthwiseConv::activate(const float* residual, float* y, int64_t block, int64_t begin, int64_t end) const {
  if (clamps_) return;
  const int64_t at = begin * shape_.w.out * 8;
  blocked_table().activate(epilogue_, y + at, epilogue_.residual_after && residual != nullptr ? residual + at : nullptr,
                           y + at, (end - begin) * shape_.w.out,
                           static_cast<int>(std::min<int64_t>(8, shape_.outputs - block * 8)));
}

void DepthwiseConv::run_rows(const float* x, const float* residual, const float* bias, float* y, int64_t block,
                             int64_t begin, int64_t end) const {
  const WindowAxis &h = shape_.h, &w = shape_.w;
  WindowRun run = window_run(bias, block);
  run.x_row = h.dilation * w.in * 8;
  const float* const weights = run.w;
  const float* before = epilogue_.residual_after ? nullptr : residual;
  const float* after = epilogue_.residual_after && clamps_ ? residual : nullptr;
  for_spans(h, w, begin, end, [&](const WindowSpan& span) {
    const int64_t row = span.row * h.stride - h.pad_begin + span.rows.first * h.dilation;
    const int64_t col = span.col * w.stride - w.pad_begin + span.cols.first * w.dilation;
    const bool any = span.rows.count > 0 && span.cols.count > 0;
    run.x = any ? x + (row * w.in + col) * 8 : x;
    run.w = weights + span.rows.first * run.w_row + span.cols.first * 8;
    run.x_pixel = span.down ? h.stride * w.in * 8 : w.stride * 8;
    run.rows = any ? span.rows.count : 0;
    run.cols = any ? span.cols.count : 0;
    place_outputs(span, w, y, before, after, run);
    window_table().depthwise(run);
  });
  activate(residual, y, block, begin, end);
}

// Copies rows of a plane into `padded`, whose borders are zero.
void DepthwiseConv::run_padded(const float* x, const float* residual, const float* bias, float* y, int64_t block,
                               int64_t begin, int64_t end, float* padded) const {
  const WindowAxis &h = shape_.h, &w = shape_.w;
  const int64_t first = begin - h.pad_begin, rows = end - begin + h.reach() - 1, line = w_padded_ * 8;
  const int64_t columns = std::clamp<int64_t>(w_padded_ - w.pad_begin, 0, w.in);
  for (int64_t row = 0; row < rows; ++row) {
    float* const to = padded + row * line + w.pad_begin * 8;
    if (columns == 0) continue;
    if (first + row >= 0 && first + row < h.in)
      std::copy_n(x + (first + row) * w.in * 8, columns * 8, to);
    else
      std::fill_n(to, columns * 8, 0.0f);
  }
  WindowRun run = window_run(bias, block);
  run.x = padded;
  run.x_row = h.dilation * line;
  run.x_line = line;
  run.lines = end - begin;
  run.y_line = w.out * 8;
  place_outputs(WindowSpan{.row = begin, .count = w.out}, w, y, epilogue_.residual_after ? nullptr : residual,
                epilogue_.residual_after && clamps_ ? residual : nullptr, run);
  window_table().depthwise_lines(run);
  activate(residual, y, block, begin, end);
}

Status DepthwiseConv::run(KernelContext& context) const {
  const float* x = context.input<float>(0);
  const float* residual = residual_.values(context);
  const float* bias = bias_.values(context, context.scratch);
  float* y = context.output<float>(0);
  const int64_t chunks = (shape_.h.out + rows_a_chunk_ - 1) / rows_a_chunk_;
  const int64_t blocks = shape_.in_blocks(), in_plane = shape_.in_pixels() * 8, out_plane = shape_.out_pixels() * 8;
  const int64_t grain = grain_of(rows_a_chunk_ * shape_.w.out * shape_.h.kernel * shape_.w.kernel);
  context.pool->parallel_for(shape_.batch * blocks * chunks, grain, [&](int64_t begin, int64_t end) {
    alignas(64) float padded[kPart];
    if (padded_) std::fill_n(padded, (rows_a_chunk_ + shape_.h.reach() - 1) * w_padded_ * 8, 0.0f);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t plane = item / chunks, first = item % chunks * rows_a_chunk_;
      const int64_t last = std::min(shape_.h.out, first + rows_a_chunk_);
      const float* const from = x + plane * in_plane;
      const float* const added = residual == nullptr ? nullptr : residual + plane * out_plane;
      if (padded_)
        run_padded(from, added, bias, y + plane * out_plane, plane % blocks, first, last, padded);
      else
        run_rows(from, added, bias, y + plane * out_plane, plane % blocks, first, last);
    }
  });
  return {};
}

}  // namespace

Status match_conv_depthwise(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ConvShape shape, conv_shape(node));
  TENON_UNSUPPORTED_IF(node.constants[1] == nullptr, "The weights are not constant.");
  TENON_UNSUPPORTED_IF(shape.group != shape.channels || shape.outputs != shape.channels,
                       "{} groups for {} input and {} output channels are not depthwise.", shape.group, shape.channels,
                       shape.outputs);
  TENON_UNSUPPORTED_IF(shape.channels == 0, "There are no channels.");
  TENON_TRY(expect_layout(node.inputs[0], Layout::kBlocked8, "The input"));
  TENON_TRY(expect_layout(node.outputs[0], Layout::kBlocked8, "The output"));
  return ConvResidual::match(node, 3);
}

Result<std::unique_ptr<Kernel>> create_conv_depthwise(const KernelNode& node) { return DepthwiseConv::create(node); }

}  // namespace tenon::cpu
