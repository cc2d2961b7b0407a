#include "ep/cuda/compute/integer_op.h"

#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/kernel_library.h"

namespace tenon::cuda {

namespace {

constexpr unsigned kTile = 64, kThreads = 128, kMostBlocks = 65535;

const char* byte_name(DataType type) { return type == DataType::kUint8 ? "u8" : "s8"; }

std::vector<TensorId> reads_of(const IntegerTensors& tensors) {
  std::vector<TensorId> ids;
  for (TensorId id : {tensors.a, tensors.b, tensors.a_zero, tensors.b_zero, tensors.a_sums, tensors.b_sums})
    if (id != kNoTensor) ids.push_back(id);
  return ids;
}

}  // namespace

IntegerProductOp::IntegerProductOp(std::string label, DataType a, DataType b, const IntegerProductParams& params,
                                   const IntegerTensors& tensors)
    : DeviceOp(std::move(label), reads_of(tensors), {tensors.y}), a_(a), b_(b), params_(params), tensors_(tensors) {}

std::string IntegerProductOp::description(const Program&) const {
  return format("integer_product {} {} {}x{}x{} batch {}", byte_name(a_), byte_name(b_), params_.rows, params_.columns,
                params_.summed_depth, params_.batch);
}

Status IntegerProductOp::prepare(const PrepareContext& context) {
  TENON_TRY_ASSIGN(function_, context.kernels->find("integer", format("integer_{}_{}", byte_name(a_), byte_name(b_))));
  return Status();
}

Status IntegerProductOp::queue(const QueueContext& context) const {
  const Addresses& addresses = context.addresses;
  IntegerProductParams params = params_;
  params.a = addresses.pointer(tensors_.a);
  params.b = addresses.pointer(tensors_.b);
  params.a_zero = addresses.pointer(tensors_.a_zero);
  params.b_zero = addresses.pointer(tensors_.b_zero);
  params.a_sums = addresses.pointer<const int32_t>(tensors_.a_sums);
  params.b_sums = addresses.pointer<const int32_t>(tensors_.b_sums);
  params.y = addresses.pointer<int32_t>(tensors_.y);
  const auto tiles = [](int32_t count) { return (static_cast<unsigned>(count) + kTile - 1) / kTile; };
  void* pointers[] = {&params};
  return queue_kernel(*context.device, function_,
                      {.grid_x = tiles(params_.rows),
                       .grid_y = std::min(tiles(params_.columns), kMostBlocks),
                       .grid_z = std::min(static_cast<unsigned>(params_.batch), kMostBlocks),
                       .block_x = kThreads},
                      1, context.stream, pointers);
}

}  // namespace tenon::cuda
