#include "ep/cuda/ops/pool/op.h"

#include <algorithm>
#include <bit>

#include "base/format.h"
#include "ep/cuda/compute/kernel_library.h"
#include "ep/cuda/compute/loops.h"

namespace tenon::cuda {

namespace {

constexpr unsigned kThreads = 128;

}  // namespace

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
    // Few pixels want neighbouring channels in a warp; many want threads.
    constexpr unsigned kGlobalThreads = 256;
    const auto vectors = static_cast<unsigned>(params_.channels / vector_);
    unsigned together = std::min(std::bit_ceil(vectors), 32U);
    const int64_t area = static_cast<int64_t>(params_.in_h) * params_.in_w;
    while (together > 2 && area * together > 32 * int64_t{kGlobalThreads}) together /= 2;
    return queue_params(*context.device, context.stream, function_,
                        {.grid_x = (vectors + together - 1) / together,
                         .grid_y = std::min(static_cast<unsigned>(images_), 65535U),
                         .block_x = together,
                         .block_y = kGlobalThreads / together},
                        params);
  }
  TENON_TRY_ASSIGN(const unsigned blocks, blocks_of(params_.count, kThreads));
  return queue_params(*context.device, context.stream, function_, {.grid_x = blocks, .block_x = kThreads}, params);
}

}  // namespace tenon::cuda
