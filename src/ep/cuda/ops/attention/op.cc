#include "ep/cuda/ops/attention/op.h"

#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/kernel_library.h"

namespace tenon::cuda {

namespace {

constexpr unsigned kThreads = 128;

}  // namespace

AttentionOp::AttentionOp(std::string label, DataType type, const AttentionParams& params, const Tensors& tensors)
    : DeviceOp(std::move(label), present({tensors.q, tensors.k, tensors.v, tensors.mask}),
               present({tensors.y, tensors.y_parts})),
      type_(type),
      params_(params),
      tensors_(tensors) {}

std::string AttentionOp::description(const Program&) const {
  return format("attention {} {}x{}x{}x{} keys {}{}{}", data_type_name(type_), params_.batch, params_.heads,
                params_.queries, params_.head_size, params_.keys, tensors_.mask != kNoTensor ? " mask" : "",
                tensors_.y_parts != kNoTensor ? format(" to terms {}", params_.terms) : "");
}

Status AttentionOp::prepare(const PrepareContext& context) {
  const int32_t head = params_.head_size;
  const auto size = static_cast<int64_t>(data_type_size(type_));
  const bool sizes_fit = head == params_.value_size && (head == 32 || head == 64 || head == 128);
  // Rows are read 16 bytes at a time.
  const bool aligned =
      params_.q_row * size % 16 == 0 && params_.k_row * size % 16 == 0 && params_.v_row * size % 16 == 0;
  const int64_t heads = static_cast<int64_t>(params_.batch) * params_.heads;
  unsigned shared_bytes = 0;
  if (sizes_fit && aligned && heads <= 65535) {
    // Few blocks of many queries would leave the device idle: then the warps of a block share the keys.
    const bool few = (params_.queries + 63) / 64 * heads < context.device->multiprocessors() && head <= 64;
    const int key_warps = few ? 4 : 1, queries = few ? 16 : 64;
    const int keys = few ? 128 : head * size <= 128 ? 64 : 32, buffers = few ? 1 : 2;
    const int tile = (queries + 2 * buffers * keys) * (head * static_cast<int>(size) + 16) +
                     buffers * queries * (keys * static_cast<int>(size) + 16);
    const int join = few ? key_warps * 16 * (head + 4) * 4 : 0;
    shared_bytes = static_cast<unsigned>(std::max(tile, join));
    const bool tf32 = type_ == DataType::kFloat && context.tf32;
    name_ = format("attention_{}_{}_{}", tf32 ? "tf32" : kernel_type(type_), head, key_warps);
    shape_ = {.grid_x = static_cast<unsigned>((params_.queries + queries - 1) / queries),
              .grid_y = static_cast<unsigned>(heads),
              .block_x = kThreads,
              .shared_bytes = shared_bytes};
  } else {
    name_ = format("attention_plain_{}", kernel_type(type_));
    shape_ = {.grid_x = static_cast<unsigned>((heads * params_.queries + 3) / 4), .block_x = kThreads};
  }
  TENON_TRY_ASSIGN(function_, context.kernels->find("attention", name_, shared_bytes));
  return Status();
}

Status AttentionOp::queue(const QueueContext& context) const {
  AttentionParams params = params_;
  params.q = context.addresses.pointer(tensors_.q);
  params.k = context.addresses.pointer(tensors_.k);
  params.v = context.addresses.pointer(tensors_.v);
  params.mask = context.addresses.pointer(tensors_.mask);
  const auto vector = static_cast<int64_t>(16 / data_type_size(type_));
  bool vectors =
      params.mask_key == 1 && params.keys % vector == 0 && reinterpret_cast<uintptr_t>(params.mask) % 16 == 0;
  for (int64_t stride : {params.mask_batch, params.mask_head, params.mask_query})
    vectors = vectors && stride % vector == 0;
  params.mask_vectors = vectors ? 1 : 0;
  params.y = context.addresses.pointer(tensors_.y);
  params.parts = context.addresses.pointer(tensors_.y_parts);
  return queue_params(*context.device, context.stream, function_, shape_, params);
}

}  // namespace tenon::cuda
