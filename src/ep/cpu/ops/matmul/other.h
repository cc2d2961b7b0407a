// MatMul and Gemm of float64, int32, uint32, int64 and uint64.
#pragma once

#include <memory>

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_other_matmul(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_other_matmul(const KernelNode& node);

}  // namespace tenon::cpu::nn
