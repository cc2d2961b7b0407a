// Depthwise QLinearConv and tenon.QuantizedConv of constant weights on blocks of eight channels. Each task copies the
// rows that it needs, between zero points.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "ep/cpu/ops/conv/byte_columns.h"
#include "ep/cpu/ops/conv/integer.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/quantize.h"

namespace tenon::cpu {

namespace {

// A vector's load may reach behind the last tap.
constexpr int64_t kSlack = 64 + 8 * 8;

DepthwiseTaps taps_of(const WindowAxis& w) {
  DepthwiseTaps taps;
  conv_bytes_table().set_taps(w.stride, w.dilation, taps);
  return taps;
}

int64_t groups_of(const ConvDesc& conv) {
  const WindowAxis& w = conv.axis(conv.spatial() - 1);
  const int taps = taps_of(w).count;
  return taps == 0 ? 0 : conv.window.kernel_count() / w.kernel * ((w.kernel + taps - 1) / taps);
}

class DepthwiseBytes final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelNode& node);

  Status run(KernelContext& context) const override;
  size_t scratch_bytes() const override { return static_cast<size_t>(slot_bytes_ * slots_); }
  bool reads(size_t input) const override { return input == kX || input == kTable; }
  std::string_view name() const override { return "conv depthwise blocked int8"; }

 private:
  Status pack(const KernelNode& node);
  void copy_rows(const uint8_t* x, int64_t first, int64_t rows, uint8_t* to) const;

  int64_t blocks() const { return (conv_.channels + 7) / 8; }

  ConvDesc conv_;
  WindowAxis h_, w_;
  uint8_t flip_ = 0, zero_ = 0;  // of X, whose zero point counts so
  int64_t width_ = 0;            // pixels of a copied row
  int64_t rows_an_item_ = 1, grain_ = 1;
  int slots_ = 1;
  int64_t slot_bytes_ = 0;
  DepthwiseTaps taps_;
  std::vector<int64_t> offsets_;             // of each group of taps
  std::shared_ptr<const std::byte> packed_;  // of each block the groups of taps; the sums of all channels
  ByteColumns columns_;
  ByteBounds bounds_;
};

Result<std::unique_ptr<Kernel>> DepthwiseBytes::create(const KernelNode& node) {
  auto kernel = std::make_unique<DepthwiseBytes>();
  TENON_TRY_ASSIGN(kernel->conv_, read_conv(*node.node, node.inputs[kX].shape, node.inputs[kW].shape));
  const ConvDesc& conv = kernel->conv_;
  TENON_INVALID_IF(nn::output_spec(node, 0).shape != conv.output(), "The output has shape {} instead of {}.",
                   nn::output_spec(node, 0).shape.to_string(), conv.output().to_string());
  if (conv.spatial() > 1) kernel->h_ = conv.axis(0);
  kernel->w_ = conv.axis(conv.spatial() - 1);
  const WindowAxis &h = kernel->h_, &w = kernel->w_;
  kernel->flip_ = node.inputs[kX].type == DataType::kInt8 ? 0x80 : 0;
  kernel->zero_ = counted_x_zero(node);
  kernel->width_ = (w.out - 1) * w.stride + w.reach();
  // A few rows in the first level cache, with those that the next rows take again.
  constexpr int64_t kCopyBytes = 24 * 1024;
  const int64_t rows = std::max<int64_t>(2, kCopyBytes / (8 * kernel->width_ * h.stride));
  const int64_t parts = (h.out + rows - 1) / rows;
  kernel->rows_an_item_ = (h.out + parts - 1) / parts;
  const std::optional<int64_t> bytes =
      checked_product(std::initializer_list<int64_t>{kernel->rows_an_item_ * h.stride + h.reach(), kernel->width_, 8});
  TENON_UNSUPPORTED_IF(!bytes || *bytes > INT64_MAX / 1024, "The padded copy of the input overflows.");
  kernel->slot_bytes_ = round_up(*bytes + kSlack * w.stride, 64);
  kernel->taps_ = taps_of(w);
  kernel->slots_ = scratch_slots(node);
  TENON_TRY(kernel->pack(node));
  TENON_TRY_ASSIGN(kernel->bounds_, byte_bounds(node));
  kernel->grain_ = grain_of(kernel->rows_an_item_ * w.out * (groups_of(conv) + 2));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

Status DepthwiseBytes::pack(const KernelNode& node) {
  const int64_t groups = groups_of(conv_), taps = conv_.window.kernel_count(), all = blocks() * groups * 32;
  const int64_t together = taps_.count;
  for (int64_t y = 0; y < h_.kernel; ++y)
    for (int64_t x = 0; x < w_.kernel; x += together)
      offsets_.push_back((y * h_.dilation * width_ + x * w_.dilation) * 8);
  const uint8_t flip = node.inputs[kW].type == DataType::kInt8 ? 0 : 0x80;
  const auto pack = [&](const std::byte* weight, std::byte* out) {
    const auto* const w = reinterpret_cast<const uint8_t*>(weight);
    auto* const packed = reinterpret_cast<int8_t*>(out);
    auto* const sums = reinterpret_cast<int32_t*>(out + all);
    const int64_t row_groups = groups / h_.kernel;
    for (int64_t c = 0; c < conv_.channels; ++c)
      for (int64_t t = 0; t < taps; ++t) {
        const auto value = static_cast<int8_t>(w[c * taps + t] ^ flip);
        const int64_t row = t / w_.kernel, x = t % w_.kernel, group = row * row_groups + x / together;
        packed[(c / 8 * groups + group) * 32 + c % 8 * 4 + x % together] = value;
        sums[c] += value;
      }
  };
  const std::string format =
      tenon::format("depthwise bytes {}x{} by {}", conv_.channels, taps, conv_.window.kernel_count() / w_.kernel) +
      tenon::format(" of {}", together);
  TENON_TRY_ASSIGN(packed_, nn::packed_constant(node, node.constants[kW], format,
                                                static_cast<size_t>(all + conv_.channels * 4), pack));
  columns_ = ByteColumns(static_cast<size_t>(blocks() * 8));
  const auto* const sums = reinterpret_cast<const int32_t*>(packed_.get() + all);
  for (int64_t c = 0; c < conv_.channels; ++c) columns_.set(node, c, sums[c], static_cast<size_t>(c));
  return {};
}

// Rows of X from `first` on, which may lie in the padding.
void DepthwiseBytes::copy_rows(const uint8_t* x, int64_t first, int64_t rows, uint8_t* to) const {
  const int64_t left = std::min(w_.pad_begin, width_), count = std::clamp<int64_t>(width_ - left, 0, w_.in);
  for (int64_t y = first; y < first + rows; ++y, to += width_ * 8) {
    if (y < 0 || y >= h_.in) {
      std::memset(to, zero_, static_cast<size_t>(width_ * 8));
      continue;
    }
    std::memset(to, zero_, static_cast<size_t>(left * 8));
    conv_bytes_table().flip(x + y * w_.in * 8, flip_, count * 8, to + left * 8);
    std::memset(to + (left + count) * 8, zero_, static_cast<size_t>((width_ - left - count) * 8));
  }
}

Status DepthwiseBytes::run(KernelContext& context) const {
  const auto* const lookup = context.input<uint8_t>(kTable);
  const int64_t groups = static_cast<int64_t>(offsets_.size()), parts = (h_.out + rows_an_item_ - 1) / rows_an_item_;
  ScratchSlots slots(context.scratch, static_cast<size_t>(slot_bytes_), slots_);
  context.pool->parallel_for(conv_.batch * blocks() * parts, grain_, [&](int64_t begin, int64_t end) {
    const ScratchSlots::Claim claim(slots);
    auto* const copy = reinterpret_cast<uint8_t*>(claim.floats());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t plane = i / parts, block = plane % blocks(), first = i % parts * rows_an_item_;
      const int64_t rows = std::min(rows_an_item_, h_.out - first);
      copy_rows(context.input<uint8_t>(kX) + plane * h_.in * w_.in * 8, first * h_.stride - h_.pad_begin,
                (rows - 1) * h_.stride + h_.reach(), copy);
      const DepthwiseBlockRun run{.x = copy,
                                  .x_row = h_.stride * width_ * 8,
                                  .stride = w_.stride,
                                  .taps = &taps_,
                                  .offsets = offsets_.data(),
                                  .weights = reinterpret_cast<const int8_t*>(packed_.get()) + block * groups * 32,
                                  .groups = groups,
                                  .terms = columns_.terms.data() + block * 8,
                                  .scales = columns_.scales.data() + block * 8,
                                  .bias = columns_.bias.data() + block * 8,
                                  .is_signed = bounds_.output == Int8Output::kInt8,
                                  .zero = bounds_.zero,
                                  .low = bounds_.low,
                                  .high = bounds_.high,
                                  .rows = rows,
                                  .columns = w_.out,
                                  .y = context.output<uint8_t>(0) + (plane * h_.out + first) * w_.out * 8};
      conv_bytes_table().run_depthwise(run);
      if (lookup != nullptr) quantize_table().lookup(run.y, lookup, rows * w_.out * 8, run.y);
    }
  });
  return {};
}

}  // namespace

Status match_depthwise_bytes(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ConvDesc conv, match_constant_bytes(node));
  TENON_UNSUPPORTED_IF(!conv.depthwise() || conv.spatial() > 2, "{} groups of {} channels are not depthwise.",
                       conv.group, conv.group_channels());
  TENON_TRY(expect_layout(node.inputs[kX], Layout::kBlocked8, "The input"));
  TENON_UNSUPPORTED_IF(nn::output_spec(node, 0).type == DataType::kFloat, "The output is float32.");
  const int64_t groups = groups_of(conv);
  TENON_UNSUPPORTED_IF(groups == 0 || groups > kMostTapGroups, "The window has {} groups of taps.", groups);
  return {};
}

Result<std::unique_ptr<Kernel>> create_depthwise_bytes(const KernelNode& node) { return DepthwiseBytes::create(node); }

}  // namespace tenon::cpu
