#include "ep/cuda/ops/softmax/op.h"

#include "base/format.h"
#include "ep/cuda/compute/kernel_library.h"

namespace tenon::cuda {

namespace {

constexpr unsigned kThreads = 128;

}  // namespace

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
  TENON_TRY_ASSIGN(function_, context.kernels->find("softmax", format("softmax_{}", kernel_type(type_))));
  return Status();
}

Status SoftmaxOp::queue(const QueueContext& context) const {
  SoftmaxParams params = params_;
  params.x = context.addresses.pointer(reads()[0]);
  params.y = context.addresses.pointer(writes()[0]);
  return queue_params(*context.device, context.stream, function_,
                      {.grid_x = static_cast<unsigned>(params_.rows), .block_x = kThreads}, params);
}

}  // namespace tenon::cuda
