// ConvTranspose on f32 in the plain layout, with any number of spatial dimensions, groups and dilations: a product
// gives each input position's part of every tap ("columns"), and these are added where they belong.
#include <algorithm>
#include <array>

#include "base/checked.h"
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/interleave.h"
#include "ops/conv.h"
#include "ops/unary.h"

namespace tenon::cpu {

namespace {

// Columns of a task: 512 KiB, which stay in a core's cache until they are added.
constexpr int64_t kMostColumns = int64_t{1} << 17;

constexpr int64_t kFloatsOfLine = 16;  // of 64 bytes

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

// One where a tap moves at most one input of a row to an output.
int64_t phases_of(const WindowAxis& axis) { return axis.in == 1 || axis.out <= axis.stride ? 1 : axis.stride; }

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
        phases_(phases_of(conv_.window.axes.back())),
        phase_length_(conv_.window.axes.back().out / phases_ + 1),
        slot_bytes_(slot_floats() * sizeof(float)),
        slots_(slots) {}

  Status run(KernelContext& context) const override {
    const int64_t groups = conv_.batch * conv_.group;
    auto* const packed = reinterpret_cast<float*>(context.scratch + slot_bytes_ * slots_);
    float* const arranged = packed + groups * packed_floats_;
    const float* const bias =
        bias_.values(context, reinterpret_cast<std::byte*>(arranged + (weights_ == nullptr ? weight_floats() : 0)));
    const float* const weights = weights_ != nullptr ? weights_.get() : arrange(context, arranged);
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
        run_part(context, i / parts, i % parts * outputs_at_once_, {packed, weights, bias}, claim.floats());
    });
    return {};
  }
  size_t scratch_bytes() const override {
    const int64_t floats = conv_.batch * conv_.group * packed_floats_ + (weights_ == nullptr ? weight_floats() : 0);
    return slot_bytes_ * slots_ + floats * sizeof(float) + bias_.scratch_bytes();
  }
  bool reads(size_t input) const override { return input != 1 || weights_ == nullptr; }
  std::string_view name() const override { return "conv_transpose_columns"; }

 private:
  // For all images.
  struct Operands {
    const float* packed;
    const float* weights;  // as weights_
    const float* bias;
  };

  int64_t weight_floats() const {
    return round_up(conv_.group * conv_.group_channels() * conv_.group_outputs() * taps_, kFloatsOfLine);
  }

  // The weights of this run, [group][channel][output][tap], as weights_ would have them.
  const float* arrange(KernelContext& context, float* to) const {
    const int64_t rows = conv_.group_channels(), columns = conv_.group_outputs() * taps_;
    const auto* const from = context.input<uint32_t>(1);
    context.pool->parallel_for(conv_.group * columns, grain_of(rows), [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t group = begin / columns, first = begin % columns, count = std::min(columns - first, end - begin);
        eltwise_table().transpose32(from + group * rows * columns + first, columns,
                                    reinterpret_cast<uint32_t*>(to) + begin * rows, rows, rows, count);
        begin += count;
      }
    });
    return to;
  }

  // Outputs from `first` on of one group of one image.
  void run_part(const KernelContext& context, int64_t group, int64_t first, const Operands& operands,
                float* columns) const {
    const int64_t outputs = std::min(outputs_at_once_, conv_.group_outputs() - first);
    const int64_t channels = conv_.group_channels(), of_image = group % conv_.group;
    const GemmTask task{
        .a = operands.weights + (of_image * conv_.group_outputs() + first) * taps_ * channels,
        .lda = channels,
        .b = operands.packed + group * packed_floats_,
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
      float* const sums = phases_ == 1 ? y : columns + columns_floats();
      std::fill_n(sums, phases_ == 1 ? out_count_ : rows_out() * phases_ * phase_length_,
                  operands.bias[of_image * conv_.group_outputs() + first + o]);
      add_columns(columns + o * taps_ * in_count_, sums);
      if (phases_ > 1) join_phases(sums, y);
      finish_run(epilogue_, y, residual != nullptr ? residual + plane * out_count_ : nullptr, out_count_);
    }
  }

  // sums += the columns of one output channel.
  void add_columns(const float* columns, float* sums) const {
    const std::vector<WindowAxis>& axes = conv_.window.axes;
    const int last = static_cast<int>(axes.size()) - 1;
    std::array<int64_t, Shape::kMaxRank> tap{};
    for (int64_t k = 0; k < taps_; ++k, columns += in_count_) {
      const InputRange row(axes[last], tap[last]);
      if (row.end > row.begin) add_tap(columns, sums, tap, row);
      for (int d = last; d >= 0; --d) {
        if (++tap[d] < axes[d].kernel) break;
        tap[d] = 0;
      }
    }
  }

  void add_tap(const float* columns, float* sums, const std::array<int64_t, Shape::kMaxRank>& tap,
               const InputRange& row) const {
    const std::vector<WindowAxis>& axes = conv_.window.axes;
    const int last = static_cast<int>(axes.size()) - 1;
    const int64_t width = axes[last].in, count = row.end - row.begin;
    const int64_t out = row.begin * axes[last].stride + row.offset;
    const int64_t at_row = phases_ == 1 ? out : out % phases_ * phase_length_ + out / phases_;
    const auto add = eltwise_table().binary[static_cast<int>(Binary::kAdd)];
    std::array<int64_t, Shape::kMaxRank> at{};
    for (int64_t first = 0; first < in_count_; first += width) {
      // Where the row of inputs from `first` on goes: nowhere if another axis moves it outside.
      int64_t target = 0;
      bool inside = true;
      for (int d = 0; d < last; ++d) {
        const int64_t position = at[d] * axes[d].stride + tap[d] * axes[d].dilation - axes[d].pad_begin;
        inside &= position >= 0 && position < axes[d].out;
        target = target * axes[d].out + position;
      }
      if (inside) {
        float* const to = sums + target * (phases_ == 1 ? axes[last].out : phases_ * phase_length_) + at_row;
        add(columns + first + row.begin, 1, to, 1, to, count);
      }
      for (int d = last - 1; d >= 0; --d) {
        if (++at[d] < axes[d].in) break;
        at[d] = 0;
      }
    }
  }

  // The phases of each row of outputs, element by element in turn.
  void join_phases(const float* sums, float* y) const {
    const int64_t width = conv_.window.axes.back().out, whole = width / phases_;
    for (int64_t row = 0; row < rows_out(); ++row, sums += phases_ * phase_length_, y += width) {
      const auto* const from = reinterpret_cast<const uint32_t*>(sums);
      auto* const to = reinterpret_cast<uint32_t*>(y);
      if (phases_ <= kLargestPixel) {
        interleave_table().words[phases_ - kLeastPixel].together(from, phase_length_, to, whole);
      } else {
        eltwise_table().transpose32(from, phase_length_, to, phases_, phases_, whole);
      }
      for (int64_t i = whole * phases_; i < width; ++i) y[i] = sums[i % phases_ * phase_length_ + whole];
    }
  }

  int64_t rows_out() const { return out_count_ / std::max<int64_t>(1, conv_.window.axes.back().out); }
  // Of one slot, rounded to lines; the sums of an output channel follow where there are phases.
  int64_t columns_floats() const { return round_up(outputs_at_once_ * taps_ * in_count_, kFloatsOfLine); }
  int64_t slot_floats() const {
    return columns_floats() + (phases_ == 1 ? 0 : round_up(rows_out() * phases_ * phase_length_, kFloatsOfLine));
  }

  const ConvDesc conv_;
  const Epilogue epilogue_;
  const ConvBias bias_;
  const std::shared_ptr<const float> weights_;  // [group][output][tap][channel]; null: they come at run time
  const int64_t taps_, in_count_, out_count_;
  const int64_t outputs_at_once_;
  const int64_t packed_floats_;
  // Outputs that lie so many elements apart on the last axis are summed side by side, so that what a tap adds to is one
  // row.
  const int64_t phases_, phase_length_;
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
  const auto pack = [&](const float* weights, float* out) {
    for (int64_t g = 0; g < conv.group; ++g)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < outputs * taps; ++i)
          out[(g * outputs * taps + i) * channels + c] = weights[(g * channels + c) * outputs * taps + i];
  };
  std::shared_ptr<const float> packed;
  if (node.constants.size() > 1 && node.constants[1] != nullptr) {
    const int64_t floats = conv.group * channels * outputs * taps;
    TENON_TRY(expect_constant_floats(node, 1, floats));
    TENON_TRY_ASSIGN(packed, pack_weights(node, 1, tenon::format("transpose_columns {}", conv.group), floats, pack));
  }
  TENON_TRY_ASSIGN(ConvBias bias, ConvBias::create(node, 2, conv.group * outputs));
  return std::unique_ptr<Kernel>(std::make_unique<TransposeColumns>(std::move(conv), epilogue, std::move(bias),
                                                                    std::move(packed), scratch_slots(node)));
}

}  // namespace tenon::cpu
