// A task copies its channel with zeros beside each row, so that every tap is a row that lies somewhere further on, and
// an output row is a sum of such rows times the tap's weight. Where Conv steps by several elements, a row is stored as
// its phases: every so many-th element from the first, from the second, ... Where ConvTranspose does, the outputs of
// one phase read the same taps, and are spread over the row when they are done.
#include "ep/cpu/ops/conv/channel_rows.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/checked.h"
#include "ep/cpu/ops/conv/plain.h"
#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/lines.h"

namespace tenon::cpu::nn {

namespace {

// Floats behind a row that a vector may read.
constexpr int64_t kSlack = 16;
// Floats of a copied channel, at most: beyond that it leaves the caches. And rows that all output rows read together.
constexpr int64_t kMostFloats = int64_t{1} << 22, kMostRows = int64_t{1} << 18;

// A tap of the last axis: its place in the kernel, and where its row begins, from the outputs' first element.
struct RowTap {
  int64_t tap, offset;
};

// Outputs first, first + step, ... of a row, and what they read.
struct Phase {
  int64_t first, count;
  std::vector<RowTap> taps;
};

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// How rows of the last axis are stored and read.
class Rows {
 public:
  Rows(const WindowAxis& axis, bool transposed)
      : split_(transposed ? 1 : axis.stride), step_(transposed ? axis.stride : 1) {
    int64_t least = 0, most = 0;
    for (int64_t r = 0; r < std::min(step_, axis.out); ++r) {
      Phase phase{.first = r, .count = (axis.out - r + step_ - 1) / step_, .taps = {}};
      for (int64_t k = 0; k < axis.kernel; ++k) {
        // Output j of the phase reads element j * split + at.
        int64_t at = k * axis.dilation - axis.pad_begin;
        if (transposed) {
          const int64_t moved = r + axis.pad_begin - k * axis.dilation;
          if (floor_div(moved, step_) * step_ != moved) continue;
          at = moved / step_;
        }
        least = std::min(least, at);
        most = std::max(most, at + (phase.count - 1) * split_);
        phase.taps.push_back({.tap = k, .offset = at});
      }
      phases_.push_back(std::move(phase));
    }
    before_ = -least;
    length_ = (std::max(most + 1, axis.in) + before_ + split_ - 1) / split_ + kSlack;
    for (Phase& phase : phases_) {
      for (RowTap& tap : phase.taps) {
        const int64_t at = tap.offset + before_;
        tap.offset = at % split_ * length_ + at / split_;
      }
    }
  }

  int64_t floats() const { return split_ * length_; }
  int64_t step() const { return step_; }
  const std::vector<Phase>& phases() const { return phases_; }

  // `to` has floats() zeros, or a row that was stored before.
  void store(const float* x, int64_t count, float* to) const {
    if (split_ == 1) {
      std::copy_n(x, count, to + before_);
      return;
    }
    for (int64_t p = 0; p < split_; ++p) {
      const int64_t first = (p - before_ % split_ + split_) % split_;
      float* const line = to + p * length_ + (first + before_) / split_;
      for (int64_t i = first, j = 0; i < count; i += split_, ++j) line[j] = x[i];
    }
  }

 private:
  int64_t split_, step_;  // of stored rows into phases; of outputs
  int64_t before_ = 0, length_ = 0;
  std::vector<Phase> phases_;
};

class ChannelRows final : public Kernel {
 public:
  // `weights` take the place of the input's, unless they are null.
  ChannelRows(ConvDesc conv, Rows rows, const Epilogue& epilogue, std::shared_ptr<const std::byte> weights, int slots)
      : conv_(std::move(conv)),
        rows_(std::move(rows)),
        epilogue_(epilogue),
        weights_(std::move(weights)),
        taps_(conv_.window.kernel_count()),
        in_rows_(conv_.window.in_count() / last().in),
        out_rows_(conv_.window.out_count() / last().out),
        slots_(slots) {
    // Enough parts for every thread.
    const int64_t channels = conv_.batch * conv_.group;
    parts_ = std::min(out_rows_, slots == 1 ? 1 : (2 * slots + channels - 1) / channels);
    for (int64_t row = 0; row < out_rows_; ++row) {
      find_rows(row);
      row_ends_.push_back(static_cast<int64_t>(reads_.size()));
    }
    slot_bytes_ = aligned_bytes(static_cast<size_t>(in_rows_ * rows_.floats() + last().out + kSlack) * sizeof(float));
  }

  Status run(KernelContext& context) const override {
    ScratchSlots slots(context.scratch, slot_bytes_, slots_);
    context.pool->parallel_for(conv_.batch * conv_.group * parts_, 1, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Claim claim(slots);
      float* const image = claim.floats();
      std::fill_n(image, in_rows_ * rows_.floats(), 0.0f);
      std::vector<int64_t> offsets(taps_);
      std::vector<float> factors(taps_);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t channel = i / parts_;
        if (i == begin || i % parts_ == 0) {
          const float* const x = context.input<float>(0) + channel * in_rows_ * last().in;
          for (int64_t row = 0; row < in_rows_; ++row)
            rows_.store(x + row * last().in, last().in, image + row * rows_.floats());
        }
        run_part(context, channel, out_rows_ * (i % parts_) / parts_, out_rows_ * (i % parts_ + 1) / parts_, image,
                 {offsets, factors});
      }
    });
    return {};
  }
  size_t scratch_bytes() const override { return slot_bytes_ * slots_; }
  bool reads(size_t input) const override { return input != 1 || weights_ == nullptr; }
  std::string_view name() const override { return conv_.transposed ? "conv_transpose_rows" : "conv_rows"; }

 private:
  // Room for one entry a tap.
  struct Taps {
    std::vector<int64_t>& offsets;
    std::vector<float>& factors;
  };

  const WindowAxis& last() const { return conv_.window.axes.back(); }

  // Output rows [begin, end) of all outputs of one channel.
  void run_part(const KernelContext& context, int64_t channel, int64_t begin, int64_t end, float* image,
                Taps taps) const {
    const int64_t outputs = conv_.group_outputs(), width = last().out;
    const float* const all = weights_ ? reinterpret_cast<const float*>(weights_.get()) : context.input<float>(1);
    const float* const bias = context.input<float>(2);
    const float* const residual = context.input<float>(3);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row == 0 ? 0 : row_ends_[row - 1];
      const std::span<const RowTap> read(reads_.data() + first, row_ends_[row] - first);
      for (int64_t o = 0; o < outputs; ++o) {
        const int64_t output = channel % conv_.group * outputs + o;
        float* const y = context.output<float>(0) + ((channel * outputs + o) * out_rows_ + row) * width;
        add_rows(read, all + output * taps_, bias != nullptr ? bias[output] : 0, image, taps, y);
        finish_run(epilogue_, y, residual != nullptr ? residual + (y - context.output<float>(0)) : nullptr, width);
      }
    }
  }

  void add_rows(std::span<const RowTap> read, const float* weights, float bias, float* image, Taps taps,
                float* y) const {
    float* const line = image + in_rows_ * rows_.floats();
    for (const Phase& phase : rows_.phases()) {
      int64_t count = 0;
      if (rows_.step() == 1 && static_cast<int64_t>(read.size() * phase.taps.size()) == taps_) {
        // All taps, in the order of the weights.
        for (const RowTap& row : read)
          for (const RowTap& tap : phase.taps) taps.offsets[count++] = row.offset + tap.offset;
        line_table().weighted_sum(image, taps.offsets.data(), weights, taps_, bias, phase.count, y);
        continue;
      }
      for (const RowTap& row : read) {
        for (const RowTap& tap : phase.taps) {
          taps.offsets[count] = row.offset + tap.offset;
          taps.factors[count++] = weights[row.tap + tap.tap];
        }
      }
      float* const to = rows_.step() == 1 ? y : line;
      line_table().weighted_sum(image, taps.offsets.data(), taps.factors.data(), count, bias, phase.count, to);
      if (rows_.step() == 1) continue;
      for (int64_t j = 0; j < phase.count; ++j) y[phase.first + j * rows_.step()] = line[j];
    }
  }

  // Adds to reads_ the rows of the image that an output row reads, each with its first tap.
  void find_rows(int64_t row) {
    std::vector<RowTap> read(1, RowTap{.tap = 0, .offset = 0}), next;
    std::array<int64_t, Shape::kMaxRank> at{};
    const int outer = conv_.spatial() - 1;
    for (int d = outer - 1; d >= 0; row /= conv_.axis(d).out, --d) at[d] = row % conv_.axis(d).out;
    for (int d = 0; d < outer; ++d) {
      const WindowAxis& axis = conv_.axis(d);
      next.clear();
      for (const RowTap& before : read) {
        for (int64_t k = 0; k < axis.kernel; ++k) {
          int64_t in = at[d] * axis.stride + k * axis.dilation - axis.pad_begin;
          if (conv_.transposed) {
            const int64_t moved = at[d] + axis.pad_begin - k * axis.dilation;
            if (moved < 0 || moved % axis.stride != 0) continue;
            in = moved / axis.stride;
          }
          if (in < 0 || in >= axis.in) continue;
          next.push_back({.tap = before.tap * axis.kernel + k, .offset = before.offset * axis.in + in});
        }
      }
      read.swap(next);
    }
    for (const RowTap& found : read)
      reads_.push_back({.tap = found.tap * last().kernel, .offset = found.offset * rows_.floats()});
  }

  const ConvDesc conv_;
  const Rows rows_;
  const Epilogue epilogue_;
  const std::shared_ptr<const std::byte> weights_;
  const int64_t taps_, in_rows_, out_rows_;
  const int slots_;
  int64_t parts_ = 1;  // of a channel's output rows
  std::vector<RowTap> reads_;
  std::vector<int64_t> row_ends_;  // of each output row in reads_
  size_t slot_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<Kernel>> create_channel_rows(const KernelNode& node) {
  TENON_TRY_ASSIGN(PlainConv read, read_plain_conv(node));
  ConvDesc& conv = read.desc;
  TENON_UNSUPPORTED_IF(conv.group_channels() != 1, "An output reads {} channels, not one.", conv.group_channels());
  constexpr int64_t kManyOutputs = 16;  // to which a product reads the taps fewer times
  TENON_UNSUPPORTED_IF(!conv.transposed && conv.group == 1 && conv.outputs >= kManyOutputs,
                       "{} outputs read one channel.", conv.outputs);
  const WindowAxis& last = conv.window.axes.back();
  TENON_UNSUPPORTED_IF(last.out + last.in + last.reach() > kMostFloats || last.stride > kMostFloats,
                       "Rows of {} elements are too long.", last.in);
  const int64_t out_rows = conv.window.out_count() / last.out;
  const auto reads = checked_product(std::array<int64_t, 2>{out_rows, conv.window.kernel_count() / last.kernel});
  TENON_UNSUPPORTED_IF(!reads || *reads > kMostRows, "{} rows are read.", out_rows);
  Rows rows(last, conv.transposed);
  const auto floats = checked_product(std::array<int64_t, 2>{conv.window.in_count() / last.in, rows.floats()});
  TENON_UNSUPPORTED_IF(!floats || *floats > kMostFloats || conv.window.kernel_count() > kMostFloats,
                       "A channel has {} elements.", conv.window.in_count());
  TENON_TRY_ASSIGN(std::shared_ptr<const std::byte> cleared, cleared_constant(node, 1));
  return std::unique_ptr<Kernel>(std::make_unique<ChannelRows>(std::move(conv), std::move(rows), read.epilogue,
                                                               std::move(cleared), scratch_slots(node)));
}

}  // namespace tenon::cpu::nn
