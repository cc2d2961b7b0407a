// Weights are A of the product, pixels are columns of B: panels are packed from a copy of X with padding, whose rows
// lie so that each tap of neighbouring pixels is a run of bytes. A stride splits the copy into planes, one for each
// remainder of the coordinates. Columns between the rows of Y, and rows between its slices, are computed and dropped.
// Depthwise convolutions that take every second column keep both columns side by side: pairs of taps are multiplied as
// they lie.
#include "ep/cpu/ops/conv/integer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/ops/quantize/step.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/depthwise_bytes.h"
#include "ep/cpu/simd/int8.h"
#include "ep/cpu/simd/quantize.h"
#include "ops/conv.h"
#include "ops/unary.h"

namespace tenon::cpu {

namespace {

using nn::input_spec;
using nn::integer_zero;
using nn::output_spec;

constexpr int64_t kColumns = kInt8TileColumns;  // of one task
// About 4 us of one core.
constexpr int64_t kLeastTaskProducts = 800000;

// Longer windows have partial sums beyond 32 bits, or are no depthwise convolutions that models have.
constexpr int64_t kMostDepthwiseTaps = 256;

bool is_byte(DataType type) { return type == DataType::kUint8 || type == DataType::kInt8; }

// Which input is which.
struct Operands {
  size_t w = 1, x_zero = 2, w_zero = 3;
  size_t x_scale = kNoInput, w_scale = kNoInput, y_scale = kNoInput, y_zero = kNoInput, bias = kNoInput,
         residual = kNoInput, table = kNoInput;
  bool scaled = false;
};

Operands operands_of(const KernelNode& node) {
  Operands o;
  if (node.node->op_type == "ConvInteger") return o;
  const auto given = [&](size_t input) { return input_spec(node, input).present() ? input : kNoInput; };
  o = {.w = 3, .x_zero = given(2), .w_zero = given(5), .x_scale = 1, .w_scale = 4, .y_scale = given(6)};
  o.y_zero = given(7);
  o.bias = given(8);
  o.residual = given(9);
  o.table = given(10);
  o.scaled = true;
  return o;
}

// The copy of X: for each channel its planes, for each plane `slices` x `rows` x `columns` bytes.
struct Copy {
  int64_t slices = 0, rows = 0, columns = 0;
  int64_t column_planes = 1;  // by the remainder of the column
  int64_t row_bytes = 0;      // of a plane
  int64_t channel = 0;        // bytes of a channel
  int64_t bytes = 0;          // of all images, and what panels read behind them
};

// Those rows of one of its planes that lie in the image.
struct RowSpan {
  int64_t first = 0, count = 0;
};

class IntegerConvKernel final : public Kernel {
 public:
  IntegerConvKernel(const KernelNode& node, const ConvDesc& conv, const Operands& operands, const Epilogue& epilogue)
      : conv_(conv), o_(operands), epilogue_(epilogue), slots_(scratch_slots(node)) {
    if (conv.spatial() > 2) d_ = conv.axis(0);
    if (conv.spatial() > 1) h_ = conv.axis(conv.spatial() - 2);
    w_ = conv.axis(conv.spatial() - 1);
    pixels_ = conv.window.out_count();
    x_signed_ = node.inputs[0].type == DataType::kInt8;
    w_signed_ = node.inputs[o_.w].type == DataType::kInt8;
    const auto count = [&](size_t input) {
      return input_spec(node, input).present() ? input_spec(node, input).shape.element_count() : 0;
    };
    w_zeros_ = count(o_.w_zero);
    w_scales_ = count(o_.w_scale);
    integer_bias_ = o_.bias != kNoInput && node.inputs[o_.bias].type == DataType::kInt32;
    y_type_ = output_spec(node, 0).type;
  }

  // Errors: sizes that overflow.
  Status prepare() {
    depth_ = conv_.group_channels() * conv_.window.kernel_count();
    const bool bounds = epilogue_.activation == Activation::kNone || epilogue_.activation == Activation::kRelu ||
                        epilogue_.activation == Activation::kClip;
    depthwise_ = conv_.depthwise() && o_.scaled && o_.y_scale != kNoInput && is_byte(y_type_) && bounds &&
                 o_.residual == kNoInput && depth_ <= kMostDepthwiseTaps;
    in_pairs_ = depthwise_ && w_.stride == 2 && w_.dilation == 1;
    copy_.slices = (d_.out - 1) + (d_.reach() + d_.stride - 1) / d_.stride;
    copy_.rows = (h_.out - 1) + (h_.reach() + h_.stride - 1) / h_.stride;
    copy_.columns = (w_.out - 1) + (w_.reach() + w_.stride - 1) / w_.stride;
    const std::optional<int64_t> channel = checked_product(
        std::initializer_list<int64_t>{d_.stride, h_.stride, w_.stride, copy_.slices, copy_.rows, copy_.columns});
    const std::optional<int64_t> bytes =
        channel ? checked_product(std::initializer_list<int64_t>{*channel, conv_.channels, conv_.batch}) : std::nullopt;
    const std::optional<int64_t> slot = checked_mul(conv_.group_outputs(), 2 * kColumns * int64_t{4});
    TENON_UNSUPPORTED_IF(!bytes || !slot || *bytes > INT64_MAX / 4 || depth_ > INT64_MAX / 512,
                         "The padded copy of the input overflows.");
    copy_.channel = *channel;
    copy_.bytes = *bytes + 2 * kColumns;
    columns_ = ((d_.out - 1) * copy_.rows + h_.out - 1) * copy_.columns + w_.out;
    slot_bytes_ = round_up(int8_packed_bytes(depth_, kColumns) + kColumns * 4 + *slot, 64);
    copy_.column_planes = in_pairs_ ? 1 : w_.stride;
    copy_.row_bytes = copy_.columns * w_.stride / copy_.column_planes;
    const int64_t planes = d_.stride * h_.stride * copy_.column_planes;
    for (int64_t y = -h_.pad_begin; y < h_.stride - h_.pad_begin; ++y) {
      RowSpan& span = row_spans_.emplace_back();
      while (span.first < copy_.rows && y + span.first * h_.stride < 0) ++span.first;
      while (span.first + span.count < copy_.rows && y + (span.first + span.count) * h_.stride < h_.in) ++span.count;
    }
    for (int64_t tap = 0; tap < depth_; ++tap) {
      const int64_t row = tap / w_.kernel, slice = row / h_.kernel, c = slice / d_.kernel;
      const int64_t x = tap % w_.kernel * w_.dilation, y = row % h_.kernel * h_.dilation,
                    z = slice % d_.kernel * d_.dilation;
      if (in_pairs_ && x % 2 != 0) continue;
      const int64_t plane =
          c * planes + (z % d_.stride * h_.stride + y % h_.stride) * copy_.column_planes + x % copy_.column_planes;
      offsets_.push_back(((plane * copy_.slices + z / d_.stride) * copy_.rows + y / h_.stride) * copy_.row_bytes +
                         x / copy_.column_planes);
    }
    if (depthwise_ && depth_ > 0)
      offsets_.push_back(offsets_.back());  // for a weight of 0 behind an odd number of taps
    return {};
  }

  Status run(KernelContext& context) const override {
    if (depthwise_) {
      run_depthwise(context);
      return {};
    }
    auto* const copy = reinterpret_cast<uint8_t*>(context.scratch);
    copy_padded(context, copy);
    const Rows rows = row_parameters(context);
    const int64_t outputs = conv_.group_outputs(), blocks = (columns_ + kColumns - 1) / kColumns;
    const int64_t images = conv_.batch * conv_.group;
    const int64_t grain = std::max<int64_t>(1, kLeastTaskProducts / std::max<int64_t>(1, outputs * depth_ * kColumns));
    ScratchSlots slots(context.scratch + slots_offset(), static_cast<size_t>(slot_bytes_), slots_);
    context.pool->parallel_for(images * blocks, grain, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Claim claim(slots);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / blocks / conv_.group, group = i / blocks % conv_.group;
        run_block(context, copy, rows, image, group, i % blocks * kColumns,
                  reinterpret_cast<std::byte*>(claim.floats()));
      }
    });
    return {};
  }

  size_t scratch_bytes() const override {
    if (depthwise_) return static_cast<size_t>(channel_slot_bytes() * slots_);
    return slots_offset() + static_cast<size_t>(slot_bytes_ * slots_);
  }
  std::string_view name() const override { return depthwise_ ? "conv depthwise int8" : "conv int8"; }

 private:
  // One entry for each output channel.
  struct Rows {
    int32_t* terms;
    int32_t* factors;
    float* scales;
    float* bias;
    Int8Step step;
    bool one_factor;  // all factors are the first
    bool steps;       // Y has a step of its own, behind scales that leave it out
  };

  int64_t rows_bytes() const { return round_up(conv_.outputs * 4, 64); }
  size_t rows_offset() const { return static_cast<size_t>(round_up(copy_.bytes, 64)); }
  size_t slots_offset() const { return rows_offset() + static_cast<size_t>(4 * rows_bytes()); }

  void copy_padded(KernelContext& context, uint8_t* copy) const {
    const auto* const x = context.input<uint8_t>(0);
    const auto zero = static_cast<uint8_t>(integer_zero(context.input<uint8_t>(o_.x_zero), x_signed_, 0));
    const int64_t in = conv_.window.in_count();
    context.pool->parallel_for(conv_.batch * conv_.channels, std::max<int64_t>(1, 16384 / copy_.channel),
                               [&](int64_t begin, int64_t end) {
                                 for (int64_t i = begin; i < end; ++i)
                                   copy_channel(x + i * in, zero, copy + i * copy_.channel);
                               });
  }

  // Rows of n bytes. Those of small maps are a few bytes, for which a call would take longer than they do.
  static void copy_rows(const uint8_t* from, int64_t from_step, int64_t n, uint8_t* to, int64_t to_step, int64_t rows) {
    // Two parts that overlap.
    const auto twice = [&](auto part) {
      constexpr auto kPart = static_cast<int64_t>(sizeof part);
      for (; rows > 0; --rows, from += from_step, to += to_step) {
        decltype(part) last;
        std::memcpy(&part, from, sizeof part);
        std::memcpy(&last, from + n - kPart, sizeof last);
        std::memcpy(to, &part, sizeof part);
        std::memcpy(to + n - kPart, &last, sizeof last);
      }
    };
    if (n > 32) {
      for (; rows > 0; --rows, from += from_step, to += to_step) std::memcpy(to, from, static_cast<size_t>(n));
    } else if (n >= 16) {
      twice(std::array<uint64_t, 2>{});
    } else if (n >= 8) {
      twice(uint64_t{});
    } else if (n >= 4) {
      twice(uint32_t{});
    } else {
      for (; rows > 0; --rows, from += from_step, to += to_step)
        for (int64_t i = 0; i < n; ++i) to[i] = from[i];
    }
  }

  // to[i] = from[i * stride], i < n.
  static void take_every(const uint8_t* from, int64_t stride, int64_t n, uint8_t* to) {
    constexpr int64_t kStep = 8;
    int64_t i = 0;
    // Of a pair of bytes the first one: eight at a time, as words whose upper halves are cut off.
    for (; stride == 2 && i + kStep < n; i += kStep) {
      uint64_t low, high;
      std::memcpy(&low, from + 2 * i, sizeof low);
      std::memcpy(&high, from + 2 * i + sizeof low, sizeof high);
      const uint64_t packed = even_bytes(low) | even_bytes(high) << 32;
      std::memcpy(to + i, &packed, sizeof packed);
    }
    for (; i < n; ++i) to[i] = from[i * stride];
  }
  static uint64_t even_bytes(uint64_t x) {
    x &= 0x00ff00ff00ff00ff;
    x = (x | x >> 8) & 0x0000ffff0000ffff;
    return (x | x >> 16) & 0x00000000ffffffff;
  }

  void copy_channel(const uint8_t* x, uint8_t zero, uint8_t* to) const {
    // Borders row by row would take longer.
    std::memset(to, zero, static_cast<size_t>(copy_.channel));
    const WindowAxis d = d_, h = h_;
    const int64_t step = copy_.column_planes, columns = copy_.row_bytes, width = w_.in, rows = copy_.rows;
    // Divisions would take as long as the copies of a small map.
    const auto steps_of = [&](int64_t n) { return n <= 0 ? 0 : step == 1 ? n : (n + step - 1) / step; };
    int64_t pz = -d.pad_begin, py = -h.pad_begin;
    for (int64_t plane = 0; plane < d.stride * h.stride; ++plane) {
      for (int64_t px = 0; px < step; ++px) {
        // Column c of this plane is column c * step + px - pad of X.
        const int64_t shift = w_.pad_begin - px;
        const int64_t first = std::clamp<int64_t>(steps_of(shift), 0, columns);
        const int64_t behind = steps_of(width + shift);
        const int64_t count = std::clamp<int64_t>(behind, first, columns) - first;
        for (int64_t slice = 0, z = pz; slice < copy_.slices; ++slice, z += d.stride, to += rows * columns) {
          const RowSpan& span = row_spans_[static_cast<size_t>(py + h.pad_begin)];
          if (z < 0 || z >= d.in || span.count == 0) continue;
          const uint8_t* const from = x + z * h.in * width - shift + first * step;
          const uint8_t* row = from + (py + span.first * h.stride) * width;
          uint8_t* put = to + span.first * columns + first;
          if (step == 1) {
            copy_rows(row, h.stride * width, count, put, columns, span.count);
          } else {
            for (int64_t r = 0; r < span.count; ++r, row += h.stride * width, put += columns)
              take_every(row, step, count, put);
          }
        }
      }
      if (++py == h.stride - h.pad_begin) py = -h.pad_begin, ++pz;
    }
  }

  Rows row_parameters(KernelContext& context) const {
    auto* const base = context.scratch + rows_offset();
    const auto array = [&](int64_t i) { return base + i * rows_bytes(); };
    Rows rows{reinterpret_cast<int32_t*>(array(0)),
              reinterpret_cast<int32_t*>(array(1)),
              reinterpret_cast<float*>(array(2)),
              reinterpret_cast<float*>(array(3)),
              {},
              true,
              false};
    const auto* const w = context.input<uint8_t>(o_.w);
    const auto* const w_zeros = context.input<uint8_t>(o_.w_zero);
    // Zero points as the product counts A (weights) and B (pixels).
    const int32_t x_zero = integer_zero(context.input<uint8_t>(o_.x_zero), x_signed_, 0) - (x_signed_ ? 0 : 128);
    const auto* const y_scale = context.input<float>(o_.y_scale);
    const bool bare = o_.residual == kNoInput && epilogue_.activation == Activation::kNone;
    float folded = 1;
    if (y_scale != nullptr) {
      rows.steps = true;
      rows.step = nn::step_of(bare ? 1 : *y_scale, context.inputs, o_.y_zero, y_type_);
      if (bare) folded = *y_scale;
    }
    const uint8_t flip = w_signed_ ? 0x80 : 0;
    for (int64_t o = 0; o < conv_.outputs; ++o) {
      const int32_t w_zero = integer_zero(w_zeros, w_signed_, w_zeros_ > 1 ? o : 0) + (w_signed_ ? 128 : 0);
      // Sums wrap as int32 does.
      uint32_t sum = 0;
      if (x_zero != 0)
        for (int64_t p = 0; p < depth_; ++p) sum += w[o * depth_ + p] ^ flip;
      uint32_t term =
          static_cast<uint32_t>(x_zero) * (static_cast<uint32_t>(depth_) * static_cast<uint32_t>(w_zero) - sum);
      if (integer_bias_) term += static_cast<uint32_t>(context.input<int32_t>(o_.bias)[o]);
      rows.terms[o] = static_cast<int32_t>(term);
      rows.factors[o] = w_zero;
      rows.one_factor = rows.one_factor && w_zero == rows.factors[0];
      if (!o_.scaled) continue;
      rows.scales[o] =
          *context.input<float>(o_.x_scale) * context.input<float>(o_.w_scale)[w_scales_ > 1 ? o : 0] / folded;
      rows.bias[o] = o_.bias != kNoInput && !integer_bias_ ? context.input<float>(o_.bias)[o] / folded : 0;
    }
    return rows;
  }

  // Channels that are copied before they are computed: bytes that were just written are no vectors yet.
  int64_t channels_together() const {
    constexpr int64_t kBytes = 16 << 10, kMost = 8;
    return std::clamp<int64_t>(kBytes / std::max<int64_t>(1, copy_.channel), 1, kMost);
  }
  int64_t line_bytes() const { return round_up(columns_, 64); }
  int64_t channel_slot_bytes() const {
    return line_bytes() + round_up(channels_together() * copy_.channel + 2 * kColumns, 64);
  }

  // A few channels at a time, without panels.
  void run_depthwise(KernelContext& context) const {
    const int64_t grain = std::max<int64_t>(1, kLeastTaskProducts / (8 * depth_ * columns_));
    const int64_t in = conv_.window.in_count(), together = channels_together();
    const auto zero = static_cast<uint8_t>(integer_zero(context.input<uint8_t>(o_.x_zero), x_signed_, 0));
    ScratchSlots slots(context.scratch, static_cast<size_t>(channel_slot_bytes()), slots_);
    context.pool->parallel_for(conv_.batch * conv_.channels, grain, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Claim claim(slots);
      auto* const line = reinterpret_cast<uint8_t*>(claim.floats());
      uint8_t* const copies = line + line_bytes();
      for (int64_t first = begin; first < end; first += together) {
        const int64_t last = std::min(end, first + together);
        for (int64_t i = first; i < last; ++i)
          copy_channel(context.input<uint8_t>(0) + i * in, zero, copies + (i - first) * copy_.channel);
        for (int64_t i = first; i < last; ++i) {
          run_channel(context, copies + (i - first) * copy_.channel, i % conv_.channels, line);
          uint8_t* y = context.output<uint8_t>(0) + i * pixels_;
          for (int64_t z = 0; z < d_.out; ++z, y += h_.out * w_.out)
            copy_rows(line + z * copy_.rows * copy_.columns, copy_.columns, w_.out, y, w_.out, h_.out);
        }
      }
    });
  }

  void run_channel(KernelContext& context, const uint8_t* x, int64_t channel, uint8_t* line) const {
    const int32_t x_zero = integer_zero(context.input<uint8_t>(o_.x_zero), x_signed_, 0) + (x_signed_ ? 128 : 0);
    const int32_t w_zero = integer_zero(context.input<uint8_t>(o_.w_zero), w_signed_, w_zeros_ > 1 ? channel : 0);
    const bool y_signed = y_type_ == DataType::kInt8;
    const float y_scale = *context.input<float>(o_.y_scale);
    const auto* const w = context.input<uint8_t>(o_.w) + channel * depth_;
    int16_t weights[2 * kMostDepthwiseTaps];
    int32_t sum = 0;
    int64_t taps = 0;
    for (int64_t t = 0; t < depth_;) {
      // A pair ends with its row, or with the window.
      const int64_t end = in_pairs_ ? t + w_.kernel : depth_;
      for (; t < end; ++t) {
        weights[taps] = static_cast<int16_t>((w_signed_ ? static_cast<int8_t>(w[t]) : w[t]) - w_zero);
        sum += weights[taps++];
      }
      if (taps % 2 != 0) weights[taps++] = 0;
    }
    DepthwiseBytesTask task{.x = x,
                            .in_pairs = in_pairs_,
                            .x_flip = static_cast<uint8_t>(x_signed_ ? 0x80 : 0),
                            .offsets = offsets_.data(),
                            .weights = weights,
                            .taps = taps,
                            .term = -x_zero * sum,
                            .zero = integer_zero(context.input<uint8_t>(o_.y_zero), y_signed, 0) + (y_signed ? 128 : 0),
                            .y_flip = static_cast<uint8_t>(y_signed ? 0x80 : 0),
                            .count = columns_,
                            .y = line};
    task.scale =
        *context.input<float>(o_.x_scale) * context.input<float>(o_.w_scale)[w_scales_ > 1 ? channel : 0] / y_scale;
    if (integer_bias_) {
      task.term = static_cast<int32_t>(static_cast<uint32_t>(task.term) +
                                       static_cast<uint32_t>(context.input<int32_t>(o_.bias)[channel]));
    } else if (o_.bias != kNoInput) {
      task.bias = context.input<float>(o_.bias)[channel] / y_scale;
    } else {
      task.bias = 0;
    }
    if (epilogue_.activation == Activation::kRelu) task.low = 0;
    if (epilogue_.activation == Activation::kClip) {
      task.low = std::max(task.low, epilogue_.alpha / y_scale);
      task.high = std::min(task.high, epilogue_.beta / y_scale);
    }
    depthwise_bytes_table().run(task);
    if (o_.table != kNoInput) quantize_table().lookup(line, context.input<uint8_t>(o_.table), columns_, line);
  }

  // All channels of a group of Y at the columns from `first` on.
  void run_block(KernelContext& context, const uint8_t* copy, const Rows& rows, int64_t image, int64_t group,
                 int64_t first, std::byte* slot) const {
    const int64_t outputs = conv_.group_outputs(), count = std::min(kColumns, columns_ - first);
    auto* const packed = reinterpret_cast<uint8_t*>(slot);
    const int64_t stride = int8_depth(depth_) * kInt8Panel;
    auto* const sums = reinterpret_cast<int32_t*>(slot + int8_packed_bytes(depth_, kColumns));
    auto* const block = reinterpret_cast<std::byte*>(sums + kColumns);
    auto* const residual = reinterpret_cast<float*>(block + outputs * kColumns * 4);
    const uint8_t* const from =
        copy + (image * conv_.channels + group * conv_.group_channels()) * copy_.channel + first;
    for (int64_t j = 0; j < count; j += kInt8Panel) {
      int8_table().pack_rows(from + j, x_signed_, offsets_.data(), depth_, packed + j / kInt8Panel * stride, sums + j);
    }
    // One multiplication a column instead of one an element.
    if (rows.one_factor)
      for (int64_t j = 0; j < kColumns; ++j)
        sums[j] = static_cast<int32_t>(0 - static_cast<uint32_t>(rows.factors[0]) * static_cast<uint32_t>(sums[j]));
    const int64_t channel = group * outputs;
    Int8Task task{.a = context.input<uint8_t>(o_.w) + channel * depth_,
                  .lda = depth_,
                  .a_signed = w_signed_,
                  .b = packed,
                  .panel_stride = stride,
                  .m = outputs,
                  .n = count,
                  .k = depth_,
                  .row_terms = rows.terms + channel,
                  .column_terms = rows.one_factor ? sums : nullptr,
                  .row_factors = rows.one_factor ? nullptr : rows.factors + channel,
                  .column_factors = rows.one_factor ? nullptr : sums,
                  .c = block,
                  .ldc = kColumns};
    if (o_.scaled) {
      task.row_scales = rows.scales + channel;
      task.row_bias = rows.bias + channel;
      task.epilogue = epilogue_;
      task.output = !rows.steps                  ? Int8Output::kFloat
                    : y_type_ == DataType::kInt8 ? Int8Output::kInt8
                                                 : Int8Output::kUint8;
      task.step = rows.step;
      task.table = context.input<uint8_t>(o_.table);
    }
    const int64_t base = (image * conv_.outputs + channel) * pixels_;
    const auto size = static_cast<int64_t>(data_type_size(y_type_));
    auto* const y = context.output<std::byte>(0) + base * size;
    // Without padding, columns are pixels.
    if (columns_ == pixels_) {
      task.c = y + first * size;
      task.ldc = pixels_;
      if (o_.residual != kNoInput) task.residual = context.input<float>(o_.residual) + base + first;
      task.ldr = pixels_;
      int8_table().run(task);
      return;
    }
    if (o_.residual != kNoInput) {
      const auto* const added = context.input<float>(o_.residual) + base;
      each_run(first, count, [&](int64_t at, int64_t pixel, int64_t length) {
        for (int64_t o = 0; o < outputs; ++o)
          std::memcpy(residual + o * kColumns + at, added + o * pixels_ + pixel, static_cast<size_t>(length) * 4);
      });
      task.residual = residual;
      task.ldr = kColumns;
    }
    int8_table().run(task);
    each_run(first, count, [&](int64_t at, int64_t pixel, int64_t length) {
      for (int64_t o = 0; o < outputs; ++o)
        std::memcpy(y + (o * pixels_ + pixel) * size, block + (o * kColumns + at) * size,
                    static_cast<size_t>(length * size));
    });
  }

  // The runs of pixels in the columns [first, first + count): body(column of the block, pixel, length).
  template <typename Body>
  void each_run(int64_t first, int64_t count, const Body& body) const {
    for (int64_t at = 0; at < count;) {
      const int64_t row = (first + at) / copy_.columns, x = (first + at) % copy_.columns;
      const int64_t z = row / copy_.rows, y = row % copy_.rows;
      const int64_t length = std::min(count - at, copy_.columns - x);
      if (x < w_.out && y < h_.out) body(at, (z * h_.out + y) * w_.out + x, std::min(length, w_.out - x));
      at += length;
    }
  }

  const ConvDesc conv_;
  const Operands o_;
  const Epilogue epilogue_;
  const int slots_;
  WindowAxis d_, h_, w_;
  bool x_signed_ = false, w_signed_ = false, integer_bias_ = false, depthwise_ = false;
  bool in_pairs_ = false;  // depthwise, of every second column
  int64_t w_zeros_ = 0, w_scales_ = 0;
  DataType y_type_ = DataType::kInt32;
  Copy copy_;
  int64_t depth_ = 0, columns_ = 0, pixels_ = 0, slot_bytes_ = 0;
  std::vector<RowSpan> row_spans_;  // of each remainder of the row, from the padding's first row on
  std::vector<int64_t> offsets_;    // of each element of a row of the weights, or of each pair
};

}  // namespace

Status match_conv_integer(const KernelNode& node) {
  for (std::span<const TensorSpec> specs : {node.inputs, node.outputs}) {
    for (const TensorSpec& spec : specs) {
      TENON_UNSUPPORTED_IF(spec.present() && (spec.layout != Layout::kPlain || spec.dynamic),
                           "A tensor is not plain, or its size is not known beforehand.");
    }
  }
  const Operands o = operands_of(node);
  const TensorSpec &x = input_spec(node, 0), &w = input_spec(node, o.w);
  TENON_UNSUPPORTED_IF(!is_byte(x.type) || !is_byte(w.type), "A convolution of {} and {} is not one of bytes.",
                       data_type_name(x.type), data_type_name(w.type));
  TENON_TRY_ASSIGN(const ConvDesc conv, read_conv(*node.node, x.shape, w.shape));
  TENON_UNSUPPORTED_IF(conv.spatial() > 3, "The convolution has {} spatial dimensions.", conv.spatial());
  TENON_UNSUPPORTED_IF(conv.batch == 0 || conv.channels == 0 || conv.outputs == 0 || conv.window.out_count() == 0,
                       "The convolution is empty.");
  for (int i = 0; i < conv.spatial(); ++i) {
    const WindowAxis& axis = conv.axis(i);
    // The copy has all of X, also what a stride leaps over.
    TENON_UNSUPPORTED_IF(
        (axis.stride > 64 && axis.stride > axis.reach()) || axis.pad_begin > kMostPad || axis.reach() > kMostPad,
        "Spatial dimension {} has a stride of {}, a pad of {} and taps over {} elements.", i, axis.stride,
        axis.pad_begin, axis.reach());
  }
  const auto elements = [&](size_t input) {
    return input_spec(node, input).present() ? input_spec(node, input).shape.element_count() : 1;
  };
  for (size_t input : {o.x_scale, o.x_zero, o.y_scale, o.y_zero}) {
    TENON_UNSUPPORTED_IF(elements(input) != 1, "Input {} has {} elements instead of 1.", input, elements(input));
  }
  for (size_t input : {o.w_scale, o.w_zero}) {
    TENON_UNSUPPORTED_IF(elements(input) != 1 && elements(input) != conv.outputs, "Input {} has {} elements for {}.",
                         input, elements(input), conv.outputs);
  }
  TENON_UNSUPPORTED_IF(o.bias != kNoInput && elements(o.bias) != conv.outputs, "The bias has {} elements for {}.",
                       elements(o.bias), conv.outputs);
  return {};
}

Result<std::unique_ptr<Kernel>> create_conv_integer(const KernelNode& node) {
  const Operands operands = operands_of(node);
  TENON_TRY_ASSIGN(const ConvDesc conv, read_conv(*node.node, node.inputs[0].shape, node.inputs[operands.w].shape));
  TENON_INVALID_IF(output_spec(node, 0).shape != conv.output(), "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), conv.output().to_string());
  Epilogue epilogue;
  if (node.node->domain == "tenon") {
    TENON_TRY_ASSIGN(epilogue, read_epilogue(*node.node));
  }
  auto kernel = std::make_unique<IntegerConvKernel>(node, conv, operands, epilogue);
  TENON_TRY(kernel->prepare());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace tenon::cpu
