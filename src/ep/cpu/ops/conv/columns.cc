// Conv on f32 in the plain layout by im2col and a product, with any number of spatial dimensions, groups and dilations,
// and weights that may come at run time: they are the product's left side as they lie. A task makes the columns of a
// tile of neighbouring outputs, which stay in its core's cache until they are multiplied.
#include "ep/cpu/ops/conv/columns.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "ep/cpu/ops/conv/plain.h"
#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/ops/moves/copy.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/simd/gemm.h"

namespace tenon::cpu::nn {

namespace {

// Floats of the columns of a tile, and the outputs of the largest tile. Weights beyond a core's cache come from memory
// again for each tile, which is then larger: the product takes it in parts that fit.
constexpr int64_t kMostColumns = int64_t{1} << 17, kMostOutputs = 512;
constexpr int64_t kManyWeights = int64_t{1} << 18, kMostColumnsOfManyWeights = int64_t{1} << 21;
// Floats of columns that are so few that reading them again for every few rows costs little, and of the outputs of
// those rows, which are finished in the first cache.
constexpr int64_t kFewColumns = 32768, kFinishedTogether = 4096;
// Columns of one panel, at most: a kernel beyond that is left to the reference kernel.
constexpr int64_t kLongestColumn = int64_t{1} << 20;

class ConvColumns final : public Kernel {
 public:
  // `weights` take the place of the input's, unless they are null.
  ConvColumns(ConvDesc conv, const Epilogue& epilogue, std::shared_ptr<const std::byte> weights, int slots)
      : conv_(std::move(conv)),
        epilogue_(epilogue),
        weights_(std::move(weights)),
        taps_(conv_.window.kernel_count()),
        depth_(conv_.group_channels() * taps_),
        in_count_(conv_.window.in_count()),
        out_count_(conv_.window.out_count()),
        slots_(slots) {
    for (const WindowAxis& axis : conv_.window.axes) same_ = same_ && axis.stride == 1 && axis.out == axis.in;
    const int64_t groups = conv_.batch * conv_.group;
    const bool many = conv_.group_outputs() * depth_ > kManyWeights;
    shared_ = many && slots > 1;
    const int64_t most = many ? kMostColumnsOfManyWeights : kMostColumns;
    tile_ = std::clamp(most / depth_ / kGemmPanel * kGemmPanel, kGemmPanel, kMostOutputs);
    // Enough tiles for every thread.
    const int64_t tiles = slots == 1 || shared_ ? 1 : (4 * slots + groups - 1) / groups;
    tile_ = std::min(tile_, round_up((out_count_ + tiles - 1) / tiles, kGemmPanel));
    // A column for each output, and the lines that it is copied from.
    columns_bytes_ = aligned_bytes(static_cast<size_t>(depth_ * tile_) * sizeof(float));
    slot_bytes_ = aligned_bytes(static_cast<size_t>(lines() * tile_) * sizeof(float));
    if (!shared_) slot_bytes_ += columns_bytes_;
  }

  Status run(KernelContext& context) const override {
    const int64_t tiles = (out_count_ + tile_ - 1) / tile_;
    ScratchSlots slots(context.scratch, slot_bytes_, slots_);
    if (shared_) {
      auto* const columns = reinterpret_cast<float*>(context.scratch + slot_bytes_ * slots_);
      for (int64_t i = 0; i < conv_.batch * conv_.group * tiles; ++i)
        run_shared(context, i / tiles, i % tiles * tile_, slots, columns);
      return {};
    }
    context.pool->parallel_for(conv_.batch * conv_.group * tiles, 1, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Claim claim(slots);
      for (int64_t i = begin; i < end; ++i) run_tile(context, i / tiles, i % tiles * tile_, claim.floats());
    });
    return {};
  }
  size_t scratch_bytes() const override { return slot_bytes_ * slots_ + (shared_ ? columns_bytes_ : 0); }
  bool reads(size_t input) const override { return input != 1 || weights_ == nullptr; }
  std::string_view name() const override { return "conv columns"; }

 private:
  using Position = std::array<int64_t, Shape::kMaxRank>;

  // Outputs of a tile: from `first` on of one group of one image.
  struct Part {
    int64_t group, first, outputs;
    const float* x;
    bool plain;  // the channels are the right side as they lie
    bool packs;
  };
  Part part_of(const KernelContext& context, int64_t group, int64_t first) const {
    const int64_t outputs = std::min(tile_, out_count_ - first);
    const bool plain = same_ && taps_ == 1;
    return {.group = group,
            .first = first,
            .outputs = outputs,
            .x = context.input<float>(0) + group * conv_.group_channels() * in_count_,
            .plain = plain,
            .packs = !plain || !gemm_takes_plain(conv_.group_outputs(), outputs, depth_, false)};
  }

  // By one thread.
  void run_tile(const KernelContext& context, int64_t group, int64_t first, float* columns) const {
    const Part part = part_of(context, group, first);
    if (part.packs && part.plain) {
      gemm_table().pack(part.x + first, in_count_, 1, depth_, part.outputs, 0, gemm_panels(part.outputs), columns);
    } else if (part.packs) {
      fill(part, columns, columns + columns_bytes_ / sizeof(float));
    }
    const int64_t rows = conv_.group_outputs();
    int64_t together = rows;
    if (depth_ * part.outputs <= kFewColumns)
      together = std::min(rows, std::max(kGemmRows, kFinishedTogether / part.outputs / kGemmRows * kGemmRows));
    for (int64_t row = 0; row < rows; row += together)
      multiply(context, part, row, std::min(together, rows - row), columns);
  }

  // By all threads: the columns are made once, and each thread multiplies some of the weights by all of them.
  void run_shared(const KernelContext& context, int64_t group, int64_t first, ScratchSlots& slots,
                  float* columns) const {
    const Part part = part_of(context, group, first);
    if (part.packs && part.plain) {
      context.pool->parallel_for(gemm_panels(part.outputs), grain_of(2 * depth_), [&](int64_t begin, int64_t end) {
        gemm_table().pack(part.x + first, in_count_, 1, depth_, part.outputs, begin, end, columns);
      });
    } else if (part.packs && is_windows()) {
      fill_windows(part.x, conv_.window.axes.back(), first, part.outputs, columns);
    } else if (part.packs) {
      const int64_t blocks = (depth_ + lines() - 1) / lines();
      context.pool->parallel_for(blocks, grain_of(lines() * part.outputs / 4), [&](int64_t begin, int64_t end) {
        const ScratchSlots::Claim claim(slots);
        for (int64_t i = begin; i < end; ++i) fill_lines(part, i * lines(), columns, claim.floats());
      });
    }
    // The first rows are few, so that the other threads wake soon.
    constexpr int64_t kRows = 2 * kGemmRows;
    const int64_t rows = conv_.group_outputs();
    context.pool->parallel_for((rows + kRows - 1) / kRows, 1, [&](int64_t begin, int64_t end) {
      multiply(context, part, begin * kRows, std::min(rows, end * kRows) - begin * kRows, columns);
    });
  }

  // Output channels [row, row + count) of a part.
  void multiply(const KernelContext& context, const Part& part, int64_t row, int64_t count,
                const float* columns) const {
    const int64_t rows = conv_.group_outputs(), of_image = part.group % conv_.group;
    float* const y = context.output<float>(0) + part.group * rows * out_count_ + part.first;
    const float* const weights = weights_ ? reinterpret_cast<const float*>(weights_.get()) : context.input<float>(1);
    const float* const bias = context.input<float>(2);
    const float* const residual = context.input<float>(3);
    gemm_table().run({.a = weights + (of_image * rows + row) * depth_,
                      .lda = depth_,
                      .b = part.packs ? columns : nullptr,
                      .panel_stride = depth_ * kGemmPanel,
                      .plain_b = part.packs ? nullptr : part.x + part.first,
                      .row_stride = in_count_,
                      .column_stride = 1,
                      .c = y + row * out_count_,
                      .ldc = out_count_,
                      .m = count,
                      .n = part.outputs,
                      .k = depth_});
    for (int64_t r = row; r < row + count; ++r) {
      const int64_t at = (part.group * rows + r) * out_count_ + part.first;
      finish(y + r * out_count_, part.outputs, bias != nullptr ? bias[of_image * rows + r] : 0,
             residual != nullptr ? residual + at : nullptr);
    }
  }

  // Whether fill_windows() makes the columns.
  bool is_windows() const {
    constexpr int64_t kFewestTaps = 4;  // of a transposition
    const WindowAxis& axis = conv_.window.axes.back();
    return conv_.window.axes.size() == 1 && axis.stride > 1 && axis.dilation == 1 && taps_ >= kFewestTaps;
  }

  // The product's right side in panels: one row for each channel and tap, one column for each output. `block` has room
  // for lines() of them.
  void fill(const Part& part, float* columns, float* block) const {
    if (is_windows()) return fill_windows(part.x, conv_.window.axes.back(), part.first, part.outputs, columns);
    for (int64_t begin = 0; begin < depth_; begin += lines()) fill_lines(part, begin, columns, block);
  }

  // The rows from `begin` on, lines() at most.
  void fill_lines(const Part& part, int64_t begin, float* columns, float* block) const {
    const int64_t panels = gemm_panels(part.outputs), width = panels * kGemmPanel;
    const int64_t count = std::min(lines(), depth_ - begin);
    for (int64_t i = 0, k = begin; i < count; ++i, ++k) {
      float* const line = block + i * width;
      read_line(part.x + k / taps_ * in_count_, k % taps_, part.first, part.outputs, line);
      std::fill(line + part.outputs, line + width, 0.0f);
    }
    for (int64_t panel = 0; panel < panels; ++panel) {
      float* const to = columns + (panel * depth_ + begin) * kGemmPanel;
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * kGemmPanel, block + i * width + panel * kGemmPanel, kGemmPanel * sizeof(float));
    }
  }

  // Panels lie far apart, often a multiple of a page, so that each gets several lines at a time.
  static constexpr int64_t kLinesTogether = 32;
  int64_t lines() const { return std::min(kLinesTogether, depth_); }

  // The same for steps along a single axis, where the windows of neighbouring outputs are rows of a matrix whose
  // columns are wanted.
  void fill_windows(const float* x, const WindowAxis& axis, int64_t first, int64_t outputs, float* columns) const {
    for (int64_t j = 0; j < outputs; j += kGemmPanel, columns += depth_ * kGemmPanel) {
      const int64_t begin = (first + j) * axis.stride - axis.pad_begin;
      const bool inside =
          outputs - j >= kGemmPanel && begin >= 0 && begin + (kGemmPanel - 1) * axis.stride + axis.kernel <= axis.in;
      for (int64_t k = 0; k < depth_; k += taps_) {
        const float* const from = x + k / taps_ * in_count_ + begin;
        float* const to = columns + k * kGemmPanel;
        if (inside) {
          transpose(sizeof(float), from, axis.stride, to, kGemmPanel, kGemmPanel, taps_);
          continue;
        }
        for (int64_t t = 0; t < taps_; ++t) {
          for (int64_t i = 0; i < kGemmPanel; ++i) {
            const int64_t at = begin + i * axis.stride + t;
            to[t * kGemmPanel + i] = at >= 0 && at < axis.in && j + i < outputs ? from[i * axis.stride + t] : 0.0f;
          }
        }
      }
    }
  }

  // The elements of a channel that tap number `number` reads for outputs [first, first + count): zeros outside of the
  // image.
  void read_line(const float* x, int64_t number, int64_t first, int64_t count, float* line) const {
    const std::vector<WindowAxis>& axes = conv_.window.axes;
    const size_t last = axes.size() - 1;
    Position shift{}, at{};
    for (size_t d = axes.size(); d-- > 0; number /= axes[d].kernel)
      shift[d] = number % axes[d].kernel * axes[d].dilation - axes[d].pad_begin;
    if (same_) return read_shifted(x, shift, first, count, line);
    int64_t rest = first;
    for (size_t d = axes.size(); d-- > 0; rest /= axes[d].out) at[d] = rest % axes[d].out;
    while (count > 0) {
      const int64_t n = std::min(count, axes[last].out - at[last]);
      int64_t row = 0;
      bool inside = true;
      for (size_t d = 0; d < last; ++d) {
        const int64_t in = at[d] * axes[d].stride + shift[d];
        inside &= in >= 0 && in < axes[d].in;
        row = row * axes[d].in + in;
      }
      if (inside) {
        read_row(x + row * axes[last].in, axes[last], at[last], shift[last], n, line);
      } else {
        std::fill_n(line, n, 0.0f);
      }
      line += n;
      count -= n;
      at[last] = 0;
      for (size_t d = last; d-- > 0;) {
        if (++at[d] < axes[d].out) break;
        at[d] = 0;
      }
    }
  }

  // The same where every output has the place of an element: the image is copied as a whole, so many elements further
  // on, and zeros take the places of what lies beyond its borders.
  void read_shifted(const float* x, const Position& shift, int64_t first, int64_t count, float* line) const {
    const std::vector<WindowAxis>& axes = conv_.window.axes;
    int64_t from = 0;
    for (size_t d = 0; d < axes.size(); ++d) from = from * axes[d].in + shift[d];
    from += first;
    const int64_t begin = std::clamp<int64_t>(-from, 0, count), end = std::clamp(in_count_ - from, begin, count);
    std::fill_n(line, begin, 0.0f);
    std::copy_n(x + from + begin, end - begin, line + begin);
    std::fill(line + end, line + count, 0.0f);
    // Elements beyond the first axis are beyond the image, and zeros already.
    int64_t inner = 1;
    for (size_t d = axes.size(); --d > 0;) {
      const int64_t period = inner * axes[d].in, run = std::min(std::abs(shift[d]), axes[d].in) * inner;
      if (run > 0) clear(line, count, first, period, shift[d] < 0 ? 0 : period - run, run);
      inner = period;
    }
  }

  // Zeros for `run` elements from `begin` on of each `period`; the line begins with element `first`.
  static void clear(float* line, int64_t count, int64_t first, int64_t period, int64_t begin, int64_t run) {
    // The first period may have begun before the line.
    for (int64_t at = begin - first % period; at < count; at += period) {
      const int64_t from = std::max<int64_t>(at, 0), n = std::min(at + run, count) - from;
      if (n == 1) {
        line[from] = 0;
      } else if (n > 1) {
        std::fill_n(line + from, n, 0.0f);
      }
    }
  }

  static void read_row(const float* x, const WindowAxis& axis, int64_t out, int64_t shift, int64_t n, float* line) {
    // Outputs [low, high) read elements of the row.
    const int64_t low = std::clamp(shift >= 0 ? 0 : (-shift + axis.stride - 1) / axis.stride, out, out + n);
    const int64_t high = std::clamp(shift >= axis.in ? 0 : (axis.in - 1 - shift) / axis.stride + 1, low, out + n);
    std::fill_n(line, low - out, 0.0f);
    const float* const from = x + low * axis.stride + shift;
    float* const to = line + (low - out);
    if (axis.stride == 1) {
      std::copy_n(from, high - low, to);
    } else {
      for (int64_t i = 0; i < high - low; ++i) to[i] = from[i * axis.stride];
    }
    std::fill_n(line + (high - out), out + n - high, 0.0f);
  }

  void finish(float* y, int64_t count, float bias, const float* residual) const {
    if (bias != 0)
      for (int64_t i = 0; i < count; ++i) y[i] += bias;
    finish_run(epilogue_, y, residual, count);
  }

  const ConvDesc conv_;
  const Epilogue epilogue_;
  const std::shared_ptr<const std::byte> weights_;
  bool same_ = true;            // each axis steps by 1 and keeps its size
  const int64_t taps_, depth_;  // depth_: rows of the columns
  const int64_t in_count_, out_count_;
  const int slots_;
  int64_t tile_ = 0;
  bool shared_ = false;  // run_shared()
  size_t columns_bytes_ = 0, slot_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<Kernel>> create_conv_columns(const KernelNode& node) {
  TENON_TRY_ASSIGN(PlainConv read, read_plain_conv(node));
  ConvDesc& conv = read.desc;
  const auto depth = checked_product(std::array<int64_t, 2>{conv.group_channels(), conv.window.kernel_count()});
  TENON_UNSUPPORTED_IF(!depth || *depth > kLongestColumn, "A window holds more than {} elements.", kLongestColumn);
  TENON_TRY_ASSIGN(std::shared_ptr<const std::byte> cleared, cleared_constant(node, 1));
  return std::unique_ptr<Kernel>(
      std::make_unique<ConvColumns>(std::move(conv), read.epilogue, std::move(cleared), scratch_slots(node)));
}

}  // namespace tenon::cpu::nn
