// Convolutions from the blocked layout to fewer than eight plain output channels, with one group and a stride of 1
// along rows: heads that give a mask, a depth or a colour image.
#include "ep/cpu/ops/blocked_rows.h"
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

class FewOutputsConv final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelNode& node) {
    auto kernel = std::make_unique<FewOutputsConv>();
    TENON_TRY_ASSIGN(kernel->shape_, conv_shape(node, 3));
    kernel->shape_ = as_map(kernel->shape_);
    TENON_TRY_ASSIGN(kernel->epilogue_, read_epilogue(*node.node));
    const ConvShape& shape = kernel->shape_;
    kernel->name_ = format("conv{}x{}_few", node.inputs[0].shape.rank() == 3 ? 1 : shape.h.kernel,
                           node.inputs[0].shape.rank() == 3 ? shape.h.kernel : shape.w.kernel);
    const int64_t taps = shape.h.kernel * shape.w.kernel, blocks = shape.in_blocks();
    TENON_TRY(expect_constant_floats(node, 1, shape.outputs * shape.channels * taps));
    auto pack = [&](const float* weights, float* out) {
      for (int64_t first = 0; first < shape.outputs; first += conv_table().few) {
        const int64_t count = std::min<int64_t>(conv_table().few, shape.outputs - first);
        for (int64_t o = 0; o < count; ++o) {
          for (int64_t c = 0; c < shape.channels; ++c) {
            for (int64_t t = 0; t < taps; ++t)
              out[((c / 8 * taps + t) * count + o) * 8 + c % 8] =
                  weights[((first + o) * shape.channels + c) * taps + t];
          }
        }
        out += blocks * taps * count * 8;
      }
    };
    const std::string key = format("conv_few {} {} {} by {}", shape.channels, taps, shape.outputs, conv_table().few);
    TENON_TRY_ASSIGN(kernel->weights_, pack_weights(node, 1, key, blocks * taps * shape.outputs * 8, pack));
    TENON_TRY_ASSIGN(kernel->bias_, ConvBias::create(node, 2, shape.outputs));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Status run(KernelContext& context) const override {
    const float* const x = context.input<float>(0);
    const float* const bias = bias_.values(context, context.scratch);
    float* const y = context.output<float>(0);
    const int64_t rows = shape_.h.out,
                  row_work = shape_.w.out * shape_.h.kernel * shape_.w.kernel * shape_.in_blocks() * shape_.outputs;
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
  void run_rows(const float* x, const float* bias, float* y, int64_t begin, int64_t end) const {
    const WindowAxis &h = shape_.h, &w = shape_.w;
    const int64_t plane = shape_.out_pixels(), blocks = shape_.channels / 8, tail = shape_.channels % 8;
    const bool clamps = is_clamp(epilogue_);
    const float* weights = weights_.get();
    ConvRun run;
    run.x_block = shape_.in_pixels() * 8;
    run.y_block = plane;
    run.low = clamps ? clamp_low(epilogue_) : -kInfinity;
    run.high = clamps ? clamp_high(epilogue_) : kInfinity;
    run.x_col = w.dilation * 8;
    run.x_row = h.dilation * w.in * 8;
    for (int64_t first = 0; first < shape_.outputs; first += conv_table().few) {
      const int64_t count = std::min<int64_t>(conv_table().few, shape_.outputs - first);
      const auto run_tile = conv_table().run_few[count - 1];
      run.w_col = count * 8;
      run.w_row = run.w_col * w.kernel;
      run.w_block = run.w_row * h.kernel;
      run.bias = bias + first;
      const auto run_span = [&](const WindowSpan& span) {
        const bool any = span.rows.count > 0 && span.cols.count > 0;
        const int64_t row = span.row * h.stride - h.pad_begin + span.rows.first * h.dilation;
        const int64_t col = span.col * w.stride - w.pad_begin + span.cols.first * w.dilation;
        run.x = any ? x + (row * w.in + col) * 8 : x;
        run.w = weights + span.rows.first * run.w_row + span.cols.first * run.w_col;
        run.x_pixel = (span.down ? h.stride * w.in : w.stride) * 8;
        run.rows = span.rows.count;
        run.cols = span.cols.count;
        run.blocks = any ? blocks : 0;
        run.tail = any ? tail : 0;
        run.y = y + first * plane + span.row * w.out + span.col;
        run.y_pixel = span.down ? w.out : 1;
        run.pixels = span.count;
        run_tile(run);
      };
      if (is_point(w) && (h.stride == 1 || w.out == 1)) {
        for_column_spans(h, w, begin, end, run_span);
      } else {
        for_spans(h, w, begin, end, run_span);
      }
      weights += shape_.in_blocks() * run.w_block;
    }
    if (clamps) return;
    for (int64_t o = 0; o < shape_.outputs; ++o)
      finish_run(epilogue_, y + o * plane + begin * w.out, nullptr, (end - begin) * w.out);
  }

  ConvShape shape_;
  Epilogue epilogue_;
  std::string name_;
  std::shared_ptr<const float> weights_;
  ConvBias bias_;
};

}  // namespace

Status match_conv_few(const KernelNode& node) {
  constexpr int64_t kFewOutputs = 7;
  TENON_TRY_ASSIGN(ConvShape shape, conv_shape(node, 3));
  TENON_UNSUPPORTED_IF(node.constants[1] == nullptr, "The weights are not constant.");
  TENON_UNSUPPORTED_IF(shape.group != 1, "One group is served, not {}.", shape.group);
  TENON_UNSUPPORTED_IF(shape.channels == 0, "There are no channels.");
  TENON_UNSUPPORTED_IF(shape.outputs < 1 || shape.outputs > kFewOutputs, "1 to {} outputs are served, not {}.",
                       kFewOutputs, shape.outputs);
  shape = as_map(shape);
  TENON_UNSUPPORTED_IF(!is_point(shape.d) || shape.d.out != 1, "Windows in volumes are not served.");
  TENON_UNSUPPORTED_IF(shape.w.stride != 1, "A stride of {} along rows is not served.", shape.w.stride);
  TENON_UNSUPPORTED_IF(node.inputs.size() > 3 && node.inputs[3].present(), "A residual is not served.");
  TENON_TRY(expect_layout(node.inputs[0], Layout::kBlocked8, "The input"));
  return expect_layout(node.outputs[0], Layout::kPlain, "The output");
}

Result<std::unique_ptr<Kernel>> create_conv_few(const KernelNode& node) { return FewOutputsConv::create(node); }

}  // namespace tenon::cpu
