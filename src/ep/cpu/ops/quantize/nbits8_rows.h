// MatMulNBits whose accuracy_level lets A be rounded to int8.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_nbits8(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_nbits8(const KernelNode& node);

}  // namespace tenon::cpu::nn
