// One axis after the other, the first one first: the taps of an axis are folded into slices that lie side by side, and
// those of the last axis into the outputs, from rows with padding on both sides. Blocks of outputs along the first axis
// keep what lies between in the L1 cache. On the blocked layout, of bytes, a row holds the 8 channels of a block beside
// each other: it is a row with 8 times as many elements, whose taps are 8 times as far apart.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/narrow/operands.h"
#include "ep/cpu/ops/pool/inside.h"
#include "ep/cpu/ops/pool/rows.h"
#include "ep/cpu/ops/quantize/bytes.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/pool.h"
#include "ops/pool.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kTaps = 16384;         // of a chunk
constexpr int64_t kBlock = 4096;         // elements between two axes, where one slice of outputs needs no more
constexpr int64_t kPiece = 1024;         // outputs of an only axis
constexpr int64_t kWidestWindow = 1024;  // along the last axis
constexpr int kPlaces = 6;               // of scratch memory
constexpr int64_t kLineBytes = 64;

// X and Y of QLinearAveragePool.
struct ByteOperands {
  ref::ByteTensor x, y;
};

// The pool over planes of blocks, all of whose pixels along a row are outputs: see PlainPool::pick_.
PoolDesc of_blocks(PoolDesc pool) {
  pool.channels = (pool.channels + 7) / 8;
  std::vector<WindowAxis>& axes = pool.window.axes;
  WindowAxis& row = axes.back();
  for (int64_t* elements : {&row.in, &row.out, &row.dilation, &row.pad_begin, &row.pad_end}) *elements *= 8;
  row.stride = 1;
  if (axes.size() == 1) axes.insert(axes.begin(), WindowAxis{});
  return pool;
}

class PlainPool final : public Kernel {
 public:
  PlainPool(PoolDesc pool, const TensorSpec& x, std::optional<ByteOperands> bytes, int slots)
      : pixels_(pool.window.axes.back()),
        channels_(x.layout == Layout::kPlain ? 1 : 8),
        pool_(channels_ == 1 ? std::move(pool) : of_blocks(std::move(pool))),
        axes_(pool_.window.axes),
        row_(axes_.back()),
        pick_(channels_ == 1 ? 1 : pixels_.stride),
        dense_(pick_ == 1 ? row_.out : ((pixels_.out - 1) * pick_ + 1) * channels_),
        type_(x.type),
        bytes_(bytes),
        inside_(insides_of(pool_.window)),
        slots_(slots) {
    outer_ = std::ssize(axes_) - 1;
    if (!maximum()) make_divisors();
    // Twice the stride is read where it is 2: one element behind the last one.
    if (outer_ == 0) {
      pitch_ = (std::min(kPiece, row_.out) - 1) * row_.stride + row_.reach() + 1;
      sizes_[0] = pitch_;
      sizes_[4] = std::min(kPiece, row_.out);
    } else {
      // Rows that are folded into others begin with a cache line: vectors across two of them take twice as long.
      const int64_t line = kLineBytes / static_cast<int64_t>(element_bytes());
      lead_ = round_up(row_.pad_begin, line) - row_.pad_begin;
      pitch_ = std::max(row_.pad_begin + row_.in, (dense_ - 1) * row_.stride + row_.reach()) + 1;
      pitch_ = round_up(lead_ + pitch_, line);
      neighbours_ = outer_ == 1 && element_bytes() == sizeof(float) && axes_[0].dilation == 1 && pick_ == 1 &&
                    ((axes_[0].stride == 1 && row_.stride == 1) ||
                     (channels_ == 1 && takes_strided_rows(pool_.window, maximum())));
      while (block_ < axes_[0].out && set_sizes(block_ + 1) <= kBlock * (channels_ == 1 ? 1 : 2)) ++block_;
      set_sizes(block_);
      if (neighbours_ && block_ == axes_[0].out) planes_ = std::max<int64_t>(1, kBlock / pool_.window.in_count());
      sizes_[3] += kPoolSlack;
    }
    for (int64_t& size : sizes_) {
      size = round_up(size, kLineBytes);
      slot_bytes_ += size * element_bytes();
    }
  }

  Status run(KernelContext& context) const override {
    Steps steps;
    if (bytes_) {
      // Sums of whole numbers are exact.
      steps = {bytes_->x.step(context), bytes_->y.step(context)};
      steps.y.scale /= std::exchange(steps.x.scale, 1.0f);
    }
    const int64_t items = pool_.batch * pool_.channels * (outer_ == 0 ? 1 : axes_[0].out);
    const int64_t taps = pool_.window.out_count() / (outer_ == 0 ? 1 : axes_[0].out) * pool_.window.kernel_count();
    ScratchSlots slots(context.scratch, slot_bytes_, slots_);
    context.pool->parallel_for(items, std::max<int64_t>(1, kTaps / taps), [&](int64_t begin, int64_t end) {
      const ScratchSlots::Claim claim(slots);
      void* const scratch = claim.floats();
      if (type_ == DataType::kUint8 && !bytes_) {
        run_items<uint8_t>(context, begin, end, pool_table().maximum_u8, 0, steps, scratch);
      } else if (type_ == DataType::kInt8 && !bytes_) {
        run_items<int8_t>(context, begin, end, pool_table().maximum_i8, std::numeric_limits<int8_t>::lowest(), steps,
                          scratch);
      } else if (maximum()) {
        run_items<float>(context, begin, end, pool_table().maximum_f32, -std::numeric_limits<float>::infinity(), steps,
                         scratch);
      } else {
        run_items<float>(context, begin, end, pool_table().sum_f32, 0, steps, scratch);
      }
    });
    return {};
  }
  size_t scratch_bytes() const override { return slot_bytes_ * slots_; }
  std::string_view name() const override {
    return bytes_ ? "average_pool int8" : maximum() ? "max_pool plain" : "average_pool plain";
  }

 private:
  struct Steps {
    ByteStep x, y;
  };

  bool maximum() const { return pool_.kind == PoolDesc::Kind::kMax; }
  // Operands that are converted to float and back.
  bool converts() const { return bytes_ || is_narrow(type_); }
  size_t element_bytes() const { return converts() || type_ == DataType::kFloat ? sizeof(float) : 1; }

  void make_divisors() {
    const auto divisor = [this](const WindowAxis& axis, int64_t out) {
      return static_cast<float>(pool_.count_include_pad ? axis.padded_taps(out) : Inside(axis, out).count());
    };
    for (int64_t out = 0; out < row_.out; ++out) divisors_.push_back(divisor(pixels_, out / channels_));
    row_divisors_ = {1};
    for (int64_t d = 0; d < outer_; ++d) {
      std::vector<float> products;
      for (float before : row_divisors_)
        for (int64_t out = 0; out < axes_[d].out; ++out) products.push_back(before * divisor(axes_[d], out));
      row_divisors_ = std::move(products);
    }
    divisors_.resize(divisors_.size() + kPoolSlack, 1.0f);
  }

  // What `outs` outputs along the first axis need: converted elements of the image, two places for the slices between
  // axes in turn, rows with their padding, outputs to convert, and rows to pick from. The largest of them.
  int64_t set_sizes(int64_t outs) {
    int64_t slice = row_.in;
    for (int64_t d = 1; d < outer_; ++d) slice *= axes_[d].in;
    const int64_t slices = std::min(axes_[0].in, (outs - 1) * axes_[0].stride + axes_[0].reach());
    std::fill(std::begin(sizes_), std::end(sizes_), 0);
    if (converts()) sizes_[0] = slices * slice;
    int64_t rows = outs;
    for (int64_t d = 0; d < outer_; ++d) {
      if (d > 0) rows *= axes_[d].out, slice /= axes_[d].in;
      int64_t& size = sizes_[d + 1 == outer_ ? 3 : 1 + d % 2];
      size = std::max(size, rows * (d + 1 == outer_ ? pitch_ : slice));
    }
    if (converts()) sizes_[4] = rows * row_.out;
    if (pick_ > 1) sizes_[5] = rows * dense_;
    return *std::max_element(std::begin(sizes_), std::end(sizes_));
  }

  // Items are outputs along the first axis of each plane, or whole planes of one axis. T is the type of the loops:
  // float for every float type, and for bytes with steps.
  template <typename T>
  void run_items(KernelContext& context, int64_t begin, int64_t end, PoolFold<T> fold, T start, const Steps& steps,
                 void* scratch) const {
    T* places[kPlaces];
    places[0] = static_cast<T*>(scratch);
    for (int i = 1; i < kPlaces; ++i) places[i] = places[i - 1] + sizes_[i - 1];
    if (outer_ == 0) {
      for (int64_t plane = begin; plane < end; ++plane)
        for (int64_t out = 0; out < row_.out; out += kPiece)
          run_piece<T>(context, plane, out, std::min(row_.out, out + kPiece), fold, start, steps, places);
      return;
    }
    // The padding beside rows stays as it is from block to block.
    for (T* row = places[3]; row + pitch_ <= places[4]; row += pitch_) {
      std::fill_n(row, lead_ + row_.pad_begin, start);
      std::fill(row + lead_ + row_.pad_begin + row_.in, row + pitch_, start);
    }
    while (begin < end) {
      const int64_t plane = begin / axes_[0].out, first = begin % axes_[0].out;
      if constexpr (std::is_same_v<T, float>) {
        const int64_t planes = first > 0 || converts() ? 1 : std::min(planes_, (end - begin) / axes_[0].out);
        if (planes > 1 && run_neighbours(context, plane, planes, 0, axes_[0].out, steps, places)) {
          begin += planes * axes_[0].out;
          continue;
        }
      }
      const int64_t last = std::min({first + block_, axes_[0].out, first + end - begin});
      run_block<T>(context, plane, first, last, fold, steps, places);
      begin += last - first;
    }
  }

  // Outputs [first, last) along the first axis.
  template <typename T>
  void run_block(KernelContext& context, int64_t plane, int64_t first, int64_t last, PoolFold<T> fold,
                 const Steps& steps, T* const* places) const {
    if constexpr (std::is_same_v<T, float>) {
      if (neighbours_ && run_neighbours(context, plane, 1, first, last, steps, places)) return;
    }
    int64_t inner = pool_.window.in_count() / axes_[0].in;
    int64_t origin = axes_[0].in, limit = 0;  // of the elements along that axis
    for (int64_t out = first; out < last; ++out) {
      const Inside& inside = inside_[0][out];
      origin = std::min(origin, inside.begin);
      limit = std::max(limit, inside.begin + (inside.count() - 1) * axes_[0].dilation + 1);
    }
    const int64_t at = plane * pool_.window.in_count() + origin * inner;
    const T* from = context.input<T>(0) + (converts() ? 0 : at);
    if (converts()) {
      read(context, at, (limit - origin) * inner, places[0], steps);
      from = places[0];
    }
    int64_t rows = 1;  // slabs of the axis at hand
    for (int64_t d = 0; d < outer_; ++d) {
      const bool last_one = d + 1 == outer_;
      T* const to = last_one ? places[3] + lead_ + row_.pad_begin : places[1 + d % 2];
      const int64_t pitch = last_one ? pitch_ : inner, begin = d == 0 ? first : 0, end = d == 0 ? last : axes_[d].out;
      for (int64_t slab = 0; slab < rows; ++slab)
        fold_axis(d, begin, end, from + slab * axes_[d].in * inner, d == 0 ? origin : 0, inner,
                  to + slab * (end - begin) * pitch, pitch, fold);
      rows *= end - begin;
      from = to;
      if (!last_one) inner /= axes_[d + 1].in;
    }
    const int64_t rows_before = rows / (last - first) * (plane * axes_[0].out + first), out = rows_before * row_.out;
    T* const y = open(context, out, places[4]);
    T* const dense = pick_ == 1 ? y : places[5];
    fold({.x = from - row_.pad_begin,
          .x_pitch = pitch_,
          .shift = row_.dilation,
          .count = row_.kernel,
          .stride = row_.stride,
          .y = dense,
          .y_pitch = dense_,
          .n = dense_,
          .rows = rows});
    if (pick_ > 1) pick(dense, rows, y);
    close(context, out, rows, rows_before % std::max<int64_t>(1, std::ssize(row_divisors_)), 0, row_.out, y, steps);
  }

  template <typename T>
  void pick(const T* dense, int64_t rows, T* y) const {
    for (int64_t r = 0; r < rows; ++r, dense += dense_)
      for (int64_t i = 0; i < pixels_.out; ++i, y += 8) std::memcpy(y, dense + i * pick_ * 8, 8 * sizeof(T));
  }

  // The same of two axes at once, or false.
  bool run_neighbours(KernelContext& context, int64_t plane, int64_t planes, int64_t first, int64_t last,
                      const Steps& steps, float* const* places) const {
    const WindowAxis& axis = axes_[0];
    const int64_t at = plane * axis.in * row_.in;
    const float* from = context.input<float>(0) + (converts() ? 0 : at);
    if (converts()) {
      const int64_t origin = inside_[0][first].begin;
      const Inside& end = inside_[0][last - 1];
      read(context, at + origin * row_.in, (end.begin + end.count() - origin) * row_.in, places[0], steps);
      from = places[0] - origin * row_.in;
    }
    const int64_t out = (plane * axis.out + first) * row_.out;
    PoolPlane task{.x = from,
                   .planes = planes,
                   .height = axis.in,
                   .width = row_.in,
                   .kernel_rows = axis.kernel,
                   .pad_top = axis.pad_begin,
                   .count = row_.kernel,
                   .shift = row_.dilation,
                   .row_stride = axis.stride,
                   .column_stride = row_.stride,
                   .rows = places[3] + lead_,
                   .pitch = pitch_,
                   .pad = row_.pad_begin,
                   .y = open(context, out, places[4]),
                   .out_width = row_.out,
                   .begin = first,
                   .end = last,
                   .columns = divisors_.data()};
    if (!maximum()) task.by_row = row_divisors_.data() + first;
    if (!(maximum() ? pool_table().maximum_plane : pool_table().average_plane)(task)) return false;
    finish(context, out, planes * (last - first) * row_.out, task.y, steps);
    return true;
  }

  // Slices of `inner` elements along axis d, whose first one in `from` is `origin`.
  template <typename T>
  void fold_axis(int64_t d, int64_t begin, int64_t end, const T* from, int64_t origin, int64_t inner, T* to,
                 int64_t pitch, PoolFold<T> fold) const {
    const WindowAxis& axis = axes_[d];
    for (int64_t out = begin; out < end;) {
      const Inside& inside = inside_[d][out];
      int64_t same = 1;  // outputs with all taps are folded at once
      while (inside.count() == axis.kernel && out + same < end && inside_[d][out + same].count() == axis.kernel) ++same;
      fold({.x = from + (inside.begin - origin) * inner,
            .x_pitch = axis.stride * inner,
            .shift = axis.dilation * inner,
            .count = inside.count(),
            .stride = 1,
            .y = to + (out - begin) * pitch,
            .y_pitch = pitch,
            .n = inner,
            .rows = same});
      out += same;
    }
  }

  // Outputs [begin, end) of a plane of one axis.
  template <typename T>
  void run_piece(KernelContext& context, int64_t plane, int64_t begin, int64_t end, PoolFold<T> fold, T start,
                 const Steps& steps, T* const* places) const {
    // The line has elements [first, last) of the image. Those outside of [low, high) are padding.
    const int64_t first = begin * row_.stride - row_.pad_begin;
    const int64_t last = (end - 1) * row_.stride - row_.pad_begin + row_.reach() + (row_.stride == 2 ? 1 : 0);
    const int64_t low = std::max<int64_t>(0, first), high = std::min(row_.in, last), at = plane * row_.in + low;
    const T* line = context.input<T>(0) + (converts() ? 0 : at);
    if (converts() || low != first || high != last) {
      T* const inside = places[0] + (low - first);
      std::fill(places[0], inside, start);
      std::fill(inside + (high - low), places[0] + (last - first), start);
      if (converts()) {
        read(context, at, high - low, inside, steps);
      } else {
        std::copy_n(line, high - low, inside);
      }
      line = places[0];
    }
    const int64_t out = plane * row_.out + begin;
    T* const y = open(context, out, places[4]);
    fold({.x = line, .shift = row_.dilation, .count = row_.kernel, .stride = row_.stride, .y = y, .n = end - begin});
    close(context, out, 1, 0, begin, end - begin, y, steps);
  }

  // Elements [at, at + n) of the image in `buffer`.
  template <typename T>
  void read(KernelContext& context, int64_t at, int64_t n, T* buffer, const Steps& steps) const {
    if constexpr (std::is_same_v<T, float>) {
      if (bytes_) {
        quantize_table().dequantize(context.input<uint8_t>(0) + at, steps.x, n, buffer);
      } else {
        read_floats(type_, context.inputs[0], at, n, buffer);
      }
    }
  }
  // Where outputs from `at` on are made; close() puts them where they belong.
  template <typename T>
  T* open(KernelContext& context, int64_t at, T* buffer) const {
    if (converts()) return buffer;
    return context.output<T>(0) + at;
  }
  // `rows` rows from row `row` of a plane on, the n outputs from `column` on of each.
  template <typename T>
  void close(KernelContext& context, int64_t at, int64_t rows, int64_t row, int64_t column, int64_t n, T* y,
             const Steps& steps) const {
    if constexpr (std::is_same_v<T, float>) {
      if (!maximum()) pool_table().divide(y, divisors_.data() + column, row_divisors_.data() + row, rows, n);
      finish(context, at, rows * n, y, steps);
    }
  }
  void finish(KernelContext& context, int64_t at, int64_t n, float* y, const Steps& steps) const {
    if (bytes_) return quantize_table().quantize(y, steps.y, n, context.output<uint8_t>(0) + at);
    end_floats(type_, context.outputs[0], at, n, y);
  }

  const WindowAxis pixels_;  // the last axis of the maps
  const int64_t channels_;   // of a pixel: 8 on the blocked layout
  const PoolDesc pool_;
  const std::vector<WindowAxis>& axes_;
  const WindowAxis& row_;  // the last axis, in elements
  // Blocks whose stride is not 1: the windows of every pixel are folded, `dense_` elements a row, and each pick_th is
  // an output.
  const int64_t pick_, dense_;
  const DataType type_;
  const std::optional<ByteOperands> bytes_;
  const std::vector<std::vector<Inside>> inside_;  // of each output along each axis
  const int slots_;
  bool neighbours_ = false;  // see run_neighbours()
  int64_t planes_ = 1;       // so many at once
  int64_t outer_ = 0;        // axes before the last one
  // AveragePool: the taps of each output along the last axis, and of each row of a plane along the others.
  std::vector<float> divisors_, row_divisors_;
  int64_t pitch_ = 0;  // elements of a row with its padding
  int64_t lead_ = 0;   // and those before it
  int64_t block_ = 1;  // outputs along the first axis that are made at a time
  int64_t sizes_[kPlaces] = {};
  size_t slot_bytes_ = 0;
};

}  // namespace

bool takes_strided_rows(const Window& window, bool maximum) {
  if (window.rank() != 2 || window.axes[0].dilation != 1) return false;
  const WindowAxis& row = window.axes[1];
  return row.in <= pool_table().short_row - (maximum ? 0 : 1) && row.kernel <= kPoolStridedTaps;
}

namespace {

Status match_windows(const PoolDesc& pool, const Shape& y) {
  TENON_UNSUPPORTED_IF(pool.window.axes.empty() || y.element_count() == 0, "There are no windows.");
  for (const std::vector<Inside>& along : insides_of(pool.window))
    for (const Inside& inside : along) TENON_UNSUPPORTED_IF(inside.count() == 0, "Some windows hold no input.");
  TENON_UNSUPPORTED_IF(pool.window.axes.back().reach() > kWidestWindow, "The windows are {} elements wide.",
                       pool.window.axes.back().reach());
  return {};
}

}  // namespace

Status match_plain_pool(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  TENON_TRY(expect_one_layout(node));
  const bool bytes = is_byte_type(x.type) && node.node->op_type == "MaxPool";
  TENON_UNSUPPORTED_IF(!bytes && (!is_any_float(x.type) || x.layout != Layout::kPlain), "{} of {} has no fast kernel.",
                       node.node->op_type, data_type_name(x.type));
  TENON_UNSUPPORTED_IF(output_spec(node, 1).present(), "The output of indices is not served.");
  TENON_TRY_ASSIGN(const PoolDesc pool, read_pool(*node.node, x.shape));
  TENON_INVALID_IF(!(pool.output() == y.shape) || y.type != x.type, "The output is {}{}, not {}{}.",
                   data_type_name(y.type), y.shape.to_string(), data_type_name(x.type), pool.output().to_string());
  return match_windows(pool, y.shape);
}

Result<std::unique_ptr<Kernel>> create_plain_pool(const KernelNode& node) {
  TENON_TRY_ASSIGN(PoolDesc pool, read_pool(*node.node, node.inputs[0].shape));
  return std::unique_ptr<Kernel>(
      std::make_unique<PlainPool>(std::move(pool), node.inputs[0], std::nullopt, scratch_slots(node)));
}

Status match_byte_max_pool(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(!is_byte_type(input_spec(node, 0).type), "The operand is {}.",
                       data_type_name(input_spec(node, 0).type));
  return match_plain_pool(node);
}

Status match_byte_pool(const KernelNode& node) {
  TENON_TRY(expect_one_layout(node));
  TENON_TRY_ASSIGN(const QuantizedPoolDesc desc, read_quantized_pool(*node.node, input_spec(node, 0).shape));
  TENON_UNSUPPORTED_IF(desc.channels_last, "The channels are the last axis.");
  TENON_INVALID_IF(desc.output != output_spec(node, 0).shape, "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), desc.output.to_string());
  for (const WindowAxis& axis : desc.pool.window.axes)
    TENON_UNSUPPORTED_IF(desc.pool.count_include_pad && axis.out > 0 && axis.padded_taps(axis.out - 1) != axis.kernel,
                         "Windows reach beyond the padding.");
  return match_windows(desc.pool, desc.output);
}

Result<std::unique_ptr<Kernel>> create_byte_pool(const KernelNode& node) {
  TENON_TRY_ASSIGN(QuantizedPoolDesc desc, read_quantized_pool(*node.node, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const QuantizedForm form, read_quantized_form(*node.node));
  for (size_t input : {form.x[0].scale, form.y.scale})
    TENON_INVALID_IF(!input_spec(node, input).present(), "{} needs input {}, which is absent.", node.node->op_type,
                     input);
  ByteOperands bytes;
  TENON_TRY_ASSIGN(bytes.x, ref::byte_tensor(node, form.x[0], node.inputs[0].type));
  TENON_TRY_ASSIGN(bytes.y, ref::byte_tensor(node, form.y, node.outputs[0].type));
  return std::unique_ptr<Kernel>(
      std::make_unique<PlainPool>(std::move(desc.pool), node.inputs[0], bytes, scratch_slots(node)));
}

}  // namespace tenon::cpu::nn
