#include "ep/cuda/ops/attention/op.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/format.h"
#include "ep/cuda/compute/kernel_library.h"
#include "ep/cuda/ops/attention/tile.h"

namespace tenon::cuda {

namespace {

constexpr unsigned kThreads = 128;
constexpr int64_t kMostHeads = 65535;  // of a grid

// The smallest size that is large enough; 0: none is.
int32_t fitting(std::span<const int32_t> sizes, int32_t head) {
  const auto found = std::find_if(sizes.begin(), sizes.end(), [&](int32_t size) { return size >= head; });
  return found != sizes.end() ? *found : 0;
}

// The size of heads that a kernel of attention.cu has.
int32_t kernel_head(int32_t head) {
  constexpr std::array<int32_t, 3> kSizes = {32, 64, 128};
  return fitting(kSizes, head);
}

int64_t blocks_of(const AttentionParams& p, int queries) {
  return (int64_t{p.queries} + queries - 1) / queries * p.batch * p.heads;
}

// The kernel of attention_tiles.cu; with a head of 0 there is none.
AttentionTile choose_tile(const AttentionParams& p, bool mask, int processors) {
  // Heads of up to 24 elements are copied 8 bytes at a time, others 16.
  constexpr std::array<int32_t, 7> kSizes = {24, 32, 40, 64, 80, 128, 160};
  constexpr int kNarrow = 24, kMostShared = 80, kMostTall = 40;
  AttentionTile tile{.head = fitting(kSizes, std::max(p.head_size, p.value_size))};
  if (p.half_vectors != 0 && tile.head != kNarrow) tile.head = 0;
  // Few blocks of many queries would leave the device idle: then the warps of a block share the keys.
  if (tile.head <= kMostShared && 4 * blocks_of(p, tile.queries()) <= processors) {
    tile.query_warps = 1;
    tile.key_warps = 4;
  } else if (!mask && (tile.head == kNarrow || tile.head == kMostTall)) {
    // Many queries: a warp reads keys and values for 32 of them at once.
    AttentionTile tall = tile;
    tall.tiles = 2;
    if (blocks_of(p, tall.queries()) >= processors) tile = tall;
  }
  return tile;
}

}  // namespace

AttentionOp::AttentionOp(std::string label, DataType type, const AttentionParams& params, const Tensors& tensors)
    : DeviceOp(std::move(label), present({tensors.q, tensors.k, tensors.v, tensors.mask, tensors.lengths}),
               present({tensors.y, tensors.y_parts})),
      type_(type),
      params_(params),
      tensors_(tensors) {}

std::string AttentionOp::description(const Program&) const {
  return format("attention {} {}x{}x{}x{} keys {}{}{}{}", data_type_name(type_), params_.batch, params_.heads,
                params_.queries, params_.head_size, params_.keys,
                params_.sharing > 1 ? format(" of {} heads", params_.heads / params_.sharing) : "",
                tensors_.mask != kNoTensor ? " mask" : "",
                tensors_.y_parts != kNoTensor ? format(" to terms {}", params_.terms) : "");
}

Status AttentionOp::prepare(const PrepareContext& context) {
  const auto size = static_cast<int64_t>(data_type_size(type_));
  // Rows are read 16 bytes at a time, or 8.
  int64_t odd = (params_.head_size | params_.value_size) * size;
  for (int64_t stride : {params_.q_batch, params_.q_head, params_.q_row, params_.k_batch, params_.k_head, params_.k_row,
                         params_.v_batch, params_.v_head, params_.v_row})
    odd |= stride * size;
  for (TensorId id : {tensors_.q, tensors_.k, tensors_.v})
    odd |= static_cast<int64_t>(context.addresses.program->tensor(id).offset_bytes);
  params_.half_vectors = odd % 16 != 0 ? 1 : 0;
  bool aligned = odd % 8 == 0;
  // Pairs of a result are stored at once.
  aligned = aligned && params_.y_batch % 2 == 0 && params_.y_head % 2 == 0 && params_.y_row % 2 == 0;
  const int64_t heads = static_cast<int64_t>(params_.batch) * params_.heads;
  unsigned shared_bytes = 0;
  std::string_view module = "attention";
  aligned = aligned && heads <= kMostHeads;
  const bool floats = type_ == DataType::kFloat, mask = tensors_.mask != kNoTensor;
  const int32_t head =
      aligned && floats && params_.head_size == params_.value_size ? kernel_head(params_.head_size) : 0;
  const AttentionTile tile = aligned && !floats && (mask || params_.scale > 0)
                                 ? choose_tile(params_, mask, context.device->multiprocessors())
                                 : AttentionTile();
  if (tile.head != 0) {
    module = "attention_tiles";
    name_ = format("attention_{}{}_{}_{}x{}x{}", mask ? "mask_" : "", kernel_type(type_), tile.head, tile.tiles,
                   tile.query_warps, tile.key_warps);
    shared_bytes = static_cast<unsigned>(tile.shared_bytes());
    shape_ = {.grid_x = static_cast<unsigned>((params_.queries + tile.queries() - 1) / tile.queries()),
              .grid_y = static_cast<unsigned>(heads),
              .block_x = static_cast<unsigned>(tile.threads()),
              .shared_bytes = shared_bytes};
  } else if (head != 0) {
    // Few blocks of many queries would leave the device idle: then the warps of a block share the keys.
    const bool few = 3 * blocks_of(params_, 64) < context.device->multiprocessors() && head <= 64;
    const int key_warps = few ? 4 : 1, queries = few ? 16 : 64;
    const int keys = few ? 128 : head * size <= 128 ? 64 : 32, buffers = few ? 1 : 2;
    const int tensors = (queries + 2 * buffers * keys) * (head * static_cast<int>(size) + 16) +
                        buffers * queries * (keys * static_cast<int>(size) + 16);
    const int join = few ? key_warps * 16 * (head + 4) * 4 : 0;
    shared_bytes = static_cast<unsigned>(std::max(tensors, join));
    name_ = format("attention_{}_{}_{}", context.tf32 ? "tf32" : "f32", head, key_warps);
    shape_ = {.grid_x = static_cast<unsigned>((params_.queries + queries - 1) / queries),
              .grid_y = static_cast<unsigned>(heads),
              .block_x = kThreads,
              .shared_bytes = shared_bytes};
  } else {
    name_ = format("attention_plain_{}", kernel_type(type_));
    shape_ = {.grid_x = static_cast<unsigned>((heads * params_.queries + 3) / 4), .block_x = kThreads};
  }
  TENON_TRY_ASSIGN(function_, context.kernels->find(module, name_, shared_bytes));
  return Status();
}

AttentionParams AttentionOp::bound_params(const Addresses& addresses) const {
  AttentionParams params = params_;
  params.q = addresses.pointer(tensors_.q);
  params.k = addresses.pointer(tensors_.k);
  params.v = addresses.pointer(tensors_.v);
  params.mask = addresses.pointer(tensors_.mask);
  params.lengths = addresses.pointer<const int32_t>(tensors_.lengths);
  params.y = addresses.pointer(tensors_.y);
  params.parts = addresses.pointer(tensors_.y_parts);
  return params;
}

Status AttentionOp::queue(const QueueContext& context) const {
  AttentionParams params = bound_params(context.addresses);
  // 16 bytes of float32, or pairs of 16 bits.
  const int64_t vector = type_ == DataType::kFloat ? 4 : 2;
  const auto bytes = static_cast<uintptr_t>(vector) * data_type_size(type_);
  bool vectors =
      params.mask_key == 1 && params.keys % vector == 0 && reinterpret_cast<uintptr_t>(params.mask) % bytes == 0;
  for (int64_t stride : {params.mask_batch, params.mask_head, params.mask_query})
    vectors = vectors && stride % vector == 0;
  params.mask_vectors = vectors ? 1 : 0;
  return queue_params(*context.device, context.stream, function_, shape_, params);
}

}  // namespace tenon::cuda
