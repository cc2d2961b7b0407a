#include "ep/cuda/ops/conv/pad_image_op.h"

#include "base/format.h"
#include "ep/cuda/compute/kernel_library.h"
#include "ep/cuda/compute/loops.h"

namespace tenon::cuda {

namespace {

constexpr unsigned kThreads = 128;

}  // namespace

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
  return queue_params(*context.device, context.stream, function_, {.grid_x = blocks, .block_x = kThreads}, params);
}

}  // namespace tenon::cuda
