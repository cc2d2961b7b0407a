#include "ep/cuda/ops/quantize/op.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "ep/cuda/compute/kernel_library.h"

namespace tenon::cuda {

namespace {

constexpr unsigned kMostBlocks = 65535;

// The tiles of quantize/integer.cu, largest first.
constexpr std::array<IntegerTile, 3> kTiles = {{{128, 128}, {128, 64}, {64, 64}}};

int64_t tiles_of(int64_t count, unsigned tile) { return (count + tile - 1) / tile; }

const char* byte_name(DataType type) { return type == DataType::kUint8 ? "u8" : "s8"; }

std::vector<TensorId> reads_of(const IntegerTensors& tensors) {
  std::vector<TensorId> ids;
  for (TensorId id : {tensors.a, tensors.b, tensors.a_zero, tensors.b_zero, tensors.a_sums, tensors.b_sums,
                      tensors.a_scale, tensors.b_scale, tensors.y_scale, tensors.y_zero, tensors.bias, tensors.outside})
    if (id != kNoTensor) ids.push_back(id);
  return ids;
}

}  // namespace

IntegerProductOp::IntegerProductOp(std::string label, DataType a, DataType b, const IntegerProductParams& params,
                                   const IntegerTensors& tensors)
    : DeviceOp(std::move(label), reads_of(tensors), {tensors.y}), a_(a), b_(b), params_(params), tensors_(tensors) {}

std::string IntegerProductOp::description(const Program&) const {
  return format("integer_product {} {} {}x{}x{} batch {}", byte_name(a_), byte_name(b_), params_.rows, params_.columns,
                params_.summed_depth, params_.batch) +
         (params_.channels != 0 ? format(" kernel {}x{}", params_.kernel_h, params_.kernel_w) : "") +
         (tensors_.y_scale != kNoTensor ? " scaled" : "");
}

// The largest tile of which every processor has one; 128 columns only where they are mostly filled.
IntegerTile IntegerProductOp::tile(const IntegerProductParams& params, int64_t processors) {
  for (const IntegerTile& tile : kTiles) {
    const int64_t rows = tiles_of(params.rows, tile.rows), columns = tiles_of(params.columns, tile.columns);
    const bool filled =
        tile.columns == kTiles.back().columns || columns * tile.columns * 3 <= int64_t{params.columns} * 4;
    if (filled && rows * columns * params.batch >= processors) return tile;
  }
  return kTiles.back();
}

Status IntegerProductOp::prepare(const PrepareContext& context) {
  tile_ = tile(params_, context.device->multiprocessors());
  TENON_TRY_ASSIGN(
      function_, context.kernels->find("integer", format("integer_{}{}_{}_{}x{}", params_.channels != 0 ? "conv_" : "",
                                                         byte_name(a_), byte_name(b_), tile_.rows, tile_.columns)));
  return Status();
}

IntegerProductParams IntegerProductOp::bound_params(const Addresses& addresses) const {
  IntegerProductParams params = params_;
  params.a = addresses.pointer(tensors_.a);
  params.b = addresses.pointer(tensors_.b);
  params.a_zero = addresses.pointer(tensors_.a_zero);
  params.b_zero = addresses.pointer(tensors_.b_zero);
  params.a_sums = addresses.pointer<const int32_t>(tensors_.a_sums);
  params.b_sums = addresses.pointer<const int32_t>(tensors_.b_sums);
  params.a_scale = addresses.pointer<const float>(tensors_.a_scale);
  params.b_scale = addresses.pointer<const float>(tensors_.b_scale);
  params.y_scale = addresses.pointer<const float>(tensors_.y_scale);
  params.y_zero = addresses.pointer(tensors_.y_zero);
  params.bias = addresses.pointer<const int32_t>(tensors_.bias);
  params.outside = addresses.pointer(tensors_.outside);
  params.y = addresses.pointer(tensors_.y);
  return params;
}

Status IntegerProductOp::queue(const QueueContext& context) const {
  IntegerProductParams params = bound_params(context.addresses);
  void* pointers[] = {&params};
  return queue_kernel(
      *context.device, function_,
      {.grid_x = static_cast<unsigned>(tiles_of(params_.rows, tile_.rows)),
       .grid_y = static_cast<unsigned>(std::min<int64_t>(tiles_of(params_.columns, tile_.columns), kMostBlocks)),
       .grid_z = std::min(static_cast<unsigned>(params_.batch), kMostBlocks),
       .block_x = 2 * tile_.columns},
      1, context.stream, pointers);
}

}  // namespace tenon::cuda
