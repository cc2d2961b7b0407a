// What the families that end in a ConvOp share.
#pragma once

#include <functional>

#include "ep/cuda/compute/conv_op.h"
#include "ep/cuda/compute/lowering.h"

namespace tenon::cuda {

// A bias in float32 or in the type of the product, `repeat` times.
Result<TensorId> bias_as(Lowering& to, const Node& node, ValueId id, DataType type, int64_t repeat = 1);

// The rest of a convolution whose input and weights are there: bias, residual and output, and the weights split where
// that serves. `pack_floats` packs constant weights as float32, in the order of those that are there.
Status finish_conv(Lowering& to, const Node& node, const ConvParams& params, const Epilogue& epilogue,
                   ConvTensors tensors, const std::function<void(const Constant&, std::byte*)>& pack_floats);

}  // namespace tenon::cuda
