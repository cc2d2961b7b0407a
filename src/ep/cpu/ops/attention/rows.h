// tenon.Attention and tenon.PackedAttention on f32 (docs/reference/internal-operators.md).
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_attention(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_attention(const KernelNode& node);

}  // namespace tenon::cpu::nn
