// MatMul, Gemm and tenon.MatMul on f32.
#pragma once

#include "ep/kit/kernel.h"

namespace tenon::cpu::nn {

Status match_matmul(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_matmul(const KernelNode& node);        // ONNX
Result<std::unique_ptr<Kernel>> create_fused_matmul(const KernelNode& node);  // domain tenon
Result<std::unique_ptr<Kernel>> create_gemm(const KernelNode& node);          // ONNX, 7 and later

}  // namespace tenon::cpu::nn
