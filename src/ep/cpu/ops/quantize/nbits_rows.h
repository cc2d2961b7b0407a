// MatMulNBits straight from its packed weights.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_nbits(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_nbits(const KernelNode& node);

}  // namespace tenon::cpu::nn
