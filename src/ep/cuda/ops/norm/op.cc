#include "ep/cuda/ops/norm/op.h"

#include <cmath>

#include "base/format.h"
#include "ep/cuda/compute/kernel_library.h"

namespace tenon::cuda {

namespace {

constexpr unsigned kThreads = 128;

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
      *context.device, context.stream, function_,
      {.grid_x = (static_cast<unsigned>(params_.rows) + rows_a_block_ - 1) / rows_a_block_, .block_x = kThreads},
      params);
}

}  // namespace tenon::cuda
