#include "ep/cuda/ops/conv/depthwise_tiles.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/format.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/narrow_sizes.h"

namespace tenon::cuda {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

DepthwiseTiles::DepthwiseTiles(DataType type, const ConvParams& p) : type_(type) {
  const int64_t x_row = int64_t{p.in_w} * p.channels, y_row = int64_t{p.out_w} * p.channels;
  images_ = p.pixels / (int64_t{p.out_h} * p.out_w);
  channels_ = p.channels;
  x_image_ = p.in_h * x_row;
  y_image_ = p.out_h * y_row;
  h_ = {p.in_h, p.out_h, p.kernel_h, p.stride_h, p.pad_h, x_row, y_row};
  w_ = {p.in_w, p.out_w, p.kernel_w, p.stride_w, p.pad_w, p.channels, p.channels};
  // A thread's outputs share what they read where the window is wide.
  if (w_.kernel == 1) std::swap(h_, w_);
}

std::vector<DepthwiseTiles> DepthwiseTiles::all(DataType type, const ConvParams& p) {
  const bool known = type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16;
  const bool square3 = p.kernel_h == 3 && p.kernel_w == 3 && p.stride_h == p.stride_w;
  if (!known || square3 || p.channels % 2 != 0 || int64_t{p.kernel_h} * p.kernel_w < 2 || p.pixels == 0 ||
      p.channels == 0 || p.dilation_h != 1 || p.dilation_w != 1 || p.stride_h > 2 || p.stride_w > 2)
    return {};
  std::vector<DepthwiseTiles> all;
  for (int positions : {8, 4, 16})
    for (int outputs : {4, 2, 1, 8})
      for (int down : {8, 4, 2, 1})
        for (bool unrolled : {true, false}) {
          if (down > positions) continue;
          DepthwiseTiles tiles(type, p);
          tiles.shape_ = {outputs, positions / down, down, unrolled};
          if (!tiles.fits()) continue;
          tiles.cycles_ = tiles.estimate();
          all.push_back(tiles);
        }
  std::stable_sort(all.begin(), all.end(),
                   [](const DepthwiseTiles& a, const DepthwiseTiles& b) { return a.cycles_ < b.cycles_; });
  return all;
}

// The best of all tiles would be another one for nearly every size of an image, and each is a kernel to compile. By the
// estimate these take 3 percent longer on average.
bool DepthwiseTiles::is_usual() const {
  constexpr std::array kUsual = {Shape{1, 2, 4}, Shape{2, 1, 4}, Shape{2, 1, 8}, Shape{4, 1, 4}, Shape{4, 1, 8},
                                 Shape{8, 1, 4}, Shape{8, 1, 8}, Shape{8, 2, 8}, Shape{2, 8, 1}, Shape{8, 8, 1}};
  return std::any_of(kUsual.begin(), kUsual.end(), [&](const Shape& usual) {
    return usual.outputs == shape_.outputs && usual.across == shape_.across && usual.down == shape_.down;
  });
}

std::optional<DepthwiseTiles> DepthwiseTiles::choose(DataType type, const ConvParams& params) {
  const std::vector<DepthwiseTiles> tiles = all(type, params);
  if (tiles.empty()) return std::nullopt;
  const auto usual = std::find_if(tiles.begin(), tiles.end(), [](const DepthwiseTiles& one) { return one.is_usual(); });
  return usual != tiles.end() ? *usual : tiles.front();
}

bool DepthwiseTiles::fits() const {
  constexpr int64_t kMostSharedBytes = 48 << 10, kMostWeightRegisters = 32, kMostReads = 48, kMostCopies = 24;
  // Machine code is fetched from memory too.
  constexpr int64_t kMostUnrolled = 512;
  const auto size = static_cast<int64_t>(data_type_size(type_));
  const int64_t taps = h_.kernel * w_.kernel;
  // The kernel counts in 32 bits.
  constexpr int64_t kMostSize = INT32_MAX / 2;
  if (images_ * std::max(x_image_, y_image_) > INT32_MAX || h_.pad + h_.in > kMostSize || w_.pad + w_.in > kMostSize ||
      blocks() > INT32_MAX)
    return false;
  const int64_t padding = size == 2 ? h_.read(shape_.down) : 0;
  const int64_t shared_bytes = kTileChannels * ((pixels() + padding) * size + taps * int64_t{sizeof(float)});
  if (shape_.unrolled ? taps * shape_.outputs > kMostUnrolled : h_.kernel == 1) return false;
  return shared_bytes <= kMostSharedBytes && copies(taps) * chunk() * size / 4 <= kMostWeightRegisters &&
         w_.read(shape_.outputs) <= kMostReads && copies(pixels()) <= kMostCopies;
}

int64_t DepthwiseTiles::chunk() const {
  int64_t chunk = 16 / static_cast<int64_t>(data_type_size(type_));
  while (channels_ % chunk != 0) chunk /= 2;
  return chunk;
}

int64_t DepthwiseTiles::copies(int64_t items) const { return ceil_div(items * kTileChannels / chunk(), threads()); }

int64_t DepthwiseTiles::pixels() const {
  return h_.read(shape_.down) * w_.read(int64_t{shape_.across} * shape_.outputs);
}

int64_t DepthwiseTiles::blocks() const {
  return images_ * ceil_div(h_.out, shape_.down) * ceil_div(w_.out, int64_t{shape_.across} * shape_.outputs) *
         ceil_div(channels_, kTileChannels);
}

// The cycles of the processor that has the most blocks: instructions of its busiest scheduler of warps, or accesses to
// shared memory, whichever are more. Instructions were counted in the machine code of a few instances for sm_90.
double DepthwiseTiles::estimate() const {
  constexpr int64_t kProcessors = 132;  // of an H100 or H200
  constexpr double kSchedulers = 4;
  // A warp alone on its scheduler waits for its own instructions, where two would fill each other's gaps.
  constexpr double kLeastWarps = 1.6;
  constexpr double kStart = 150, kCopy = 25, kOutput = 20, kTurn = 10;
  const bool wide = type_ == DataType::kFloat;
  const int64_t reads = w_.read(shape_.outputs);
  const int64_t instructions = reads * (wide ? 1 : 3) + w_.kernel * (1 + 2 * shape_.outputs);
  const int64_t accesses = reads * (wide ? 2 : 1) + w_.kernel;
  const double row = std::max(static_cast<double>(instructions), kSchedulers * static_cast<double>(accesses)) +
                     (shape_.unrolled ? 0 : kTurn);
  const double warp = static_cast<double>(h_.kernel) * row +
                      static_cast<double>(copies(pixels()) + copies(h_.kernel * w_.kernel)) * kCopy +
                      shape_.outputs * kOutput + kStart;
  const auto warps = static_cast<double>(ceil_div(blocks(), kProcessors) * threads() / 32);
  return warp * std::max(kLeastWarps, warps / kSchedulers);
}

DepthwiseTilesParams DepthwiseTiles::params() const {
  const std::vector<int64_t> dims = {images_, ceil_div(h_.out, shape_.down),
                                     ceil_div(w_.out, int64_t{shape_.across} * shape_.outputs),
                                     ceil_div(channels_, kTileChannels)};
  return {.map = map_params(dims),
          .channels = narrow(channels_),
          .in_h = narrow(h_.in),
          .in_w = narrow(w_.in),
          .out_h = narrow(h_.out),
          .out_w = narrow(w_.out),
          .pad_h = narrow(h_.pad),
          .pad_w = narrow(w_.pad),
          .x_image = narrow(x_image_),
          .x_row = narrow(h_.x_step),
          .x_column = narrow(w_.x_step),
          .y_image = narrow(y_image_),
          .y_row = narrow(h_.y_step),
          .y_column = narrow(w_.y_step)};
}

TemplateKernel DepthwiseTiles::kernel(const Epilogue& epilogue, bool constant) const {
  DepthwiseTilesParams given = params();
  given.constant = constant ? 1 : 0;
  given.epilogue = epilogue_params(epilogue);
  const auto count = [](int64_t value) { return static_cast<int>(value); };
  return {
      .header = "ep/cuda/ops/conv/depthwise_tiles.cuh",
      .instance = template_instance("depthwise_tiles", type_, template_enum(epilogue.activation), count(chunk()),
                                    count(h_.kernel), count(w_.kernel), count(h_.stride), count(w_.stride),
                                    shape_.outputs, shape_.across, shape_.down, shape_.unrolled ? count(h_.kernel) : 1),
      .params = kernel_params(given),
      .shape = {.grid_x = static_cast<unsigned>(blocks()), .block_x = static_cast<unsigned>(threads())},
      .in_place = {},
      .text = ""};
}

std::string DepthwiseTiles::text() const {
  return format("{} of {}x{}{}", shape_.outputs, shape_.down, shape_.across * shape_.outputs,
                shape_.unrolled ? "" : " in a loop");
}

Status add_depthwise_tiles(Lowering& to, const Node& node, const DepthwiseTiles& tiles, const ConvParams& p,
                           const Epilogue& epilogue, const ConvTensors& tensors) {
  const DataType type = to.program().tensor(tensors.x).type;
  std::string what =
      format("depthwise_tiles {} {}x{} in {}x{} kernel {}x{} stride {}x{} act {}{}{} tile {}", data_type_name(type),
             p.pixels, p.channels, p.in_h, p.in_w, p.kernel_h, p.kernel_w, p.stride_h, p.stride_w,
             static_cast<int32_t>(epilogue.activation), tensors.bias != kNoTensor ? " bias" : "",
             tensors.residual != kNoTensor ? " residual" : "", tiles.text());
  return to.add_kernel(node, std::move(what), tiles.kernel(epilogue, p.constant_weights != 0),
                       {tensors.x, tensors.w, tensors.bias, tensors.residual}, {tensors.y});
}

}  // namespace tenon::cuda
