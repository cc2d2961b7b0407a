// ConvTranspose on f32 in the plain layout, with any number of spatial dimensions, groups and dilations: a product
// gives each input position's part of every tap ("columns"), and these are added where they belong.
#include <algorithm>
#include <array>

#include "base/checked.h"
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/simd/gemm.h"
#include "ops/conv.h"
#include "ops/unary.h"

namespace tenon::cpu {

namespace {

// Columns of a task: 1 MiB, which stay in a core's cache until they are added.
constexpr int64_t kMostColumns = int64_t{1} << 18;

// Columns of one output channel, at most: beyond that, threads would take more memory than they save time.
constexpr int64_t kLargestOutput = int64_t{1} << 24;

// Inputs [begin, end) along an axis that tap `k` moves to outputs: input i to i * stride + offset.
struct InputRange {
  InputRange(const WindowAxis& axis, int64_t k) : offset(k * axis.dilation - axis.pad_begin) {
    begin = offset >= 0 ? 0 : (-offset + axis.stride - 1) / axis.stride;
    end = axis.out <= offset ? 0 : std::min(axis.in, (axis.out - 1 - offset) / axis.stride + 1);
    end = std::max(begin, end);
  }
  int64_t offset, begin = 0, end = 0;
};

class TransposeColumns final : public Kernel {
 public:
  TransposeColumns(ConvDesc conv, const Epilogue& epilogue, ConvBias bias, std::shared_ptr<const float> weights,
                   int slots)
      : conv_(std::move(conv)),
        epilogue_(epilogue),
        bias_(std::move(bias)),
        weights_(std::move(weights)),
        taps_(conv_.window.kernel_count()),
        in_count_(conv_.window.in_count()),
        out_count_(conv_.window.out_count()),
        outputs_at_once_(
            std::clamp<int64_t>(kMostColumns / std::max<int64_t>(1, taps_ * in_count_), 1, conv_.group_outputs())),
        packed_floats_(gemm_packed_floats(conv_.group_channels(), in_count_)),
        slot_bytes_(round_up(outputs_at_once_ * taps_ * in_count_ * static_cast<int64_t>(sizeof(float)), 64)),
        slots_(slots) {}

  Status run(KernelContext& context) const override {
    const int64_t groups = conv_.batch * conv_.group;
    auto* const packed = reinterpret_cast<float*>(context.scratch + slot_bytes_ * slots_);
    const float* const bias =
        bias_.values(context, context.scratch + slot_bytes_ * slots_ + groups * packed_floats_ * sizeof(float));
    const float* const x = context.input<float>(0);
    const int64_t channels = conv_.group_channels(), panels = gemm_panels(in_count_);
    context.pool->parallel_for(groups * panels, grain_of(2 * channels), [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t group = begin / panels, first = begin % panels;
        const int64_t last = std::min(panels, first + end - begin);
        gemm_table().pack(x + group * channels * in_count_, in_count_, 1, channels, in_count_, first, last,
                          packed + group * packed_floats_);
        begin += last - first;
      }
    });
    const int64_t parts = (conv_.group_outputs() + outputs_at_once_ - 1) / outputs_at_once_;
    ScratchSlots slots(context.scratch, slot_bytes_, slots_);
    context.pool->parallel_for(groups * parts, 1, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Claim claim(slots);
      for (int64_t i = begin; i < end; ++i)
        run_part(context, i / parts, i % parts * outputs_at_once_, packed, bias, claim.floats());
    });
    return {};
  }
  size_t scratch_bytes() const override {
    return slot_bytes_ * slots_ + conv_.batch * conv_.group * packed_floats_ * sizeof(float) + bias_.scratch_bytes();
  }
  bool reads(size_t input) const override { return input != 1; }
  std::string_view name() const override { return "conv_transpose_columns"; }

 private:
  // Outputs from `first` on of one group of one image.
  void run_part(const KernelContext& context, int64_t group, int64_t first, const float* packed, const float* bias,
                float* columns) const {
    const int64_t outputs = std::min(outputs_at_once_, conv_.group_outputs() - first);
    const int64_t channels = conv_.group_channels(), of_image = group % conv_.group;
    const GemmTask task{
        .a = weights_.get() + (of_image * conv_.group_outputs() + first) * taps_ * channels,
        .lda = channels,
        .b = packed + group * packed_floats_,
        .panel_stride = channels * kGemmPanel,
        .c = columns,
        .ldc = in_count_,
        .m = outputs * taps_,
        .n = in_count_,
        .k = channels,
    };
    gemm_table().run(task);
    const float* const residual = context.input<float>(3);
    for (int64_t o = 0; o < outputs; ++o) {
      const int64_t plane = group * conv_.group_outputs() + first + o;
      float* const y = context.output<float>(0) + plane * out_count_;
      std::fill_n(y, out_count_, bias[of_image * conv_.group_outputs() + first + o]);
      add_columns(columns + o * taps_ * in_count_, y);
      finish_run(epilogue_, y, residual != nullptr ? residual + plane * out_count_ : nullptr, out_count_);
    }
  }

  // y += the columns of one output channel.
  void add_columns(const float* columns, float* y) const {
    const std::vector<WindowAxis>& axes = conv_.window.axes;
    const int last = static_cast<int>(axes.size()) - 1;
    std::array<int64_t, Shape::kMaxRank> tap{};
    for (int64_t k = 0; k < taps_; ++k, columns += in_count_) {
      const InputRange row(axes[last], tap[last]);
      add_tap(columns, y, tap, row);
      for (int d = last; d >= 0; --d) {
        if (++tap[d] < axes[d].kernel) break;
        tap[d] = 0;
      }
    }
  }

  void add_tap(const float* columns, float* y, const std::array<int64_t, Shape::kMaxRank>& tap,
               const InputRange& row) const {
    const std::vector<WindowAxis>& axes = conv_.window.axes;
    const int last = static_cast<int>(axes.size()) - 1;
    const int64_t width = axes[last].in, stride = axes[last].stride, count = row.end - row.begin;
    std::array<int64_t, Shape::kMaxRank> at{};
    for (int64_t first = 0; first < in_count_; first += width) {
      // Where the row of inputs from `first` on goes: nowhere if another axis moves it outside.
      int64_t target = 0;
      bool inside = true;
      for (int d = 0; d < last; ++d) {
        const int64_t out = at[d] * axes[d].stride + tap[d] * axes[d].dilation - axes[d].pad_begin;
        inside &= out >= 0 && out < axes[d].out;
        target = target * axes[d].out + out;
      }
      if (inside) {
        const float* const from = columns + first + row.begin;
        float* const to = y + target * axes[last].out + row.begin * stride + row.offset;
        if (stride == 1) {
          for (int64_t i = 0; i < count; ++i) to[i] += from[i];
        } else {
          for (int64_t i = 0; i < count; ++i) to[i * stride] += from[i];
        }
      }
      for (int d = last - 1; d >= 0; --d) {
        if (++at[d] < axes[d].in) break;
        at[d] = 0;
      }
    }
  }

  const ConvDesc conv_;
  const Epilogue epilogue_;
  const ConvBias bias_;
  const std::shared_ptr<const float> weights_;  // [group][output][tap][channel]
  const int64_t taps_, in_count_, out_count_;
  const int64_t outputs_at_once_;
  const int64_t packed_floats_;
  const size_t slot_bytes_;
  const int slots_;
};

}  // namespace

Status match_transpose_columns(const KernelNode& node) {
  for (std::span<const TensorSpec> specs : {node.inputs, node.outputs})
    for (const TensorSpec& spec : specs)
      TENON_UNSUPPORTED_IF(
          spec.present() && (spec.type != DataType::kFloat || spec.layout != Layout::kPlain || spec.dynamic),
          "A tensor is not plain float32 of known size.");
  TENON_UNSUPPORTED_IF(node.constants.size() < 2 || node.constants[1] == nullptr, "The weights are not constant.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_transpose_columns(const KernelNode& node) {
  TENON_TRY_ASSIGN(ConvDesc conv, read_conv(*node.node, node.inputs[0].shape, node.inputs[1].shape));
  TENON_UNSUPPORTED_IF(node.outputs[0].shape != conv.output(), "The output has shape {} instead of {}.",
                       node.outputs[0].shape.to_string(), conv.output().to_string());
  TENON_UNSUPPORTED_IF(conv.window.axes.empty() || conv.output().element_count() == 0 ||
                           node.inputs[0].shape.element_count() == 0 || node.inputs[1].shape.element_count() == 0,
                       "There is nothing to compute.");
  const int64_t taps = conv.window.kernel_count(), in_count = conv.window.in_count();
  const auto columns = checked_product(std::array<int64_t, 4>{taps, in_count, 64, 8});
  TENON_UNSUPPORTED_IF(!columns || taps * in_count > kLargestOutput, "{} taps of {} inputs are more than memory holds.",
                       taps, in_count);
  TENON_TRY_ASSIGN(const Epilogue epilogue, read_epilogue(*node.node));
  const int64_t channels = conv.group_channels(), outputs = conv.group_outputs();
  TENON_TRY(expect_constant_floats(node, 1, conv.group * channels * outputs * taps));
  const auto pack = [&](const float* weights, float* out) {
    for (int64_t g = 0; g < conv.group; ++g)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < outputs * taps; ++i)
          out[(g * outputs * taps + i) * channels + c] = weights[(g * channels + c) * outputs * taps + i];
  };
  TENON_TRY_ASSIGN(std::shared_ptr<const float> packed,
                   pack_weights(node, 1, tenon::format("transpose_columns {}", conv.group),
                                conv.group * channels * outputs * taps, pack));
  TENON_TRY_ASSIGN(ConvBias bias, ConvBias::create(node, 2, conv.group * outputs));
  return std::unique_ptr<Kernel>(std::make_unique<TransposeColumns>(std::move(conv), epilogue, std::move(bias),
                                                                    std::move(packed), scratch_slots(node)));
}

}  // namespace tenon::cpu
