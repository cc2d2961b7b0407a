// MatMul, Gemm and Conv; see sim_ops.h.
#pragma once

#include "ep/sim/sim_ops.h"

namespace tenon::sim {

Result<std::vector<SimTensor>> infer_matmul(const SimInputs& inputs, const SimAttributes& attributes);
Result<std::vector<SimTensor>> infer_gemm(const SimInputs& inputs, const SimAttributes& attributes);
Result<std::vector<SimTensor>> infer_conv(const SimInputs& inputs, const SimAttributes& attributes);

// The second operand, transposed.
size_t matmul_scratch(std::span<const SimTensor> in, const SimAttributes& attributes);
size_t gemm_scratch(std::span<const SimTensor> in, const SimAttributes& attributes);
void prepare_matmul(const SimRun& run, const SimAttributes& attributes);
void prepare_gemm(const SimRun& run, const SimAttributes& attributes);

Status run_matmul(const SimRun& run, const SimAttributes& attributes);
Status run_gemm(const SimRun& run, const SimAttributes& attributes);
Status run_conv(const SimRun& run, const SimAttributes& attributes);

}  // namespace tenon::sim
