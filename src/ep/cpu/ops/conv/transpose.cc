// Transposed convolution, phase by phase.
#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/conv/phases.h"
#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/simd/conv.h"
#include "ops/unary.h"

namespace tenon::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class TransposeConv final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelNode& node);

  Status run(KernelContext& context) const override;
  size_t scratch_bytes() const override { return bias_.scratch_bytes(); }
  bool may_run_in_place(size_t input, size_t) const override {
    return input == 3 && residual_.may_be_output() && !epilogue_.residual_after;
  }
  bool reads(size_t input) const override { return input != 1; }
  std::string_view name() const override { return "conv_transpose"; }

 private:
  struct PhasePair {
    Phase h, w;
    int64_t weights = 0;  // where its packed weights begin
  };
  // One image.
  struct Image {
    const float* x;
    const float* bias;
    const float* residual;
    float* y;
  };
  void run_rows(const Image& image, int64_t begin, int64_t end) const;
  void run_phase(const PhasePair& phase, const OutputTile& tile, const Image& image, int64_t begin, int64_t end) const;

  ConvShape shape_;
  Epilogue epilogue_;
  bool clamps_ = true;
  std::vector<PhasePair> phases_;
  std::vector<OutputTile> tiles_;  // `weights` for one tap
  std::shared_ptr<const float> weights_;
  ConvBias bias_;
  ConvResidual residual_;
  int64_t rows_a_chunk_ = 1;  // output rows, a multiple of the stride
};

Result<std::unique_ptr<Kernel>> TransposeConv::create(const KernelNode& node) {
  auto kernel = std::make_unique<TransposeConv>();
  TENON_TRY_ASSIGN(kernel->shape_, transpose_shape(node));
  TENON_TRY_ASSIGN(kernel->epilogue_, read_epilogue(*node.node));
  const ConvShape& shape = kernel->shape_;
  const WindowAxis &h = shape.h, &w = shape.w;
  kernel->clamps_ = is_clamp(kernel->epilogue_) && (keeps_zero(kernel->epilogue_) || shape.outputs % 8 == 0);
  const int64_t inputs = shape.in_blocks() * 8, floats_per_tap = inputs * shape.out_blocks() * 8;
  kernel->tiles_ = output_tiles(shape.out_blocks(), inputs * 8);
  // The packed form holds the taps of every phase, in the order of their first taps, so that it depends on nothing but
  // the weights and the strides: an output of 1 has fewer phases, and other shapes of the session share the weights.
  const int64_t most_h = std::min(h.stride, h.kernel), most_w = std::min(w.stride, w.kernel);
  std::vector<int64_t> begins;
  int64_t floats = 0;
  for (int64_t th = 0; th < most_h; ++th) {
    for (int64_t tw = 0; tw < most_w; ++tw) {
      begins.push_back(floats);
      floats += taps_from(h, th) * taps_from(w, tw) * floats_per_tap;
    }
  }
  for (int64_t oh = 0; oh < std::min(h.stride, h.out); ++oh) {
    for (int64_t ow = 0; ow < std::min(w.stride, w.out); ++ow) {
      PhasePair pair{phase_of(h, oh), phase_of(w, ow), 0};
      if (pair.h.first_tap < most_h && pair.w.first_tap < most_w)
        pair.weights = begins[pair.h.first_tap * most_w + pair.w.first_tap];
      kernel->phases_.push_back(pair);
    }
  }
  TENON_TRY(expect_constant_floats(node, 1, shape.channels * shape.outputs * h.kernel * w.kernel));
  // [phase][output tile][block][row][col][8][width * 8]
  auto pack = [&](const float* weights, float* out) {
    for (size_t phase = 0; phase < begins.size(); ++phase) {
      const int64_t first_h = static_cast<int64_t>(phase) / most_w, first_w = static_cast<int64_t>(phase) % most_w;
      const int64_t rows = taps_from(h, first_h), cols = taps_from(w, first_w);
      for (const OutputTile& tile : kernel->tiles_) {
        float* to = out + begins[phase] + tile.weights * rows * cols;
        const int64_t lanes = tile.width * 8, count = std::min(lanes, shape.outputs - tile.block * 8);
        for (int64_t c = 0; c < shape.channels; ++c) {
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t s = 0; s < cols; ++s) {
              const int64_t kh = first_h + (rows - 1 - r) * h.stride;
              const int64_t kw = first_w + (cols - 1 - s) * w.stride;
              const int64_t unit = ((c / 8 * rows + r) * cols + s) * 8 + c % 8;
              for (int64_t o = 0; o < count; ++o) {
                const int64_t from = (c * shape.outputs + tile.block * 8 + o) * h.kernel + kh;
                to[unit * lanes + o] = weights[from * w.kernel + kw];
              }
            }
          }
        }
      }
    }
  };
  const std::string key = format("conv_transpose {} {}", h.stride, w.stride);
  TENON_TRY_ASSIGN(kernel->weights_, pack_weights(node, 1, key, floats, pack));
  TENON_TRY_ASSIGN(kernel->bias_, ConvBias::create(node, 2, shape.outputs));
  TENON_TRY_ASSIGN(kernel->residual_, ConvResidual::create(node, 3));
  const int64_t threads = node.pool == nullptr ? 1 : node.pool->threads();
  const int64_t by_cache = 256 * 1024 / std::max<int64_t>(1, shape.out_blocks() * w.out * 32);
  const int64_t by_threads = threads == 1 ? h.out : h.out * shape.batch / (4 * threads);
  kernel->rows_a_chunk_ = round_up(std::clamp<int64_t>(std::min(by_cache, by_threads), 1, h.out), h.stride);
  return std::unique_ptr<Kernel>(std::move(kernel));
}

// Output rows [begin, end) of the node that belong to the phase.
void TransposeConv::run_phase(const PhasePair& phase, const OutputTile& tile, const Image& image, int64_t begin,
                              int64_t end) const {
  const WindowAxis &h = phase.h.axis, &w = phase.w.axis;
  const int64_t stride_h = shape_.h.stride, stride_w = shape_.w.stride, width = shape_.w.out;
  const int64_t row_begin = (std::max<int64_t>(0, begin - phase.h.first_out) + stride_h - 1) / stride_h;
  const int64_t row_end = std::min(h.out, (std::max<int64_t>(0, end - phase.h.first_out) + stride_h - 1) / stride_h);
  ConvRun run;
  run.x_block = shape_.in_pixels() * 8;
  run.x_col = 8;
  run.x_row = w.in * 8;
  run.w_col = tile.width * 64;
  run.w_row = run.w_col * w.kernel;
  run.w_block = run.w_row * h.kernel;
  run.y_block = shape_.out_pixels() * 8;
  run.bias = image.bias + tile.block * 8;
  run.low = clamps_ ? clamp_low(epilogue_) : -kInfinity;
  run.high = clamps_ ? clamp_high(epilogue_) : kInfinity;
  const int64_t plane = tile.block * run.y_block;
  const float* weights = weights_.get() + phase.weights + tile.weights * h.kernel * w.kernel;
  for_spans(h, w, row_begin, row_end, [&](const WindowSpan& span) {
    const bool any = span.rows.count > 0 && span.cols.count > 0;
    const int64_t row = span.row - h.pad_begin + span.rows.first, col = span.col - w.pad_begin + span.cols.first;
    run.x = any ? image.x + (row * w.in + col) * 8 : image.x;
    run.w = weights + span.rows.first * run.w_row + span.cols.first * run.w_col;
    run.x_pixel = span.down ? w.in * 8 : 8;
    run.rows = span.rows.count;
    run.cols = span.cols.count;
    run.blocks = any ? shape_.channels / 8 : 0;
    run.tail = any ? shape_.channels % 8 : 0;
    const int64_t at =
        plane + ((phase.h.first_out + span.row * stride_h) * width + phase.w.first_out + span.col * stride_w) * 8;
    run.y = image.y + at;
    run.y_pixel = (span.down ? stride_h * width : stride_w) * 8;
    const float* residual = image.residual == nullptr ? nullptr : image.residual + at;
    run.residual_before = epilogue_.residual_after ? nullptr : residual;
    run.residual_after = epilogue_.residual_after && clamps_ ? residual : nullptr;
    run.pixels = span.count;
    conv_table().run[tile.width - 1](run);
  });
}

void TransposeConv::run_rows(const Image& image, int64_t begin, int64_t end) const {
  for (const PhasePair& phase : phases_)
    for (const OutputTile& tile : tiles_) run_phase(phase, tile, image, begin, end);
  if (clamps_) return;
  const float* after = epilogue_.residual_after ? image.residual : nullptr;
  for (int64_t b = 0; b < shape_.out_blocks(); ++b) {
    const int64_t at = (b * shape_.out_pixels() + begin * shape_.w.out) * 8;
    blocked_table().activate(epilogue_, image.y + at, after == nullptr ? nullptr : after + at, image.y + at,
                             (end - begin) * shape_.w.out,
                             static_cast<int>(std::min<int64_t>(8, shape_.outputs - b * 8)));
  }
}

Status TransposeConv::run(KernelContext& context) const {
  const float* x = context.input<float>(0);
  const float* residual = residual_.values(context);
  const float* bias = bias_.values(context, context.scratch);
  float* y = context.output<float>(0);
  const int64_t chunks = (shape_.h.out + rows_a_chunk_ - 1) / rows_a_chunk_;
  const int64_t in_image = shape_.in_blocks() * 8 * shape_.in_pixels();
  const int64_t out_image = shape_.out_blocks() * 8 * shape_.out_pixels();
  context.pool->parallel_for(shape_.batch * chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t image = item / chunks, first = item % chunks * rows_a_chunk_;
      run_rows({x + image * in_image, bias, residual == nullptr ? nullptr : residual + image * out_image,
                y + image * out_image},
               first, std::min(shape_.h.out, first + rows_a_chunk_));
    }
  });
  return {};
}

// Windows that do not overlap (kernel == stride, no pads) with at most 8 values in all, straight into a plain output:
// one product to 8 lanes a pixel, which are then spread over the window.
class TransposeToPlain final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelNode& node);

  Status run(KernelContext& context) const override;
  size_t scratch_bytes() const override { return slot_bytes() * slots_ + bias_.scratch_bytes(); }
  bool reads(size_t input) const override { return input != 1; }
  std::string_view name() const override { return "conv_transpose_plain"; }

 private:
  int64_t slot_bytes() const { return round_up(shape_.w.in * 32, 64); }
  void run_row(const float* x, const float* bias, float* y, float* row) const;

  ConvShape shape_;
  Epilogue epilogue_;
  std::shared_ptr<const float> weights_;  // [channel][row][output][col], 8 lanes
  ConvBias bias_;
  int slots_ = 1;
};

Result<std::unique_ptr<Kernel>> TransposeToPlain::create(const KernelNode& node) {
  auto kernel = std::make_unique<TransposeToPlain>();
  TENON_TRY_ASSIGN(kernel->shape_, transpose_shape(node));
  TENON_TRY_ASSIGN(kernel->epilogue_, read_epilogue(*node.node));
  const ConvShape& shape = kernel->shape_;
  const int64_t rows = shape.h.kernel, cols = shape.w.kernel;
  TENON_TRY(expect_constant_floats(node, 1, shape.channels * shape.outputs * rows * cols));
  auto pack = [&](const float* weights, float* out) {
    for (int64_t c = 0; c < shape.channels; ++c)
      for (int64_t o = 0; o < shape.outputs; ++o)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t s = 0; s < cols; ++s)
            out[c * 8 + (r * shape.outputs + o) * cols + s] = weights[((c * shape.outputs + o) * rows + r) * cols + s];
  };
  TENON_TRY_ASSIGN(kernel->weights_, pack_weights(node, 1, "conv_transpose_plain", shape.in_blocks() * 64, pack));
  TENON_TRY_ASSIGN(kernel->bias_, ConvBias::create(node, 2, shape.outputs));
  kernel->slots_ = scratch_slots(node);
  return std::unique_ptr<Kernel>(std::move(kernel));
}

// One row of inputs to h.kernel rows of outputs; y points at the first of them in the first channel.
void TransposeToPlain::run_row(const float* x, const float* bias, float* y, float* row) const {
  const int64_t rows = shape_.h.kernel, cols = shape_.w.kernel;
  ConvRun run;
  run.x = x;
  run.x_block = shape_.in_pixels() * 8;
  run.w = weights_.get();
  run.w_block = 64;
  run.blocks = shape_.channels / 8;
  run.tail = shape_.channels % 8;
  run.bias = bias;
  run.low = -kInfinity;
  run.high = kInfinity;
  run.y = row;
  run.pixels = shape_.w.in;
  conv_table().run[0](run);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < shape_.outputs; ++o) {
      float* out = y + o * shape_.out_pixels() + r * shape_.w.out;
      const float* lanes = row + (r * shape_.outputs + o) * cols;
      if (cols == 2) {
        for (int64_t i = 0; i < shape_.w.in; ++i) std::memcpy(out + i * 2, lanes + i * 8, 2 * sizeof(float));
      } else {
        for (int64_t i = 0; i < shape_.w.in; ++i)
          for (int64_t s = 0; s < cols; ++s) out[i * cols + s] = lanes[i * 8 + s];
      }
      const int64_t whole = shape_.w.out / 8 * 8, rest = shape_.w.out - whole;
      blocked_table().activate(epilogue_, out, nullptr, out, whole / 8, 8);
      if (rest > 0) {
        float last[8] = {};
        std::copy_n(out + whole, rest, last);
        blocked_table().activate(epilogue_, last, nullptr, last, 1, 8);
        std::copy_n(last, rest, out + whole);
      }
    }
  }
}

Status TransposeToPlain::run(KernelContext& context) const {
  const float* x = context.input<float>(0);
  float* y = context.output<float>(0);
  const float* by_output = bias_.values(context, context.scratch + slot_bytes() * slots_);
  float bias[8] = {};  // by lane
  const int64_t window = shape_.h.kernel * shape_.outputs * shape_.w.kernel;
  for (int64_t lane = 0; lane < window; ++lane) bias[lane] = by_output[lane / shape_.w.kernel % shape_.outputs];
  ScratchSlots slots(context.scratch, slot_bytes(), slots_);
  context.pool->parallel_for(shape_.batch * shape_.h.in, 4, [&](int64_t begin, int64_t end) {
    const ScratchSlots::Claim claim(slots);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t image = item / shape_.h.in, row = item % shape_.h.in;
      run_row(x + (image * shape_.in_blocks() * shape_.in_pixels() + row * shape_.w.in) * 8, bias,
              y + image * shape_.outputs * shape_.out_pixels() + row * shape_.h.kernel * shape_.w.out, claim.floats());
    }
  });
  return {};
}

}  // namespace

Status match_conv_transpose(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ConvShape shape, transpose_shape(node));
  TENON_UNSUPPORTED_IF(node.constants[1] == nullptr, "The weights are not constant.");
  TENON_TRY(expect_layout(node.inputs[0], Layout::kBlocked8, "The input"));
  TENON_TRY(ConvResidual::match(node, 3));
  if (node.outputs[0].layout == Layout::kBlocked8) return {};
  TENON_UNSUPPORTED_IF(node.inputs.size() > 3 && node.inputs[3].present(),
                       "A plain output is not served with a residual.");
  for (const WindowAxis* axis : {&shape.h, &shape.w}) {
    TENON_UNSUPPORTED_IF(axis->kernel != axis->stride || axis->pad_begin != 0 || axis->out != axis->in * axis->stride,
                         "A plain output is not served for windows that overlap.");
  }
  TENON_UNSUPPORTED_IF(shape.outputs * shape.h.kernel * shape.w.kernel > 8,
                       "A plain output is not served for {} outputs of {}x{}.", shape.outputs, shape.h.kernel,
                       shape.w.kernel);
  return {};
}

Result<std::unique_ptr<Kernel>> create_conv_transpose(const KernelNode& node) {
  return node.outputs[0].layout == Layout::kPlain ? TransposeToPlain::create(node) : TransposeConv::create(node);
}

}  // namespace tenon::cpu
