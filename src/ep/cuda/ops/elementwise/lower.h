// Elementwise operators as steps of fused chains, and what moves elements as the operands of such kernels.
#pragma once

#include "ep/cuda/compute/activation.h"
#include "ep/cuda/compute/lowering.h"

namespace tenon::cuda {

// y = act(x + bias + residual) or act(x + bias) + residual over the last dimension, for products that cannot do it
// themselves. Absent parts are kNoValue.
Status add_epilogue(Lowering& to, const Node& node, TensorId x, ValueId bias, ValueId residual,
                    const Epilogue& epilogue);

}  // namespace tenon::cuda
