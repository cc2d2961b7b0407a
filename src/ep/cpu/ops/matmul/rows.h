// MatMul, Gemm and tenon.MatMul on f32.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_matmul(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_matmul(const KernelNode& node);

}  // namespace tenon::cpu::nn
