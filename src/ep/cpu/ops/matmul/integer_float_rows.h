// MatMulIntegerToFloat, DynamicQuantizeMatMul and QGemm of com.microsoft on the product of bytes.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_integer_float(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_integer_float(const KernelNode& node);

}  // namespace tenon::cpu::nn
