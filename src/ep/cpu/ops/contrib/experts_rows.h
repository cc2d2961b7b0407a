// MoE and QMoE with constant weights, which are packed once: floats as panels, codes as MatMulNBits has them.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_packed_experts(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_packed_experts(const KernelNode& node);

}  // namespace tenon::cpu::nn
