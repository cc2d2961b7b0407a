// Convolutions, also transposed ones, from the blocked layout to fewer than eight plain output channels, with one group
// and a stride of 1 along rows: heads that give a mask, a depth or a colour image.
#include <array>

#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/conv/phases.h"
#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/simd/conv.h"
#include "ops/unary.h"

namespace tenon::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Points are one row, volumes of points too; a line of the model is the column of a map, whose rows threads share.
ConvShape as_map(ConvShape shape) {
  if (is_point(shape.d) && is_point(shape.h) && is_point(shape.w)) {
    const int64_t pixels = shape.out_pixels();
    shape.d = shape.w = {};
    shape.h = {.in = pixels, .out = pixels};
  } else if (is_point(shape.h) && shape.h.in == 1) {
    std::swap(shape.h, shape.w);
  }
  return shape;
}

// A convolution with a stride of 1 along rows, whose outputs are every step_h-th row and, from step_w columns, the ones
// of `phases` phases beside each other: computed together, these read each input once.
struct Part {
  Phase h, w;  // w: of the first phase, with a window that has the taps of all
  int64_t phases = 1;
  int64_t weights = 0;  // where its packed weights begin
  int64_t taps() const { return h.axis.kernel * w.axis.kernel; }
};

// How long a tap of a tile takes for `count` outputs at once: one is bound by its loads, more by their products.
int64_t cost_of_tap(int64_t count) { return count == 1 ? 13 : 8 * count; }

// The same for all of `outputs`, as many at once as the table has.
int64_t cost_of_taps(int64_t outputs) {
  const int64_t few = conv_table().few, rest = outputs % few;
  return outputs / few * cost_of_tap(few) + (rest > 0 ? cost_of_tap(rest) : 0);
}

// The phases of columns that are computed together, from `first` on: where they have the same number of outputs, and
// the taps that only some of them have cost less than reading the inputs again.
Part joined_phases(const WindowAxis& h, int64_t row, const WindowAxis& w, int64_t first, int64_t outputs) {
  Part part{phase_of(h, row), phase_of(w, first)};
  Part joined = part;
  int64_t apart = part.w.axis.kernel * cost_of_taps(outputs);
  for (int64_t phase = first + 1; phase < std::min(first + conv_table().few, w.stride); ++phase) {
    const WindowAxis axis = phase_of(w, phase).axis;
    WindowAxis& all = joined.w.axis;
    if (axis.out != all.out) break;
    const int64_t before = std::max(all.pad_begin, axis.pad_begin);
    all.kernel = before + std::max(all.kernel - all.pad_begin, axis.kernel - axis.pad_begin);
    all.pad_begin = before;
    ++joined.phases;
    apart += axis.kernel * cost_of_taps(outputs);
    if (all.kernel * outputs * cost_of_tap(joined.phases) < apart) part = joined;
  }
  return part;
}

class FewOutputsConv final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelNode& node) {
    auto kernel = std::make_unique<FewOutputsConv>();
    const bool transposed = node.node->op_type == "ConvTranspose";
    if (transposed) {
      TENON_TRY_ASSIGN(kernel->shape_, transpose_shape(node));
    } else {
      TENON_TRY_ASSIGN(kernel->shape_, conv_shape(node, 3));
      kernel->shape_ = as_map(kernel->shape_);
    }
    TENON_TRY_ASSIGN(kernel->epilogue_, read_epilogue(*node.node));
    const ConvShape& shape = kernel->shape_;
    const bool line = node.inputs[0].shape.rank() == 3;
    kernel->name_ = format("conv{}{}x{}_few", transposed ? "_transpose" : "", line ? 1 : shape.h.kernel,
                           line ? shape.h.kernel : shape.w.kernel);
    if (transposed) {
      kernel->step_h_ = shape.h.stride;
      kernel->step_w_ = shape.w.stride;
      for (int64_t oh = 0; oh < std::min(shape.h.stride, shape.h.out); ++oh) {
        for (int64_t ow = 0; ow < std::min(shape.w.stride, shape.w.out); ow += kernel->parts_.back().phases)
          kernel->parts_.push_back(joined_phases(shape.h, oh, shape.w, ow, shape.outputs));
      }
    } else {
      kernel->parts_.push_back({{.axis = shape.h}, {.axis = shape.w}});
    }
    TENON_TRY(kernel->pack(node, transposed));
    TENON_TRY_ASSIGN(kernel->bias_, ConvBias::create(node, 2, shape.outputs));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Status run(KernelContext& context) const override {
    const float* const x = context.input<float>(0);
    const float* const bias = bias_.values(context, context.scratch);
    float* const y = context.output<float>(0);
    const int64_t rows = shape_.h.out, taps = shape_.h.kernel * shape_.w.kernel / (step_h_ * step_w_);
    const int64_t row_work = shape_.w.out * std::max<int64_t>(1, taps) * shape_.in_blocks() * shape_.outputs;
    context.pool->parallel_for(shape_.batch * rows, grain_of(row_work), [&](int64_t begin, int64_t end) {
      for (int64_t image = begin / rows; image * rows < end; ++image)
        run_rows(x + image * shape_.in_blocks() * 8 * shape_.in_pixels(), bias,
                 y + image * shape_.outputs * shape_.out_pixels(), std::max<int64_t>(0, begin - image * rows),
                 std::min(rows, end - image * rows));
    });
    return {};
  }
  size_t scratch_bytes() const override { return bias_.scratch_bytes(); }
  bool reads(size_t input) const override { return input != 1; }
  std::string_view name() const override { return name_; }

 private:
  // Outputs that a part computes at once, from `first` on: phases of one, or several of a single phase.
  int64_t at_once(const Part& part, int64_t first) const {
    return part.phases > 1 ? part.phases : std::min<int64_t>(conv_table().few, shape_.outputs - first);
  }

  // [part][outputs at once][block][row][col][output][8]
  Status pack(const KernelNode& node, bool transposed) {
    const int64_t outputs = shape_.outputs, channels = shape_.channels, blocks = shape_.in_blocks();
    const int64_t kernel = shape_.h.kernel * shape_.w.kernel;
    TENON_TRY(expect_constant_floats(node, 1, outputs * channels * kernel));
    int64_t floats = 0;
    std::string key = format("conv_few {} {}x{}", transposed ? "transpose" : "", step_h_, step_w_);
    for (Part& part : parts_) {
      part.weights = floats;
      floats += part.taps() * blocks * outputs * part.phases * 8;
      key += format(" {}x{} of {}+{} {}+{} at {}", part.h.axis.kernel, part.w.axis.kernel, part.h.first_tap,
                    part.w.first_tap, part.w.axis.pad_begin, part.phases, at_once(part, 0));
    }
    auto fill = [&](const float* weights, float* out) {
      for (const Part& part : parts_) {
        for (int64_t first = 0; first < outputs; first += part.phases > 1 ? 1 : at_once(part, first)) {
          const int64_t count = at_once(part, first), taps = part.taps();
          for (int64_t t = 0; t < taps; ++t) {
            for (int64_t i = 0; i < count; ++i) {
              const int64_t tap = tap_of(part, t, part.phases > 1 ? i : 0, transposed);
              const int64_t output = part.phases > 1 ? first : first + i;
              for (int64_t c = 0; tap >= 0 && c < channels; ++c) {
                const int64_t from = transposed ? c * outputs + output : output * channels + c;
                out[((c / 8 * taps + t) * count + i) * 8 + c % 8] = weights[from * kernel + tap];
              }
            }
          }
          out += blocks * taps * count * 8;
        }
      }
    };
    TENON_TRY_ASSIGN(weights_, pack_weights(node, 1, key, floats, fill));
    return {};
  }

  // The node's tap that is tap `t` of a phase of a part; -1 where the phase lacks it.
  int64_t tap_of(const Part& part, int64_t t, int64_t phase, bool transposed) const {
    if (!transposed) return t;
    const int64_t cols = part.w.axis.kernel, row = t / cols;
    const Phase own = phase_of(shape_.w, part.w.first_out + phase);
    const int64_t col = t % cols - (part.w.axis.pad_begin - own.axis.pad_begin);
    if (col < 0 || col >= own.axis.kernel) return -1;
    const int64_t h = part.h.first_tap + (part.h.axis.kernel - 1 - row) * step_h_;
    return h * shape_.w.kernel + own.first_tap + (own.axis.kernel - 1 - col) * step_w_;
  }

  void run_rows(const float* x, const float* bias, float* y, int64_t begin, int64_t end) const {
    for (const Part& part : parts_) run_part(part, x, bias, y, begin, end);
    if (is_clamp(epilogue_)) return;
    for (int64_t o = 0; o < shape_.outputs; ++o)
      finish_run(epilogue_, y + o * shape_.out_pixels() + begin * shape_.w.out, nullptr, (end - begin) * shape_.w.out);
  }

  // Those of the output rows [begin, end) that belong to the part.
  void run_part(const Part& part, const float* x, const float* bias, float* y, int64_t begin, int64_t end) const {
    const WindowAxis &h = part.h.axis, &w = part.w.axis;
    const int64_t plane = shape_.out_pixels(), width = shape_.w.out;
    const int64_t row_begin = (std::max<int64_t>(0, begin - part.h.first_out) + step_h_ - 1) / step_h_;
    const int64_t row_end = std::min(h.out, (std::max<int64_t>(0, end - part.h.first_out) + step_h_ - 1) / step_h_);
    const bool clamps = is_clamp(epilogue_);
    const float* weights = weights_.get() + part.weights;
    ConvRun run;
    run.x_block = shape_.in_pixels() * 8;
    run.low = clamps ? clamp_low(epilogue_) : -kInfinity;
    run.high = clamps ? clamp_high(epilogue_) : kInfinity;
    run.x_col = w.dilation * 8;
    run.x_row = h.dilation * w.in * 8;
    const bool joined = part.phases > 1;
    run.y_block = joined ? 1 : plane;
    for (int64_t first = 0; first < shape_.outputs; first += joined ? 1 : at_once(part, first)) {
      const int64_t count = at_once(part, first);
      const auto run_tile = conv_table().run_few[count - 1];
      run.w_col = count * 8;
      run.w_row = run.w_col * w.kernel;
      run.w_block = run.w_row * h.kernel;
      std::array<float, kMostFewOutputs> biases;
      for (int64_t i = 0; i < count; ++i) biases[i] = bias[joined ? first : first + i];
      run.bias = biases.data();
      const auto run_span = [&](const WindowSpan& span) {
        const bool any = span.rows.count > 0 && span.cols.count > 0;
        const int64_t row = span.row * h.stride - h.pad_begin + span.rows.first * h.dilation;
        const int64_t col = span.col * w.stride - w.pad_begin + span.cols.first * w.dilation;
        run.x = any ? x + (row * w.in + col) * 8 : x;
        run.w = weights + span.rows.first * run.w_row + span.cols.first * run.w_col;
        run.x_pixel = (span.down ? h.stride * w.in : w.stride) * 8;
        run.rows = span.rows.count;
        run.cols = span.cols.count;
        run.blocks = any ? shape_.channels / 8 : 0;
        run.tail = any ? shape_.channels % 8 : 0;
        run.y =
            y + first * plane + (part.h.first_out + span.row * step_h_) * width + part.w.first_out + span.col * step_w_;
        run.y_pixel = span.down ? step_h_ * width : step_w_;
        run.pixels = span.count;
        run_tile(run);
      };
      if (is_point(w) && step_h_ == 1 && step_w_ == 1 && (h.stride == 1 || w.out == 1)) {
        for_column_spans(h, w, row_begin, row_end, run_span);
      } else {
        for_spans(h, w, row_begin, row_end, run_span);
      }
      weights += shape_.in_blocks() * run.w_block;
    }
  }

  ConvShape shape_;
  Epilogue epilogue_;
  std::string name_;
  std::vector<Part> parts_;
  int64_t step_h_ = 1, step_w_ = 1;
  std::shared_ptr<const float> weights_;
  ConvBias bias_;
};

// The same from a plain input of fewer than eight channels, which is copied with its padding first: then whole rows are
// computed without borders.
class FewPlainConv final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelNode& node) {
    auto kernel = std::make_unique<FewPlainConv>();
    TENON_TRY_ASSIGN(kernel->shape_, conv_shape(node));
    TENON_TRY_ASSIGN(kernel->epilogue_, read_epilogue(*node.node));
    const ConvShape& shape = kernel->shape_;
    kernel->name_ = format("conv{}x{}_few_plain", shape.h.kernel, shape.w.kernel);
    kernel->rows_ = std::max(shape.h.in + shape.h.pad_begin, (shape.h.out - 1) * shape.h.stride + shape.h.reach());
    kernel->width_ = std::max(shape.w.in + shape.w.pad_begin, shape.w.out - 1 + shape.w.reach());
    const int64_t taps = shape.channels * shape.h.kernel * shape.w.kernel;
    TENON_TRY(expect_constant_floats(node, 1, shape.outputs * taps));
    // [outputs at once][channel][row][col][output]
    auto pack = [&](const float* weights, float* out) {
      for (int64_t first = 0; first < shape.outputs; first += kMostFewOutputs) {
        const int64_t count = std::min<int64_t>(kMostFewOutputs, shape.outputs - first);
        for (int64_t t = 0; t < taps; ++t)
          for (int64_t o = 0; o < count; ++o) *out++ = weights[(first + o) * taps + t];
      }
    };
    TENON_TRY_ASSIGN(kernel->weights_,
                     pack_weights(node, 1, format("conv_few_plain {}", shape.outputs), shape.outputs * taps, pack));
    TENON_TRY_ASSIGN(kernel->bias_, ConvBias::create(node, 2, shape.outputs));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Status run(KernelContext& context) const override {
    const float* const bias = bias_.values(context, context.scratch + copied_bytes());
    auto* const copied = reinterpret_cast<float*>(context.scratch);
    copy(*context.pool, context.input<float>(0), copied);
    float* const y = context.output<float>(0);
    constexpr int64_t kColumns = 2048;  // that a thread takes at once
    const int64_t rows = shape_.h.out, channels = shape_.channels, width = shape_.w.out;
    const int64_t chunks = (width + kColumns - 1) / kColumns;
    const int64_t taps = shape_.h.kernel * shape_.w.kernel * channels * shape_.outputs;
    context.pool->parallel_for(
        shape_.batch * rows * chunks, grain_of(std::min(width, kColumns) * taps / 8), [&](int64_t begin, int64_t end) {
          for (int64_t item = begin; item < end; ++item) {
            const int64_t image = item / chunks / rows, row = item / chunks % rows, first = item % chunks * kColumns;
            run_columns(copied + (image * channels * rows_ + row * shape_.h.stride) * width_ + first, bias,
                        y + image * shape_.outputs * shape_.out_pixels() + row * width + first,
                        std::min(kColumns, width - first));
          }
        });
    return {};
  }
  size_t scratch_bytes() const override { return copied_bytes() + bias_.scratch_bytes(); }
  bool reads(size_t input) const override { return input != 1; }
  std::string_view name() const override { return name_; }

 private:
  size_t copied_bytes() const {
    return round_up((shape_.batch * shape_.channels * rows_ * width_ + kFewPlainBeyond) * 4, 64);
  }

  void copy(ThreadPool& pool, const float* x, float* to) const {
    const WindowAxis &h = shape_.h, &w = shape_.w;
    pool.parallel_for(shape_.batch * shape_.channels * rows_, grain_of(width_ / 8), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        float* const out = to + row * width_;
        const int64_t from = row % rows_ - h.pad_begin;
        std::fill_n(out, width_, 0.0f);
        if (from < 0 || from >= h.in) continue;
        std::copy_n(x + (row / rows_ * h.in + from) * w.in, w.in, out + w.pad_begin);
      }
    });
    std::fill_n(to + shape_.batch * shape_.channels * rows_ * width_, kFewPlainBeyond, 0.0f);
  }

  // Outputs beside each other in a row.
  void run_columns(const float* x, const float* bias, float* y, int64_t columns) const {
    const bool clamps = is_clamp(epilogue_);
    const float* weights = weights_.get();
    ConvRun run;
    run.x = x;
    run.x_col = shape_.w.dilation;
    run.x_row = shape_.h.dilation * width_;
    run.x_block = rows_ * width_;
    run.rows = shape_.h.kernel;
    run.cols = shape_.w.kernel;
    run.blocks = shape_.channels;
    run.y_block = shape_.out_pixels();
    run.low = clamps ? clamp_low(epilogue_) : -kInfinity;
    run.high = clamps ? clamp_high(epilogue_) : kInfinity;
    run.pixels = columns;
    for (int64_t first = 0; first < shape_.outputs; first += kMostFewOutputs) {
      const int64_t count = std::min<int64_t>(kMostFewOutputs, shape_.outputs - first);
      run.w = weights;
      run.bias = bias + first;
      run.y = y + first * run.y_block;
      conv_table().run_few_plain[count - 1](run);
      weights += count * run.blocks * run.rows * run.cols;
    }
    for (int64_t o = 0; o < shape_.outputs && !clamps; ++o)
      finish_run(epilogue_, y + o * run.y_block, nullptr, columns);
  }

  ConvShape shape_;
  Epilogue epilogue_;
  std::string name_;
  int64_t rows_ = 0, width_ = 0;  // of a copied channel
  std::shared_ptr<const float> weights_;
  ConvBias bias_;
};

// `input`: the layout of the input.
Status match_few(const KernelNode& node, const ConvShape& shape, Layout input) {
  constexpr int64_t kFewOutputs = 7;
  TENON_UNSUPPORTED_IF(node.constants[1] == nullptr, "The weights are not constant.");
  TENON_UNSUPPORTED_IF(shape.group != 1, "One group is served, not {}.", shape.group);
  TENON_UNSUPPORTED_IF(shape.channels == 0, "There are no channels.");
  TENON_UNSUPPORTED_IF(shape.outputs < 1 || shape.outputs > kFewOutputs, "1 to {} outputs are served, not {}.",
                       kFewOutputs, shape.outputs);
  TENON_UNSUPPORTED_IF(node.inputs.size() > 3 && node.inputs[3].present(), "A residual is not served.");
  TENON_TRY(expect_layout(node.inputs[0], input, "The input"));
  return expect_layout(node.outputs[0], Layout::kPlain, "The output");
}

}  // namespace

Status match_conv_few(const KernelNode& node) {
  TENON_TRY_ASSIGN(ConvShape shape, conv_shape(node, 3));
  TENON_TRY(match_few(node, shape, Layout::kBlocked8));
  shape = as_map(shape);
  TENON_UNSUPPORTED_IF(!is_point(shape.d) || shape.d.out != 1, "Windows in volumes are not served.");
  TENON_UNSUPPORTED_IF(shape.w.stride != 1, "A stride of {} along rows is not served.", shape.w.stride);
  return {};
}

Status match_conv_transpose_few(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ConvShape shape, transpose_shape(node));
  return match_few(node, shape, Layout::kBlocked8);
}

Status match_conv_few_plain(const KernelNode& node) {
  constexpr int64_t kFewChannels = 7, kMostPadded = 1024;
  TENON_TRY_ASSIGN(const ConvShape shape, conv_shape(node));
  TENON_TRY(match_few(node, shape, Layout::kPlain));
  TENON_UNSUPPORTED_IF(shape.channels > kFewChannels, "1 to {} channels are served, not {}.", kFewChannels,
                       shape.channels);
  TENON_UNSUPPORTED_IF(shape.w.stride != 1, "A stride of {} along rows is not served.", shape.w.stride);
  TENON_UNSUPPORTED_IF(shape.h.kernel * shape.w.kernel == 1, "Single taps are not served.");
  // They are copied, and so is what the last windows reach.
  for (const WindowAxis* axis : {&shape.h, &shape.w})
    TENON_UNSUPPORTED_IF(axis->pad_begin > kMostPadded || axis->reach() > kMostPadded,
                         "A pad of {} and a window of {} are more than {}.", axis->pad_begin, axis->reach(),
                         kMostPadded);
  return {};
}

Result<std::unique_ptr<Kernel>> create_conv_few_plain(const KernelNode& node) { return FewPlainConv::create(node); }

Result<std::unique_ptr<Kernel>> create_conv_few(const KernelNode& node) { return FewOutputsConv::create(node); }

}  // namespace tenon::cpu
