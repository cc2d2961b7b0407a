#include "ep/cuda/ops/norm/row_ops.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "ep/cuda/compute/kernel_library.h"
#include "ep/cuda/compute/loops.h"

namespace tenon::cuda {

namespace {

constexpr unsigned kThreads = 128;

template <typename Params>
Status queue_params(const QueueContext& context, CUfunction function, const LaunchShape& shape, Params params) {
  void* pointers[] = {&params};
  return queue_kernel(*context.device, function, shape, 1, context.stream, pointers);
}

}  // namespace

LayerNormOp::LayerNormOp(std::string label, DataType type, int32_t rows, int32_t columns, float epsilon,
                         const Tensors& tensors)
    : DeviceOp(std::move(label), present({tensors.x, tensors.skip, tensors.scale, tensors.bias}),
               present({tensors.y, tensors.sum, tensors.y_parts})),
      type_(type),
      tensors_(tensors) {
  params_.rows = rows;
  params_.columns = columns;
  params_.epsilon = epsilon;
}

std::string LayerNormOp::description(const Program&) const {
  return format("layer_norm {} {}x{}{}{}{}", data_type_name(type_), params_.rows, params_.columns,
                tensors_.skip != kNoTensor ? " skip" : "", tensors_.sum != kNoTensor ? " sum" : "",
                tensors_.y_parts != kNoTensor ? format(" to terms {}", tensors_.y_terms) : "");
}

Status LayerNormOp::prepare(const PrepareContext& context) {
  const auto vector = static_cast<int32_t>(16 / data_type_size(type_));
  std::string name = format("layer_norm_{}", kernel_type(type_));
  for (int32_t per_thread : {8, 16, 32}) {
    if (params_.columns % vector != 0 || params_.columns > per_thread * static_cast<int32_t>(kThreads)) continue;
    name = format("layer_norm_{}_{}", per_thread, kernel_type(type_));
    break;
  }
  if (params_.columns % vector == 0 && params_.columns <= 1024) {
    name = format("layer_norm_warp_{}", kernel_type(type_));
    rows_a_block_ = kThreads / 32;
  }
  TENON_TRY_ASSIGN(function_, context.kernels->find("norm", name));
  return Status();
}

Status LayerNormOp::queue(const QueueContext& context) const {
  LayerNormParams params = params_;
  params.x = context.addresses.pointer(tensors_.x);
  params.skip = context.addresses.pointer(tensors_.skip);
  params.scale = context.addresses.pointer<const float>(tensors_.scale);
  params.bias = context.addresses.pointer<const float>(tensors_.bias);
  params.y = context.addresses.pointer(tensors_.y);
  params.sum = context.addresses.pointer(tensors_.sum);
  params.parts = context.addresses.pointer(tensors_.y_parts);
  params.parts_factor = std::ldexp(1.0f, tensors_.y_shift);
  params.terms = tensors_.y_terms;
  return queue_params(
      context, function_,
      {.grid_x = (static_cast<unsigned>(params_.rows) + rows_a_block_ - 1) / rows_a_block_, .block_x = kThreads},
      params);
}

SoftmaxOp::SoftmaxOp(std::string label, DataType type, int32_t rows, int32_t columns, bool logarithm, bool guarded,
                     TensorId x, TensorId y)
    : DeviceOp(std::move(label), {x}, {y}), type_(type) {
  params_.rows = rows;
  params_.columns = columns;
  params_.logarithm = logarithm ? 1 : 0;
  params_.guarded = guarded ? 1 : 0;
}

std::string SoftmaxOp::description(const Program&) const {
  return format("{} {} {}x{}", params_.logarithm != 0 ? "log_softmax" : "softmax", data_type_name(type_), params_.rows,
                params_.columns);
}

Status SoftmaxOp::prepare(const PrepareContext& context) {
  TENON_TRY_ASSIGN(function_, context.kernels->find("norm", format("softmax_{}", kernel_type(type_))));
  return Status();
}

Status SoftmaxOp::queue(const QueueContext& context) const {
  SoftmaxParams params = params_;
  params.x = context.addresses.pointer(reads()[0]);
  params.y = context.addresses.pointer(writes()[0]);
  return queue_params(context, function_, {.grid_x = static_cast<unsigned>(params_.rows), .block_x = kThreads}, params);
}

PoolOp::PoolOp(std::string label, DataType type, const PoolParams& params, int32_t images, bool global, TensorId x,
               TensorId y)
    : DeviceOp(std::move(label), {x}, {y}), type_(type), params_(params), images_(images), global_(global) {
  const auto vector = static_cast<int32_t>(16 / data_type_size(type_));
  if (params_.channels % vector == 0) vector_ = vector;
  params_.count = static_cast<int64_t>(images_) * params_.out_h * params_.out_w * (params_.channels / vector_);
}

std::string PoolOp::description(const Program&) const {
  return format("{}{}_pool {} {}x{}x{}x{} kernel {}x{} stride {}x{}", global_ ? "global_" : "",
                params_.average != 0 ? "average" : "max", data_type_name(type_), images_, params_.in_h, params_.in_w,
                params_.channels, params_.kernel_h, params_.kernel_w, params_.stride_h, params_.stride_w);
}

Status PoolOp::prepare(const PrepareContext& context) {
  const std::string name =
      format("{}{}_{}", global_ ? "global_average" : "pool", vector_ > 1 ? "_vector" : "", kernel_type(type_));
  TENON_TRY_ASSIGN(function_, context.kernels->find("direct", name));
  return Status();
}

Status PoolOp::queue(const QueueContext& context) const {
  PoolParams params = params_;
  params.x = context.addresses.pointer(reads()[0]);
  params.y = context.addresses.pointer(writes()[0]);
  if (global_) {
    const auto vectors = static_cast<unsigned>(params_.channels / vector_);
    return queue_params(context, function_,
                        {.grid_x = (vectors + 31) / 32,
                         .grid_y = std::min(static_cast<unsigned>(images_), 65535U),
                         .block_x = 32,
                         .block_y = 8},
                        params);
  }
  TENON_TRY_ASSIGN(const unsigned blocks, blocks_of(params_.count, kThreads));
  return queue_params(context, function_, {.grid_x = blocks, .block_x = kThreads}, params);
}

PadImageOp::PadImageOp(std::string label, DataType type, const Shape& x_shape, int32_t padded, TensorId x, TensorId y)
    : DeviceOp(std::move(label), {x}, {y}), type_(type), padded_(padded) {
  params_.images = static_cast<int32_t>(x_shape[0]);
  params_.channels = static_cast<int32_t>(x_shape[1]);
  params_.area = 1;
  for (int i = 2; i < x_shape.rank(); ++i) params_.area *= static_cast<int32_t>(x_shape[i]);
}

std::string PadImageOp::description(const Program&) const {
  return format("pad_image {} {}x{}x{} to {}", data_type_name(type_), params_.images, params_.channels, params_.area,
                padded_);
}

Status PadImageOp::prepare(const PrepareContext& context) {
  TENON_TRY_ASSIGN(
      function_, context.kernels->find("direct", format("pad_image_{}_{}", padded_ == 4 ? 4 : 8, kernel_type(type_))));
  return Status();
}

Status PadImageOp::queue(const QueueContext& context) const {
  ImageParams params = params_;
  params.x = context.addresses.pointer(reads()[0]);
  params.y = context.addresses.pointer(writes()[0]);
  const int64_t pixels = static_cast<int64_t>(params_.images) * params_.area;
  TENON_TRY_ASSIGN(const unsigned blocks, blocks_of(pixels, kThreads));
  return queue_params(context, function_, {.grid_x = blocks, .block_x = kThreads}, params);
}

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
  return queue_params(context, function_, shape_, params);
}

}  // namespace tenon::cuda
