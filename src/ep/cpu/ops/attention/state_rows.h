// LinearAttention with the loops of simd/state.h.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_linear_attention(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_linear_attention(const KernelNode& node);

}  // namespace tenon::cpu::nn
