// QLinearConv and tenon.QuantizedConv of constant weights on blocks of eight channels, or from up to four plain ones.
// The pixels of uint8 blocks without padding are multiplied as they lie; others are copied first, between zero points.
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

using nn::output_spec;

constexpr int64_t kPlainChannels = 4;  // of plain inputs, at most

class BlockedBytesConv final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelNode& node);

  Status run(KernelContext& context) const override;
  size_t scratch_bytes() const override { return static_cast<size_t>(copy_bytes_); }
  bool reads(size_t input) const override { return input == kX || input == kTable; }
  std::string_view name() const override { return "conv blocked int8"; }

 private:
  // Elements, in units of a few channels, of a block of X as it is read.
  struct Grid {
    int64_t slices = 0, rows = 0, columns = 0;
    int64_t pixels() const { return slices * rows * columns; }
  };

  Status lay_out();
  Status pack(const KernelNode& node);
  void set_columns(const KernelNode& node);
  void split(int threads);
  void copy(KernelContext& context) const;
  void copy_row(const uint8_t* x, int64_t plane, int channels, void* to) const;

  int64_t panels() const { return int8_columns(conv_.group_outputs()) / kInt8Panel; }  // of a group
  int64_t blocks() const { return plain_ ? 1 : (conv_.channels + 7) / 8; }
  int64_t depth() const { return run_.words * conv_bytes_table().word; }
  int64_t panel_bytes() const { return depth() * kInt8Panel; }

  ConvDesc conv_;
  WindowAxis d_, h_, w_;
  bool plain_ = false, copies_ = false;
  uint8_t flip_ = 0, zero_ = 0;  // of X, whose zero point counts so
  int unit_ = 8;
  Grid grid_;
  int64_t copy_bytes_ = 0;
  std::vector<int64_t> offsets_;
  std::shared_ptr<const std::byte> packed_;  // the panels, and the sums of their columns
  ByteColumns columns_;
  ConvBytesRun run_;  // what all runs share
  int64_t pixels_ = 0, pixels_an_item_ = 0, panels_an_item_ = 0, grain_ = 1;
};

Result<std::unique_ptr<Kernel>> BlockedBytesConv::create(const KernelNode& node) {
  auto kernel = std::make_unique<BlockedBytesConv>();
  TENON_TRY_ASSIGN(kernel->conv_, read_conv(*node.node, node.inputs[kX].shape, node.inputs[kW].shape));
  const ConvDesc& conv = kernel->conv_;
  TENON_INVALID_IF(output_spec(node, 0).shape != conv.output(), "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), conv.output().to_string());
  if (conv.spatial() > 2) kernel->d_ = conv.axis(0);
  if (conv.spatial() > 1) kernel->h_ = conv.axis(conv.spatial() - 2);
  kernel->w_ = conv.axis(conv.spatial() - 1);
  const TensorSpec& x = node.inputs[kX];
  kernel->plain_ = x.layout == Layout::kPlain;
  kernel->unit_ = kernel->plain_ ? kPlainChannels : 8;
  kernel->flip_ = x.type == DataType::kInt8 ? 0x80 : 0;
  kernel->zero_ = counted_x_zero(node);
  kernel->pixels_ = conv.window.out_count();
  TENON_TRY(kernel->lay_out());
  TENON_TRY(kernel->pack(node));
  kernel->set_columns(node);
  TENON_TRY_ASSIGN(const ByteBounds bounds, byte_bounds(node));
  kernel->run_.output = bounds.output;
  kernel->run_.zero = bounds.zero;
  kernel->run_.low = bounds.low;
  kernel->run_.high = bounds.high;
  kernel->split(node.pool == nullptr ? 1 : node.pool->threads());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

// Errors: sizes that overflow.
Status BlockedBytesConv::lay_out() {
  const auto extent = [](const WindowAxis& axis) { return (axis.out - 1) * axis.stride + axis.reach(); };
  const auto inside = [&](const WindowAxis& axis) { return axis.pad_begin == 0 && extent(axis) <= axis.in; };
  copies_ = plain_ || flip_ != 0 || conv_bytes_table().element_bytes > 1 || !inside(d_) || !inside(h_) || !inside(w_);
  grid_ = copies_ ? Grid{extent(d_), extent(h_), extent(w_)} : Grid{d_.in, h_.in, w_.in};
  const std::optional<int64_t> block = checked_product(
      std::initializer_list<int64_t>{grid_.slices, grid_.rows, grid_.columns, unit_, conv_bytes_table().element_bytes});
  const std::optional<int64_t> bytes =
      block ? checked_product(std::initializer_list<int64_t>{*block, conv_.batch, blocks()}) : std::nullopt;
  TENON_UNSUPPORTED_IF(!bytes || *bytes > INT64_MAX / 4, "The padded copy of the input overflows.");
  copy_bytes_ = copies_ ? *bytes : 0;
  const int64_t group_blocks = plain_ ? 1 : (conv_.group_channels() + 7) / 8;
  for (int64_t b = 0; b < group_blocks; ++b)
    for (int64_t z = 0; z < d_.kernel; ++z)
      for (int64_t y = 0; y < h_.kernel; ++y)
        for (int64_t x = 0; x < w_.kernel; ++x) {
          const int64_t row = (z * d_.dilation) * grid_.rows + y * h_.dilation;
          const int64_t at = (b * grid_.pixels() + row * grid_.columns + x * w_.dilation) * unit_;
          for (int64_t c = 0; c < unit_; c += conv_bytes_table().word) offsets_.push_back(at + c);
        }
  run_.x_column = w_.stride * unit_;
  run_.x_row = h_.stride * grid_.columns * unit_;
  run_.x_slice = d_.stride * grid_.rows * grid_.columns * unit_;
  run_.rows = h_.out;
  run_.columns = w_.out;
  run_.words = static_cast<int64_t>(offsets_.size());
  return {};
}

// Weights in the order of the offsets. Channels that fill up a block count as 0.
Status BlockedBytesConv::pack(const KernelNode& node) {
  const int64_t outputs = conv_.group_outputs(), channels = conv_.group_channels();
  const int64_t taps = conv_.window.kernel_count(), depth = this->depth(), all = conv_.group * panels();
  const std::optional<int64_t> bytes = checked_mul(depth + 4, all * kInt8Panel);
  TENON_UNSUPPORTED_IF(!bytes || *bytes > INT64_MAX / 2, "The packed form of the weights overflows.");
  const bool is_signed = node.inputs[kW].type == DataType::kInt8;
  const auto pack = [&](const std::byte* weight, std::byte* out) {
    const auto* const w = reinterpret_cast<const uint8_t*>(weight);
    auto* const packed = reinterpret_cast<uint8_t*>(out);
    auto* const sums = reinterpret_cast<int32_t*>(packed + all * panel_bytes());
    const auto pack_panel = [&](int64_t panel) {
      const int64_t group = panel / panels(), first = panel % panels() * kInt8Panel;
      const int64_t count = std::min(kInt8Panel, outputs - first);
      std::vector<uint8_t> rows(static_cast<size_t>(count * depth), is_signed ? 0 : 128);
      for (int64_t o = 0; o < count; ++o) {
        const uint8_t* const from = w + (group * outputs + first + o) * channels * taps;
        uint8_t* to = rows.data() + o * depth;
        if (taps == 1) std::memcpy(to, from, static_cast<size_t>(channels));
        for (int64_t c = 0; c < channels && taps > 1; c += unit_) {
          const int64_t own = std::min<int64_t>(unit_, channels - c);
          for (int64_t t = 0; t < taps; ++t, to += unit_)
            for (int64_t i = 0; i < own; ++i) to[i] = from[(c + i) * taps + t];
        }
      }
      int8_table().pack(rows.data(), is_signed, 1, depth, depth, count, 0, 1, packed + panel * panel_bytes(),
                        sums + panel * kInt8Panel);
    };
    if (node.pool == nullptr) {
      for (int64_t panel = 0; panel < all; ++panel) pack_panel(panel);
    } else {
      node.pool->parallel_for(all, std::max<int64_t>(1, 65536 / panel_bytes()), [&](int64_t begin, int64_t end) {
        for (int64_t panel = begin; panel < end; ++panel) pack_panel(panel);
      });
    }
  };
  const std::string format = tenon::format("conv {} of {}: {} of {} from {}x{} in {}", int8_table().name, unit_, all,
                                           outputs, channels, taps, conv_.group);
  TENON_TRY_ASSIGN(packed_, nn::packed_constant(node, node.constants[kW], format, static_cast<size_t>(*bytes), pack));
  return {};
}

void BlockedBytesConv::set_columns(const KernelNode& node) {
  const int64_t all = conv_.group * panels(), outputs = conv_.group_outputs();
  const auto* const sums = reinterpret_cast<const int32_t*>(packed_.get() + all * panel_bytes());
  columns_ = ByteColumns(static_cast<size_t>(all * kInt8Panel));
  for (int64_t o = 0; o < conv_.outputs; ++o) {
    const int64_t j = o / outputs * panels() * kInt8Panel + o % outputs;
    columns_.set(node, o, sums[j], static_cast<size_t>(j));
  }
}

// Items: some pixels of some panels. Threads that share large weights should not read all of them each.
void BlockedBytesConv::split(int threads) {
  constexpr int64_t kItemBytes = 128 * 1024, kFewPixels = 24, kLargeWeights = 256 * 1024;
  constexpr int64_t kLeastProducts = 800000;  // about 4 us of one core
  const int64_t pixel_bytes = conv_.group_channels() * d_.stride * h_.stride * w_.stride + conv_.group_outputs();
  pixels_an_item_ = std::min(pixels_, std::max<int64_t>(96, kItemBytes / pixel_bytes));
  panels_an_item_ = panels();
  const auto round = [](int64_t value, int64_t step) { return (value + step - 1) / step * step; };
  const auto items = [&] {
    const int64_t parts = (pixels_ + pixels_an_item_ - 1) / pixels_an_item_;
    return conv_.batch * conv_.group * parts * ((panels() + panels_an_item_ - 1) / panels_an_item_);
  };
  const int64_t products = pixels_ * kInt8Panel * panels() * depth() * conv_.batch * conv_.group;
  const int64_t wanted = threads == 1 ? 1 : std::min<int64_t>(4 * threads, products / kLeastProducts);
  const auto split_panels = [&] {
    while (items() < wanted && panels_an_item_ > 4) panels_an_item_ = round(panels_an_item_ / 2, 4);
  };
  if (panel_bytes() * panels() > kLargeWeights) split_panels();
  while (items() < wanted && pixels_an_item_ > kFewPixels) pixels_an_item_ = std::max(kFewPixels, pixels_an_item_ / 2);
  pixels_an_item_ = round(pixels_an_item_, 12);
  split_panels();
  grain_ = std::max<int64_t>(1, kLeastProducts / std::max<int64_t>(1, products / items()));
}

// The elements of X that one row of the copy takes, without what lies left and right of them.
void BlockedBytesConv::copy_row(const uint8_t* x, int64_t plane, int channels, void* to) const {
  const ConvBytesTable& table = conv_bytes_table();
  auto* out = static_cast<uint8_t*>(to);
  const int64_t element = table.element_bytes, left = std::min(w_.pad_begin, grid_.columns);
  const int64_t count = std::clamp<int64_t>(grid_.columns - left, 0, w_.in);
  table.fill(zero_, left * unit_, out);
  out += left * unit_ * element;
  if (plain_)
    table.stage_planes(x, plane, channels, flip_, count, out);
  else
    table.stage(x, flip_, count * unit_, out);
  out += count * unit_ * element;
  table.fill(zero_, (grid_.columns - left - count) * unit_, out);
}

void BlockedBytesConv::copy(KernelContext& context) const {
  const auto* const x = context.input<uint8_t>(kX);
  const int64_t in = conv_.window.in_count(), row_bytes = grid_.columns * unit_ * conv_bytes_table().element_bytes;
  const int64_t rows = grid_.slices * grid_.rows, all = conv_.batch * blocks() * rows;
  context.pool->parallel_for(all, std::max<int64_t>(1, 65536 / row_bytes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::byte* const to = context.scratch + i * row_bytes;
      const int64_t z = i / grid_.rows % grid_.slices - d_.pad_begin, y = i % grid_.rows - h_.pad_begin;
      if (z < 0 || z >= d_.in || y < 0 || y >= h_.in) {
        conv_bytes_table().fill(zero_, grid_.columns * unit_, to);
        continue;
      }
      const int64_t block = i / rows, place = (z * h_.in + y) * w_.in;
      const uint8_t* const from = plain_ ? x + block * conv_.channels * in + place : x + (block * in + place) * 8;
      copy_row(from, in, static_cast<int>(conv_.channels), to);
    }
  });
}

Status BlockedBytesConv::run(KernelContext& context) const {
  if (copies_) copy(context);
  const auto* const x = copies_ ? reinterpret_cast<const uint8_t*>(context.scratch) : context.input<uint8_t>(kX);
  const auto* const lookup = context.input<uint8_t>(kTable);
  const auto* const packed = reinterpret_cast<const uint8_t*>(packed_.get());
  const int64_t parts = (pixels_ + pixels_an_item_ - 1) / pixels_an_item_;
  const int64_t slots = (panels() + panels_an_item_ - 1) / panels_an_item_;
  const int64_t in_block = grid_.pixels() * unit_ * conv_bytes_table().element_bytes;
  const int64_t size = run_.output == Int8Output::kFloat ? 4 : 1, out_block = pixels_ * 8;
  const int64_t out_blocks = (conv_.outputs + 7) / 8;
  auto* const y = context.output<std::byte>(0);
  context.pool->parallel_for(conv_.batch * conv_.group * slots * parts, grain_, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % parts * pixels_an_item_, panel = i / parts % slots * panels_an_item_;
      const int64_t image = i / parts / slots / conv_.group, group = i / parts / slots % conv_.group;
      ConvBytesRun run = run_;
      run.x = x + (image * blocks() + group * (plain_ ? 0 : conv_.group_channels() / 8)) * in_block;
      run.first = first;
      run.count = std::min(pixels_an_item_, pixels_ - first);
      run.offsets = offsets_.data();
      const int64_t own = group * panels() + panel;
      run.w = packed + own * panel_bytes();
      run.panel_stride = panel_bytes();
      const int64_t channel = panel * kInt8Panel;
      run.outputs = std::min(panels_an_item_ * kInt8Panel, conv_.group_outputs() - channel);
      run.terms = columns_.terms.data() + own * kInt8Panel;
      run.scales = columns_.scales.data() + own * kInt8Panel;
      run.bias = columns_.bias.data() + own * kInt8Panel;
      const int64_t block = image * out_blocks + (group * conv_.group_outputs() + channel) / 8;
      run.y = y + block * out_block * size;
      run.y_block = out_block;
      conv_bytes_table().run(run);
      if (lookup == nullptr) continue;
      for (int64_t b = 0; b < (run.outputs + 7) / 8; ++b) {
        uint8_t* const bytes = static_cast<uint8_t*>(run.y) + b * out_block + first * 8;
        quantize_table().lookup(bytes, lookup, run.count * 8, bytes);
      }
    }
  });
  return {};
}

}  // namespace

Status match_blocked_bytes(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ConvDesc conv, match_constant_bytes(node));
  if (node.inputs[kX].layout == Layout::kPlain) {
    TENON_UNSUPPORTED_IF(conv.channels > kPlainChannels || conv.group != 1, "{} channels are plain.", conv.channels);
  }
  TENON_UNSUPPORTED_IF(conv.group > 1 && (conv.group_channels() % 8 != 0 || conv.group_outputs() % 8 != 0),
                       "Groups of {} to {} channels are no whole blocks of 8.", conv.group_channels(),
                       conv.group_outputs());
  return {};
}

Result<std::unique_ptr<Kernel>> create_blocked_bytes(const KernelNode& node) { return BlockedBytesConv::create(node); }

}  // namespace tenon::cpu
