// MatMulNBits straight from its packed weights.
#pragma once

#include <span>

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

// The packing reads these constants: the weight, its scales and its zero points.
std::span<const ConstantRef> packed_constants(const KernelNode& node);

Status match_nbits(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_nbits(const KernelNode& node);

}  // namespace tenon::cpu::nn
