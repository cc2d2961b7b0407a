// Direct convolution into the blocked layout: 1x1 as a product over pixels, other windows span by span, those of three
// dimensions slice by slice of the depth.
#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/simd/conv.h"
#include "ops/unary.h"

namespace tenon::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Groups of few channels that are computed as one, with zeros between them: as many as fill blocks of 8 channels.
// Unsupported where four do not, or would fill many: their products would take longer than copies of the taps. A single
// tap needs no copy.
Result<int64_t> merged_groups(const ConvShape& shape) {
  if (shape.group == 1) return 1;
  const bool one_tap = shape.d.kernel * shape.h.kernel * shape.w.kernel == 1;
  constexpr int64_t kMostMergedInputs[] = {0, 0, 48, 0, 16};
  const int64_t inputs = shape.channels / shape.group, outputs = shape.outputs / shape.group;
  for (int64_t merged : {1, 2, 4}) {
    if (inputs * merged % 8 != 0 || outputs * merged % 8 != 0 || shape.group % merged != 0) continue;
    if (merged == 1 || (!one_tap && inputs * merged <= kMostMergedInputs[merged])) return merged;
    break;
  }
  return unsupported("{} groups of {} to {} channels are no whole blocks of 8.", shape.group, inputs, outputs);
}

class DirectConv final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelNode& node);

  Status run(KernelContext& context) const override;
  size_t scratch_bytes() const override { return copied_bytes() + bias_.scratch_bytes(); }
  bool may_run_in_place(size_t input, size_t) const override {
    return input == 3 && residual_.may_be_output() && !epilogue_.residual_after;
  }
  bool reads(size_t input) const override { return input != 1; }
  std::string_view name() const override { return name_; }

 private:
  // Outputs [begin, end) of one image: pixels for 1x1, else rows, those of one slice after the other.
  struct PixelRange {
    int64_t begin, end;
  };
  size_t copied_bytes() const { return copied_ ? shape_.batch * shape_.in_blocks() * 32 * shape_.in_pixels() : 0; }
  // Whether the taps of a window with gaps go over the outputs one after the other.
  bool goes_by_taps() const;
  void choose_copy();
  void stand_line_up();
  void choose_regions(int threads);
  void copy_input(ThreadPool& pool, const float* x, float* copied) const;
  int64_t out_rows() const { return shape_.d.out * shape_.h.out; }
  void run_range(const float* x, const float* residual, const float* bias, float* y, PixelRange range,
                 const OutputTile& tile) const;
  void run_slice(const float* x, const float* residual, const float* bias, float* y, int64_t slice, PixelRange rows,
                 const OutputTile& tile) const;
  void run_taps(const float* x, const float* residual, const float* bias, float* y, PixelRange rows,
                const OutputTile& tile) const;
  void finish(const float* residual, float* y, PixelRange range, const OutputTile& tile) const;

  ConvShape shape_;  // of the copied input, where there is one
  Epilogue epilogue_;
  std::string name_;
  bool plain_input_ = false;
  // The rows of small maps are copied between zeros first: the pixels at their ends come singly, and would be up to
  // half of the work. Inputs that a window of one element skips are left out by the same copy.
  bool copied_ = false;
  WindowAxis given_h_, given_w_;
  bool point_ = false;  // 1x1, stride 1, no pads: all pixels are one row
  bool line_ = false;   // a single column, which is a line of the model
  bool by_taps_ = false;
  bool clamps_ = true;  // the activation is done in registers
  std::shared_ptr<const float> weights_;
  ConvBias bias_;
  ConvResidual residual_;
  std::vector<OutputTile> tiles_;  // of one group
  int64_t group_weights_ = 0;      // floats of one group
  int64_t blocks_a_pass_ = 0;      // input blocks (channels if plain) before partial sums go through memory
  int64_t range_size_ = 1;         // pixels or rows
  int64_t tiles_a_chunk_ = 1;
  int64_t grain_ = 1;
  bool large_weights_ = false;  // more than L2 holds beside the inputs
};

Result<std::unique_ptr<Kernel>> DirectConv::create(const KernelNode& node) {
  auto kernel = std::make_unique<DirectConv>();
  TENON_TRY_ASSIGN(kernel->shape_, conv_shape(node, 3));
  TENON_TRY_ASSIGN(kernel->epilogue_, read_epilogue(*node.node));
  TENON_TRY_ASSIGN(const int64_t merged, merged_groups(kernel->shape_));
  kernel->shape_.group /= merged;
  const ConvShape& shape = kernel->shape_;
  kernel->plain_input_ = node.inputs[0].layout == Layout::kPlain;
  kernel->clamps_ = is_clamp(kernel->epilogue_) && (keeps_zero(kernel->epilogue_) || shape.outputs % 8 == 0);
  const WindowAxis &d = shape.d, &h = shape.h, &w = shape.w;
  kernel->name_ = format("conv{}{}x{}{}", node.inputs[0].shape.rank() == 5 ? format("{}x", d.kernel) : "", h.kernel,
                         w.kernel, kernel->plain_input_ ? "_plain" : "");

  const int64_t group_inputs = shape.channels / shape.group, group_outputs = shape.outputs / shape.group;
  const int64_t taps = d.kernel * h.kernel * w.kernel;
  const int64_t units = kernel->plain_input_ ? group_inputs : round_up(group_inputs, 8);
  const int64_t floats_per_block = units * taps * 8;
  kernel->tiles_ = output_tiles((group_outputs + 7) / 8, floats_per_block);
  kernel->group_weights_ = (group_outputs + 7) / 8 * floats_per_block;
  // Those of one group of the model.
  const int64_t inputs = group_inputs / merged, outputs = group_outputs / merged;
  TENON_TRY(expect_constant_floats(node, 1, shape.outputs * inputs * taps));
  const std::string format_key = format("conv_direct{} {} {} {} {} of {}", kernel->plain_input_ ? " plain" : "", units,
                                        taps, group_outputs, shape.group, merged);
  auto pack = [&](const float* weights, float* out) {
    for (int64_t g = 0; g < shape.group; ++g) {
      const float* group = weights + g * group_outputs * inputs * taps;
      for (const OutputTile& tile : kernel->tiles_) {
        const int64_t lanes = tile.width * 8, first = tile.block * 8;
        const int64_t count = std::min(lanes, group_outputs - first);
        float* to = out + g * kernel->group_weights_ + tile.weights;
        for (int64_t c = 0; c < group_inputs; ++c) {
          for (int64_t t = 0; t < taps; ++t) {
            // [block][tap][8], or for plain input [channel][tap]
            const int64_t unit = kernel->plain_input_ ? c * taps + t : (c / 8 * taps + t) * 8 + c % 8;
            for (int64_t o = 0; o < count; ++o) {
              if ((first + o) / outputs == c / inputs)
                to[unit * lanes + o] = group[((first + o) * inputs + c % inputs) * taps + t];
            }
          }
        }
      }
    }
  };
  TENON_TRY_ASSIGN(kernel->weights_, pack_weights(node, 1, format_key, kernel->group_weights_ * shape.group, pack));
  TENON_TRY_ASSIGN(kernel->bias_, ConvBias::create(node, 2, shape.outputs));
  TENON_TRY_ASSIGN(kernel->residual_, ConvResidual::create(node, 3));
  kernel->by_taps_ = kernel->goes_by_taps();
  if (!kernel->by_taps_) kernel->choose_copy();
  kernel->point_ = is_point(d) && is_point(h) && is_point(w);
  kernel->stand_line_up();
  kernel->choose_regions(node.pool == nullptr ? 1 : node.pool->threads());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

// Few neighbours have the same taps where those lie far apart, and every run of such pixels reads the weights of all. A
// tap alone reaches a rectangle of outputs.
bool DirectConv::goes_by_taps() const {
  const WindowAxis &h = shape_.h, &w = shape_.w;
  const bool gaps = (h.kernel > 1 && h.dilation > 1) || (w.kernel > 1 && w.dilation > 1);
  const bool flat = is_point(shape_.d) && shape_.d.out == 1;
  if (!gaps || plain_input_ || !flat || h.in == 1 || w.in == 1) return false;
  const OutputRange inner = interior_of(w);
  return inner.end - inner.begin < w.out - w.out / 4;
}

void DirectConv::choose_copy() {
  WindowAxis &h = shape_.h, &w = shape_.w;
  given_h_ = h;
  given_w_ = w;
  constexpr int64_t kMostBytes = 1024 * 1024;
  const auto fits = [&](int64_t pixels) {
    return !plain_input_ && shape_.batch * shape_.in_blocks() * 32 * shape_.d.in * pixels <= kMostBytes;
  };
  const auto skips = [](const WindowAxis& axis) {
    return axis.kernel == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
  };
  // A copied vector has to serve many outputs.
  constexpr int64_t kManyOutputs = 64;
  if (skips(h) && skips(w) && is_point(shape_.d)) {
    copied_ = (h.stride > 1 || w.stride > 1) && shape_.outputs / shape_.group >= kManyOutputs && fits(h.out * w.out);
    if (!copied_) return;
    h.in = h.out;
    w.in = w.out;
    h.stride = w.stride = 1;
    return;
  }
  const int64_t width = std::max(w.in + w.pad_begin, (w.out - 1) * w.stride + w.reach());
  copied_ = width > w.in && w.out > 0 && w.out <= 32 && width <= kMostPad && fits(h.in * width);
  if (!copied_) return;
  w.in = width;
  w.pad_begin = w.pad_end = 0;
}

// Rows are shared by threads and kept to what caches hold, columns are not: the pixels of a line become rows.
void DirectConv::stand_line_up() {
  WindowAxis &h = shape_.h, &w = shape_.w;
  line_ = !copied_ && !point_ && is_point(h) && h.in == 1;
  if (line_) std::swap(h, w);
}

void DirectConv::copy_input(ThreadPool& pool, const float* x, float* copied) const {
  const bool skips = shape_.h.stride < given_h_.stride || shape_.w.stride < given_w_.stride;
  const int64_t left = given_w_.pad_begin * 8, given = given_w_.in * 8, width = shape_.w.in * 8;
  const int64_t plane_rows = shape_.h.in;
  auto copy_row = [&](const float* from, float* to) {
    if (skips) {
      for (int64_t col = 0; col < shape_.w.in; ++col)
        std::memcpy(to + col * 8, from + col * given_w_.stride * 8, 8 * sizeof(float));
      return;
    }
    std::fill_n(to, left, 0.0f);
    std::memcpy(to + left, from, given * sizeof(float));
    std::fill_n(to + left + given, width - left - given, 0.0f);
  };
  const int64_t row_step = skips ? given_h_.stride : 1;
  // A vector copied takes as long as about ten products.
  pool.parallel_for(shape_.batch * shape_.in_blocks() * shape_.d.in, grain_of(10 * shape_.h.in * shape_.w.in),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t row = begin * plane_rows; row < end * plane_rows; ++row) {
                        const int64_t plane = row / plane_rows, place = row % plane_rows * row_step;
                        copy_row(x + (plane * given_h_.in + place) * given, copied + row * width);
                      }
                    });
}

void DirectConv::choose_regions(int threads) {
  const int64_t group_inputs = shape_.channels / shape_.group;
  const int64_t taps = shape_.h.kernel * shape_.w.kernel;  // of a pass, which has one slice of the window
  const int64_t panel_bytes = conv_table().panel_bytes;
  const int64_t unit_bytes = taps * tiles_[0].width * 8 * 4 * (plain_input_ ? 1 : 8);
  const int64_t units = plain_input_ ? group_inputs : (group_inputs + 7) / 8;
  const int64_t passes =
      (units + std::max<int64_t>(1, panel_bytes / unit_bytes) - 1) / std::max<int64_t>(1, panel_bytes / unit_bytes);
  blocks_a_pass_ = (units + passes - 1) / passes;
  // Weights that fit L2 beside everything else are read again for every range; larger ones want larger ranges.
  const int64_t weight_bytes = group_weights_ * 4;
  large_weights_ = weight_bytes > 256 * 1024 && !plain_input_;
  const int64_t input_bytes = weight_bytes <= 128 * 1024   ? 32 * 1024
                              : weight_bytes <= 512 * 1024 ? 192 * 1024
                                                           : 320 * 1024;
  const int64_t pixel_bytes = group_inputs * 4 * shape_.h.stride * shape_.w.stride;
  // Sums of a tile go through memory in each pass of a tap: they have to stay in L2.
  constexpr int64_t kMostOfTaps = 1024;
  const int64_t pixels = by_taps_ ? std::min(shape_.out_pixels(), kMostOfTaps)
                                  : std::clamp<int64_t>(input_bytes / pixel_bytes, 48, 480) / 12 * 12;
  const int64_t extent = std::max<int64_t>(1, point_ ? shape_.out_pixels() : out_rows());
  range_size_ = point_ ? pixels : std::max<int64_t>(1, pixels / std::max<int64_t>(1, shape_.w.out));
  // Equal ranges: a small last one would read all the weights for a few pixels.
  const int64_t count = std::max<int64_t>(1, (extent + range_size_ / 3) / range_size_);
  range_size_ = (extent + count - 1) / count;
  const bool pixels_are_rows = point_ || line_;
  if (pixels_are_rows && count > 1) range_size_ = round_up(range_size_, 12);
  tiles_a_chunk_ = static_cast<int64_t>(tiles_.size());
  const int64_t vectors =
      shape_.batch * shape_.out_pixels() * shape_.out_blocks() * group_inputs * taps * shape_.d.kernel;
  if (threads > 1) {
    const int64_t wanted = std::min<int64_t>(4 * threads, vectors / grain_of(1));
    const int64_t tiles = static_cast<int64_t>(tiles_.size()), smallest = pixels_are_rows ? 24 : 1;
    auto ranges = [&] { return (extent + range_size_ - 1) / range_size_ * shape_.batch * shape_.group; };
    auto chunks = [&] { return ranges() * ((tiles + tiles_a_chunk_ - 1) / tiles_a_chunk_); };
    auto split_tiles = [&] {
      while (chunks() < wanted && tiles_a_chunk_ > 1) tiles_a_chunk_ = (tiles_a_chunk_ + 1) / 2;
    };
    // Threads that share large weights should not read all of them each.
    if (large_weights_) split_tiles();
    while (chunks() < wanted && range_size_ > smallest) range_size_ = std::max(smallest, range_size_ / 2);
    if (pixels_are_rows) range_size_ = round_up(range_size_, 12);
    split_tiles();
  }
  const int64_t items = std::max<int64_t>(
      1, extent / range_size_ * shape_.batch * shape_.group * static_cast<int64_t>(tiles_.size()) / tiles_a_chunk_);
  grain_ = grain_of(vectors / items);
}

void DirectConv::run_range(const float* x, const float* residual, const float* bias, float* y, PixelRange range,
                           const OutputTile& tile) const {
  float* out = y + tile.block * shape_.out_pixels() * 8;
  const float* add = residual == nullptr ? nullptr : residual + tile.block * shape_.out_pixels() * 8;
  if (point_) {
    run_slice(x, add, bias, out, 0, range, tile);
  } else if (by_taps_) {
    run_taps(x, add, bias, out, range, tile);
  } else {
    const int64_t rows = shape_.h.out, slice_floats = rows * shape_.w.out * 8;
    for (int64_t slice = range.begin / rows; slice * rows < range.end; ++slice) {
      const PixelRange part{std::max<int64_t>(0, range.begin - slice * rows), std::min(rows, range.end - slice * rows)};
      run_slice(x, add == nullptr ? nullptr : add + slice * slice_floats, bias, out + slice * slice_floats, slice, part,
                tile);
    }
  }
  if (!clamps_) finish(add, out, range, tile);
}

// `y` and `residual` are the slice's. A pass adds the products of some input channels and of one slice of the window.
void DirectConv::run_slice(const float* x, const float* residual, const float* bias, float* y, int64_t slice,
                           PixelRange part, const OutputTile& tile) const {
  const WindowAxis &d = shape_.d, &h = shape_.h, &w = shape_.w;
  const int64_t step = plain_input_ ? 1 : 8;  // floats from one pixel to the next
  const int64_t group_inputs = shape_.channels / shape_.group;
  const int64_t units = plain_input_ ? group_inputs : (group_inputs + 7) / 8;
  const int64_t full_units = plain_input_ ? units : group_inputs / 8;
  const auto* table = plain_input_ ? conv_table().run_plain : conv_table().run;
  const auto run_tile = table[tile.width - 1];

  const TapRange depths = taps_of(d, slice);
  // A single block of input channels leaves its place in the kernel's loops to the slices of the window: one pass.
  const bool joined = units == 1 && full_units == 1;
  const int64_t passes = joined ? 1 : std::max<int64_t>(1, depths.count);
  ConvRun run;
  run.x_block = (joined ? d.dilation * h.in * w.in : shape_.in_pixels()) * step;
  run.w_col = tile.width * 8 * step;
  run.w_row = run.w_col * w.kernel;
  const int64_t w_depth = run.w_row * h.kernel;
  run.w_block = joined ? w_depth : w_depth * d.kernel;
  run.y_block = shape_.out_pixels() * 8;
  const bool contiguous = joined || d.kernel == 1;  // the weights of a pass
  const int64_t pixels = (part.end - part.begin) * (point_ ? 1 : w.out);

  for (int64_t k = 0; k < passes; ++k) {
    const int64_t tap = depths.first + k;
    const int64_t x_row = (slice * d.stride - d.pad_begin + tap * d.dilation) * h.in;  // the first of the slice
    for (int64_t unit = 0; unit < units; unit += blocks_a_pass_) {
      const int64_t end = std::min(units, unit + blocks_a_pass_);
      const bool first = k == 0 && unit == 0, last = k + 1 == passes && end == units;
      run.bias = first ? bias + tile.block * 8 : nullptr;
      run.low = last && clamps_ ? clamp_low(epilogue_) : -kInfinity;
      run.high = last && clamps_ ? clamp_high(epilogue_) : kInfinity;
      // The next weights in memory, where they come from beyond L2: those of the next pass, or of the next tile.
      const float* next = weights_.get() + tile.weights + end * run.w_block;
      const bool fetches = large_weights_ && contiguous && next < weights_.get() + group_weights_ * shape_.group;
      run.ahead_pixel = fetches ? (end - unit) * run.w_block / pixels : 0;
      const float* before = first && !epilogue_.residual_after ? residual : nullptr;
      const float* after = last && clamps_ && epilogue_.residual_after ? residual : nullptr;
      auto run_span = [&](const WindowSpan& span) {
        const int64_t row = span.row * h.stride - h.pad_begin + span.rows.first * h.dilation;
        const int64_t col = span.col * w.stride - w.pad_begin + span.cols.first * w.dilation;
        const bool any = depths.count > 0 && span.rows.count > 0 && span.cols.count > 0;
        run.x = any ? x + unit * run.x_block + ((x_row + row) * w.in + col) * step : x;
        run.w = weights_.get() + tile.weights + unit * run.w_block + tap * w_depth + span.rows.first * run.w_row +
                span.cols.first * run.w_col;
        run.x_pixel = (span.down ? h.stride * w.in : w.stride) * step;
        run.x_col = w.dilation * step;
        run.x_row = h.dilation * w.in * step;
        run.rows = span.rows.count;
        run.cols = span.cols.count;
        run.blocks = !any ? 0 : joined ? depths.count : std::min(end, full_units) - unit;
        run.tail = any && end > full_units ? group_inputs % 8 : 0;
        run.ahead = next;
        next += span.count * run.ahead_pixel;
        place_outputs(span, w, y, before, after, run);
        run_tile(run);
      };
      if (point_) {
        const TapRange one{0, 1};
        run_span({0, part.begin, part.end - part.begin, false, one, one});
      } else if (is_point(w) && (h.stride == 1 || w.out == 1)) {
        for_column_spans(h, w, part.begin, part.end, run_span);
      } else {
        for_spans(h, w, part.begin, part.end, run_span);
      }
    }
  }
}

// First the bias, then a pass for each tap and some input channels, whose weights stay in L1, then the clamp.
void DirectConv::run_taps(const float* x, const float* residual, const float* bias, float* y, PixelRange rows,
                          const OutputTile& tile) const {
  const WindowAxis &h = shape_.h, &w = shape_.w;
  const int64_t group_inputs = shape_.channels / shape_.group;
  const int64_t units = (group_inputs + 7) / 8, full_units = group_inputs / 8, tap_floats = tile.width * 64;
  const int64_t units_a_pass = std::max<int64_t>(1, conv_table().panel_bytes / (tap_floats * 4));
  const auto run_tile = conv_table().run[tile.width - 1];
  ConvRun run;
  run.x = x;
  run.w = weights_.get() + tile.weights;
  run.x_pixel = w.stride * 8;
  run.x_block = shape_.in_pixels() * 8;
  run.w_block = h.kernel * w.kernel * tap_floats;
  run.y_block = shape_.out_pixels() * 8;
  run.low = -kInfinity;
  run.high = kInfinity;
  const WindowSpan all{.row = rows.begin, .count = (rows.end - rows.begin) * w.out};
  run.bias = bias + tile.block * 8;
  place_outputs(all, w, y, epilogue_.residual_after ? nullptr : residual, nullptr, run);
  run_tile(run);
  run.bias = nullptr;
  for (int64_t tap = 0; tap < h.kernel * w.kernel; ++tap) {
    const int64_t down = tap / w.kernel, right = tap % w.kernel;
    OutputRange reached = outputs_of(h, down);
    reached = {std::max(reached.begin, rows.begin), std::min(reached.end, rows.end)};
    const OutputRange cols = outputs_of(w, right);
    if (cols.end <= cols.begin) continue;
    const int64_t x_col = cols.begin * w.stride - w.pad_begin + right * w.dilation;
    for (int64_t unit = 0; unit < units; unit += units_a_pass) {
      const int64_t end = std::min(units, unit + units_a_pass);
      run.blocks = std::min(end, full_units) - unit;
      run.tail = end > full_units ? group_inputs % 8 : 0;
      run.w = weights_.get() + tile.weights + unit * run.w_block + tap * tap_floats;
      for (int64_t row = reached.begin; row < reached.end; ++row) {
        const int64_t x_row = row * h.stride - h.pad_begin + down * h.dilation;
        run.x = x + unit * run.x_block + (x_row * w.in + x_col) * 8;
        place_outputs({.row = row, .col = cols.begin, .count = cols.end - cols.begin}, w, y, nullptr, nullptr, run);
        run_tile(run);
      }
    }
  }
  run.low = clamp_low(epilogue_);
  run.high = clamp_high(epilogue_);
  const float* const after = epilogue_.residual_after ? residual : nullptr;
  if (!clamps_ || (run.low == -kInfinity && run.high == kInfinity && after == nullptr)) return;
  run.x = x;
  run.blocks = run.tail = 0;
  place_outputs(all, w, y, nullptr, after, run);
  run_tile(run);
}

// The activations that are not clamps, over what was just stored.
void DirectConv::finish(const float* residual, float* y, PixelRange range, const OutputTile& tile) const {
  const int64_t plane = shape_.out_pixels() * 8;
  const int64_t unit = point_ ? 8 : shape_.w.out * 8;
  const int64_t group_outputs = shape_.outputs / shape_.group;
  for (int b = 0; b < tile.width; ++b) {
    const int64_t at = b * plane + range.begin * unit;
    const int lanes = static_cast<int>(std::min<int64_t>(8, group_outputs - (tile.block + b) * 8));
    blocked_table().activate(epilogue_, y + at,
                             epilogue_.residual_after && residual != nullptr ? residual + at : nullptr, y + at,
                             (range.end - range.begin) * unit / 8, lanes);
  }
}

Status DirectConv::run(KernelContext& context) const {
  const float* x = context.input<float>(0);
  const float* residual = residual_.values(context);
  const float* bias = bias_.values(context, context.scratch + copied_bytes());
  float* y = context.output<float>(0);
  if (copied_) {
    float* copied = reinterpret_cast<float*>(context.scratch);
    copy_input(*context.pool, x, copied);
    x = copied;
  }
  const int64_t extent = point_ ? shape_.out_pixels() : out_rows();
  const int64_t ranges = (extent + range_size_ - 1) / range_size_;
  const int64_t tiles = static_cast<int64_t>(tiles_.size());
  const int64_t tile_chunks = (tiles + tiles_a_chunk_ - 1) / tiles_a_chunk_;
  const int64_t group_in =
      (plain_input_ ? shape_.channels : shape_.in_blocks() * 8) / shape_.group * shape_.in_pixels();
  const int64_t group_out = shape_.out_blocks() * 8 / shape_.group * shape_.out_pixels();
  context.pool->parallel_for(
      shape_.batch * shape_.group * ranges * tile_chunks, grain_, [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item) {
          const int64_t chunk = item % tile_chunks, range = item / tile_chunks % ranges;
          const int64_t image = item / tile_chunks / ranges;  // and group: both step by the same strides
          const int64_t group = image % shape_.group;
          const PixelRange part{range * range_size_, std::min(extent, (range + 1) * range_size_)};
          for (int64_t t = chunk * tiles_a_chunk_; t < std::min(tiles, (chunk + 1) * tiles_a_chunk_); ++t) {
            OutputTile tile = tiles_[t];
            tile.weights += group * group_weights_;
            const float* group_residual = residual == nullptr ? nullptr : residual + image * group_out;
            run_range(x + image * group_in, group_residual, bias + group * (shape_.outputs / shape_.group),
                      y + image * group_out, part, tile);
          }
        }
      });
  return {};
}

}  // namespace

Status match_conv_direct(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ConvShape shape, conv_shape(node, 3));
  TENON_UNSUPPORTED_IF(node.constants[1] == nullptr, "The weights are not constant.");
  if (node.inputs[0].layout == Layout::kPlain)
    TENON_UNSUPPORTED_IF(shape.group != 1, "Plain input is served with one group only, not {}.", shape.group);
  TENON_TRY(merged_groups(shape).status());
  TENON_UNSUPPORTED_IF(shape.channels == 0 || shape.outputs == 0, "There are no channels.");
  TENON_TRY(expect_layout(node.outputs[0], Layout::kBlocked8, "The output"));
  return ConvResidual::match(node, 3);
}

Result<std::unique_ptr<Kernel>> create_conv_direct(const KernelNode& node) { return DirectConv::create(node); }

}  // namespace tenon::cpu
