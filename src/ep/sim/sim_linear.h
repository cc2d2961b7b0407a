// MatMul, Gemm and Conv; see sim_ops.h.
#pragma once

#include "ep/sim/sim_ops.h"

namespace tenon::sim {

// MatMul and Gemm.
Result<std::vector<SimTensor>> infer_product(const SimInputs& inputs, const Node& node);
Result<std::vector<SimTensor>> infer_conv(const SimInputs& inputs, const Node& node);

// The second operand, transposed.
size_t product_scratch(std::span<const SimTensor> in, const Node& node);
void prepare_product(const SimRun& run, const Node& node);

Status run_product(const SimRun& run, const Node& node);
Status run_conv(const SimRun& run, const Node& node);

}  // namespace tenon::sim
