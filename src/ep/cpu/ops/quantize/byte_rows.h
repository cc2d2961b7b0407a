// QLinearAdd and QLinearMul in vectors.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_byte_binary(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_byte_binary(const KernelNode& node);

}  // namespace tenon::cpu::nn
