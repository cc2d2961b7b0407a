// Convolution with stride 1 by Winograd. 3x3 windows as F(4x4, 3x3): 36 products of [tiles x channels] by [channels x
// outputs] instead of 144, at 1e-6 of the output's maximum; or as F(2x2, 3x3): 16 instead of 36. Of volumes each slice
// of the output is an image, whose channels are those of all the slices that its window reaches.
#include "ep/cpu/simd/winograd.h"
#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/conv/support.h"
#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/simd/conv.h"
#include "ops/unary.h"

namespace tenon::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Weights up to this size stay in a core's L2 beside a block of tiles.
constexpr int64_t kSharedBytes = 1024 * 1024;
// Weights of a line beyond this are no core's own.
constexpr int64_t kFarBytes = 4 * 1024 * 1024;
// The products of one thread in the time that many threads take to wait for each other: about 20 microseconds.
constexpr int64_t kWait = 96 * 1024;
// Inputs and products of a block that all threads work on together.
constexpr int64_t kTogetherBytes = 4 * 1024 * 1024;

// Vectors of eight that a kernel multiplies in the time of a convolution with tiles of side x side outputs. Weights
// come from beyond L2: a network has more of them than it holds.
int64_t tiles_cost(const ConvShape& shape, int64_t side) {
  constexpr int64_t kTransform = 8;  // of one vector of a tile's inputs or sums
  const int64_t positions = (side + 2) * (side + 2);
  const int64_t images = shape.batch * shape.d.out;
  const int64_t tiles = images * ((shape.h.out + side - 1) / side) * ((shape.w.out + side - 1) / side);
  const int64_t weights = positions * shape.d.kernel * shape.channels * shape.out_blocks();
  return weights * std::max(tiles, conv_table().far_products) +
         tiles * positions * (shape.d.kernel * shape.in_blocks() + shape.out_blocks()) * kTransform;
}

// The same without tiles.
int64_t direct_cost(const ConvShape& shape) {
  const int64_t taps = shape.d.kernel * shape.h.kernel * shape.w.kernel;
  const int64_t weights = taps * shape.channels * shape.out_blocks();
  return weights * std::max(shape.batch * shape.out_pixels(), conv_table().far_products);
}

// Tiles of 4x4 take fewer products, those of 2x2 fewer weights.
int64_t best_side(const ConvShape& shape) { return tiles_cost(shape, 2) < tiles_cost(shape, 4) ? 2 : 4; }

class WinogradConv final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelNode& node);

  Status run(KernelContext& context) const override;
  size_t scratch_bytes() const override { return tile_bytes() + bias_.scratch_bytes(); }
  bool may_run_in_place(size_t input, size_t) const override {
    return input == 3 && residual_.may_be_output() && (clamps_ || !epilogue_.residual_after);
  }
  bool reads(size_t input) const override { return input != 1; }
  std::string_view name() const override { return name_; }

 private:
  struct Images {
    const float* x;
    const float* bias;
    const float* residual;
    float* y;
    int64_t x_image, y_image;  // floats of one
  };
  // Tiles of one image, which of a batch of volumes is a slice: the first of them, and its place in a block.
  struct Part {
    int64_t batch, slice, first, count, place;
  };
  // Calls body for the images that the tiles [first, first + count) belong to.
  template <typename Body>
  void for_images(int64_t first, int64_t count, const Body& body) const {
    for (int64_t place = 0; place < count;) {
      const int64_t image = (first + place) / image_tiles_, begin = (first + place) % image_tiles_;
      const int64_t part = std::min(count - place, image_tiles_ - begin);
      body(Part{image / shape_.d.out, image % shape_.d.out, begin, part, place});
      place += part;
    }
  }
  size_t tile_bytes() const { return (v_floats_ + m_floats_) * 4 * slots_; }
  void transform_input(const Images& images, int64_t first, int64_t count, int64_t block, float* v) const;
  void multiply(int64_t position, int64_t count, const float* v, float* m) const;
  void transform_output(const Images& images, int64_t first, int64_t count, int64_t block, const float* m) const;
  void activate(const float* residual, float* y, const Part& part, int64_t block) const;

  void pack_tile(const float* weights, const OutputTile& tile, float* out) const;

  ConvShape shape_;
  Epilogue epilogue_;
  std::string name_;
  int64_t in_blocks_ = 0;  // of all slices that an output is made of
  bool line_ = false;      // one dimension, 3 to 5 taps
  bool clamps_ = true;     // the activation is done in registers
  int64_t positions_ = kWinogradLinePositions;
  int64_t tile_outputs_ = 4;              // along each axis
  std::shared_ptr<const float> weights_;  // [position][output tile][slice][channel][width * 8]
  ConvBias bias_;
  ConvResidual residual_;
  std::vector<OutputTile> tiles_;
  std::vector<float> zero_;
  int64_t tiles_x_ = 0, image_tiles_ = 0;  // of one image
  int64_t tile_count_ = 0;                 // of all images, one after the other
  int64_t block_tiles_ = 0;                // tiles that are worked on at once
  int64_t v_step_ = 0, m_step_ = 0;        // floats of one position
  int64_t v_floats_ = 0, m_floats_ = 0;    // of one slot
  int64_t weight_step_ = 0;
  int slots_ = 1;
  bool together_ = false;  // too few blocks for the threads: all work on one block, step by step
};

Result<std::unique_ptr<Kernel>> WinogradConv::create(const KernelNode& node) {
  auto kernel = std::make_unique<WinogradConv>();
  TENON_TRY_ASSIGN(kernel->shape_, conv_shape(node, 3));
  TENON_TRY_ASSIGN(kernel->epilogue_, read_epilogue(*node.node));
  const ConvShape& shape = kernel->shape_;
  kernel->clamps_ = is_clamp(kernel->epilogue_) && (keeps_zero(kernel->epilogue_) || shape.outputs % 8 == 0);
  kernel->line_ = shape.h.kernel == 1;
  kernel->name_ = kernel->line_                     ? "conv_line_winograd"
                  : node.inputs[0].shape.rank() > 4 ? format("conv{}x3x3_winograd", shape.d.kernel)
                                                    : "conv3x3_winograd";
  if (kernel->line_) {
    kernel->tile_outputs_ = kWinogradLinePositions + 1 - shape.w.kernel;
  } else {
    kernel->tile_outputs_ = best_side(shape);
    kernel->positions_ = (kernel->tile_outputs_ + 2) * (kernel->tile_outputs_ + 2);
  }
  const int64_t positions = kernel->positions_;
  kernel->in_blocks_ = shape.d.kernel * shape.in_blocks();
  const int64_t inputs = kernel->in_blocks_ * 8, out_blocks = shape.out_blocks();
  kernel->tiles_ = output_tiles(out_blocks, inputs * 8);
  kernel->weight_step_ = inputs * out_blocks * 8;
  TENON_TRY(expect_constant_floats(node, 1,
                                   shape.outputs * shape.channels * shape.d.kernel * shape.h.kernel * shape.w.kernel));
  auto pack = [&](const float* weights, float* out) {
    auto pack_tiles = [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) kernel->pack_tile(weights, kernel->tiles_[t], out);
    };
    const int64_t tiles = static_cast<int64_t>(kernel->tiles_.size());
    if (node.pool != nullptr)
      node.pool->parallel_for(tiles, 1, pack_tiles);
    else
      pack_tiles(0, tiles);
  };
  const std::string format_key = kernel->line_ ? "winograd_line" : format("winograd {}", positions);
  TENON_TRY_ASSIGN(kernel->weights_, pack_weights(node, 1, format_key, positions * kernel->weight_step_, pack));
  TENON_TRY_ASSIGN(kernel->bias_, ConvBias::create(node, 2, shape.outputs));
  TENON_TRY_ASSIGN(kernel->residual_, ConvResidual::create(node, 3));
  kernel->zero_.assign(kMostConvWidth * 8, 0.0f);

  const int64_t side = kernel->tile_outputs_;
  kernel->tiles_x_ = (shape.w.out + side - 1) / side;
  kernel->image_tiles_ = kernel->line_ ? kernel->tiles_x_ : (shape.h.out + side - 1) / side * kernel->tiles_x_;
  kernel->tile_count_ = shape.batch * shape.d.out * kernel->image_tiles_;
  // Inputs and products of a block of tiles stay in L2, beside the weights of one position.
  const int64_t channels = inputs + out_blocks * 8;
  int64_t tiles = std::max<int64_t>(12, 320 * 1024 / (positions * 4 * channels) / 12 * 12);
  if (kernel->weight_step_ * positions * 4 > 512 * 1024) tiles = std::max<int64_t>(tiles, 48);
  // Lines have few positions with large weights: rather read those once, and keep one position's inputs in L2.
  if (kernel->line_) tiles = std::max<int64_t>(12, 192 * 1024 / (4 * inputs) / 12 * 12);
  const int threads = scratch_slots(node);
  // Few tiles more are no reason to read all weights once more.
  int64_t blocks = std::max<int64_t>(1, (kernel->tile_count_ + tiles / 3) / tiles);
  if (threads > 1) {
    // Alone, each thread wants a block of at least six tiles, and reads all weights for it (from beyond L2, where that
    // cannot hold them). Together all work on one block, and wait for each other three times.
    constexpr int64_t kSmallest = 6;
    const int64_t most = std::max(blocks, kernel->tile_count_ / kSmallest);
    const int64_t alone = std::clamp(round_up(blocks, threads), int64_t{1}, most);
    const int64_t weights = kernel->weight_step_ * positions / 8, products = weights * kernel->tile_count_;
    const int64_t rounds = (alone + threads - 1) / threads;
    const int64_t read = weights * (weights * 32 > kSharedBytes ? conv_table().far_products : 1);
    const int64_t alone_cost = rounds * std::max(products / alone, read);
    const int64_t all_tiles = kTogetherBytes / (positions * 4 * channels);  // of one block
    const int64_t parts = kernel->tile_count_ / std::max<int64_t>(1, all_tiles) + 1;
    const int64_t together_cost = std::max(products, parts * read) / threads + parts * 3 * kWait;
    kernel->together_ = together_cost < alone_cost;
    blocks = kernel->together_ ? parts : alone;
  }
  // Even: pairs of tiles are one cache line.
  kernel->block_tiles_ = round_up((kernel->tile_count_ + blocks - 1) / blocks, 2);
  // 16 floats more than needed: positions at a multiple of 4096 bytes would share the same sets of L1.
  kernel->v_step_ = kernel->block_tiles_ * inputs + 16;
  kernel->m_step_ = kernel->block_tiles_ * out_blocks * 8 + 16;
  kernel->v_floats_ = round_up(kernel->v_step_ * positions, 16);
  kernel->m_floats_ = round_up(kernel->m_step_ * positions, 16);
  kernel->slots_ = kernel->together_ ? 1 : threads;
  return std::unique_ptr<Kernel>(std::move(kernel));
}

void WinogradConv::pack_tile(const float* weights, const OutputTile& tile, float* out) const {
  const int taps = static_cast<int>(shape_.h.kernel * shape_.w.kernel);
  const int64_t slices = shape_.d.kernel, step = shape_.channels * slices * taps;  // between output channels
  for (int64_t i = 0; i < slices * shape_.channels; ++i) {
    const int64_t slice = i / shape_.channels, c = i % shape_.channels;
    for (int b = 0; b < tile.width; ++b) {
      const int64_t o = (tile.block + b) * 8;
      const float* from = weights + o * step + (c * slices + slice) * taps;
      float* to = out + tile.weights + (i * tile.width + b) * 8;
      const int count = static_cast<int>(std::min<int64_t>(8, shape_.outputs - o));
      if (line_)
        winograd_table().line_weights(from, step, taps, count, to, weight_step_);
      else
        winograd_table().weights(from, step, tile_outputs_, count, to, weight_step_);
    }
  }
}

// `block` counts the blocks of channels of one slice after the other.
void WinogradConv::transform_input(const Images& images, int64_t first, int64_t count, int64_t block, float* v) const {
  const WindowAxis& d = shape_.d;
  const int64_t tap = block / shape_.in_blocks(), own = block % shape_.in_blocks();
  const int64_t plane = shape_.h.in * shape_.w.in * 8;
  WinogradInput in;
  in.height = shape_.h.in;
  in.width = shape_.w.in;
  in.pad_top = shape_.h.pad_begin;
  in.pad_left = shape_.w.pad_begin;
  in.tiles_x = tiles_x_;
  in.v_step = v_step_;
  in.tile_outputs = tile_outputs_;
  for_images(first, count, [&](const Part& part) {
    const int64_t slice = part.slice * d.stride + tap * d.dilation - d.pad_begin;
    in.first = part.first;
    in.count = part.count;
    in.v = v + (block * block_tiles_ + part.place) * 8;
    if (slice < 0 || slice >= d.in) {
      for (int64_t p = 0; p < positions_; ++p) std::fill_n(in.v + p * v_step_, part.count * 8, 0.0f);
      return;
    }
    in.x = images.x + part.batch * images.x_image + (own * d.in + slice) * plane;
    line_ ? winograd_table().line_input(in) : winograd_table().input(in);
  });
}

void WinogradConv::multiply(int64_t position, int64_t count, const float* v, float* m) const {
  ConvRun run;
  run.x = v + position * v_step_;
  run.x_block = block_tiles_ * 8;
  run.tail = shape_.channels % 8;
  run.blocks = run.tail == 0 ? in_blocks_ : shape_.channels / 8;
  run.bias = zero_.data();
  run.low = -kInfinity;
  run.high = kInfinity;
  run.y_block = block_tiles_ * 8;
  run.pixels = count;
  const bool large_weights = weight_step_ * positions_ * 4 > 256 * 1024;
  for (const OutputTile& tile : tiles_) {
    run.w = weights_.get() + position * weight_step_ + tile.weights;
    run.w_block = tile.width * 64;
    // Panels that come from L3 are too short for the hardware to run ahead.
    const int64_t panel = in_blocks_ * run.w_block;
    run.ahead = run.w + panel;
    run.ahead_pixel = large_weights ? panel / count : 0;
    run.y = m + position * m_step_ + tile.block * block_tiles_ * 8;
    conv_table().run[tile.width - 1](run);
  }
}

void WinogradConv::transform_output(const Images& images, int64_t first, int64_t count, int64_t block,
                                    const float* m) const {
  WinogradOutput out;
  const int64_t plane = shape_.h.out * shape_.w.out * 8;
  out.m_step = m_step_;
  out.bias = images.bias + block * 8;
  out.low = clamps_ ? clamp_low(epilogue_) : -kInfinity;
  out.high = clamps_ ? clamp_high(epilogue_) : kInfinity;
  out.residual_after = epilogue_.residual_after;
  out.height = shape_.h.out;
  out.width = shape_.w.out;
  out.tiles_x = tiles_x_;
  out.tile_outputs = tile_outputs_;
  for_images(first, count, [&](const Part& part) {
    const int64_t at = part.batch * images.y_image + (block * shape_.d.out + part.slice) * plane;
    out.m = m + (block * block_tiles_ + part.place) * 8;
    const float* residual = images.residual == nullptr ? nullptr : images.residual + at;
    out.residual = clamps_ || !epilogue_.residual_after ? residual : nullptr;
    out.y = images.y + at;
    out.first = part.first;
    out.count = part.count;
    line_ ? winograd_table().line_output(out) : winograd_table().output(out);
    if (!clamps_) activate(epilogue_.residual_after ? residual : nullptr, out.y, part, block);
  });
}

// The activations that are not clamps, over the tiles that were just stored.
void WinogradConv::activate(const float* residual, float* y, const Part& part, int64_t block) const {
  const int lanes = static_cast<int>(std::min<int64_t>(8, shape_.outputs - block * 8));
  const int64_t end = part.first + part.count, side = tile_outputs_;
  for (int64_t tile = part.first; tile < end;) {
    const int64_t tile_row = tile / tiles_x_, next = std::min(end, (tile_row + 1) * tiles_x_);
    const int64_t col = tile % tiles_x_ * side, last = std::min(shape_.w.out, ((next - 1) % tiles_x_ + 1) * side);
    const int64_t bottom = line_ ? 1 : std::min(shape_.h.out, (tile_row + 1) * side);
    for (int64_t row = line_ ? 0 : tile_row * side; row < bottom; ++row) {
      const int64_t at = (row * shape_.w.out + col) * 8;
      blocked_table().activate(epilogue_, y + at, residual == nullptr ? nullptr : residual + at, y + at, last - col,
                               lanes);
    }
    tile = next;
  }
}

Status WinogradConv::run(KernelContext& context) const {
  const Images images{.x = context.input<float>(0),
                      .bias = bias_.values(context, context.scratch + tile_bytes()),
                      .residual = residual_.values(context),
                      .y = context.output<float>(0),
                      .x_image = shape_.in_blocks() * 8 * shape_.in_pixels(),
                      .y_image = shape_.out_blocks() * 8 * shape_.out_pixels()};
  const int64_t blocks = (tile_count_ + block_tiles_ - 1) / block_tiles_;
  if (together_) {
    float* v = reinterpret_cast<float*>(context.scratch);
    float* m = v + v_floats_;
    for (int64_t item = 0; item < blocks; ++item) {
      const int64_t first = item * block_tiles_, count = std::min(block_tiles_, tile_count_ - first);
      context.pool->parallel_for(in_blocks_, grain_of(count * 100), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) transform_input(images, first, count, b, v);
      });
      context.pool->parallel_for(positions_, line_ ? 1 : 2, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) multiply(p, count, v, m);
      });
      context.pool->parallel_for(shape_.out_blocks(), grain_of(count * 100), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) transform_output(images, first, count, b, m);
      });
    }
    return {};
  }
  ScratchSlots slots(context.scratch, (v_floats_ + m_floats_) * 4, slots_);
  context.pool->parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    const ScratchSlots::Claim claim(slots);
    float* v = claim.floats();
    float* m = v + v_floats_;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item * block_tiles_, count = std::min(block_tiles_, tile_count_ - first);
      for (int64_t b = 0; b < in_blocks_; ++b) transform_input(images, first, count, b, v);
      for (int64_t p = 0; p < positions_; ++p) multiply(p, count, v, m);
      for (int64_t b = 0; b < shape_.out_blocks(); ++b) transform_output(images, first, count, b, m);
    }
  });
  return {};
}

}  // namespace

Status match_conv_winograd(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(!node.winograd, "Winograd is switched off.");
  TENON_TRY_ASSIGN(const ConvShape shape, conv_shape(node, 3));
  TENON_UNSUPPORTED_IF(node.constants[1] == nullptr, "The weights are not constant.");
  TENON_TRY(expect_layout(node.inputs[0], Layout::kBlocked8, "The input"));
  TENON_TRY(expect_layout(node.outputs[0], Layout::kBlocked8, "The output"));
  TENON_TRY(ConvResidual::match(node, 3));
  const WindowAxis &h = shape.h, &w = shape.w;
  TENON_UNSUPPORTED_IF(h.stride != 1 || w.stride != 1 || h.dilation != 1 || w.dilation != 1,
                       "The window has strides {}, {} and dilations {}, {} instead of 1.", h.stride, w.stride,
                       h.dilation, w.dilation);
  TENON_UNSUPPORTED_IF(shape.group != 1, "There are {} groups.", shape.group);
  const bool flat = shape.d.kernel == 1 && shape.d.out == 1;
  const bool line = flat && h.in == 1 && h.out == 1 && h.kernel == 1 && w.kernel >= 3 && w.kernel <= 5;
  TENON_UNSUPPORTED_IF(!line && (h.kernel != 3 || w.kernel != 3), "The window {}x{} is not 3x3, nor 3 to 5 on a line.",
                       h.kernel, w.kernel);
  TENON_UNSUPPORTED_IF(shape.d.kernel > 1 && shape.channels % 8 != 0, "{} channels of a slice are not whole blocks.",
                       shape.channels);
  TENON_UNSUPPORTED_IF(shape.channels < 16 || shape.outputs < 16, "{} to {} channels do not pay for the transforms.",
                       shape.channels, shape.outputs);
  if (!line) {
    // With few tiles the transformed weights take longer to arrive than the saved products.
    TENON_UNSUPPORTED_IF(tiles_cost(shape, best_side(shape)) * 9 / 8 >= direct_cost(shape),
                         "{} to {} channels on {}x{} maps do not pay for the transforms.", shape.channels,
                         shape.outputs, h.out, w.out);
    return {};
  }
  const int64_t side = kWinogradLinePositions + 1 - w.kernel;
  const int64_t tiles = shape.batch * ((w.out + side - 1) / side);
  // Weights of a line that no second-level cache holds come from memory: for 20 tiles of piper_vits they gain 1 %, and
  // take 35 MB.
  const bool far = shape.channels * shape.outputs * kWinogradLinePositions * 4 > kFarBytes;
  TENON_UNSUPPORTED_IF(tiles < (far ? 64 : 9), "{} to {} channels with {} tiles do not pay for the transforms.",
                       shape.channels, shape.outputs, tiles);
  return {};
}

Result<std::unique_ptr<Kernel>> create_conv_winograd(const KernelNode& node) { return WinogradConv::create(node); }

}  // namespace tenon::cpu
