// Operators of com.microsoft on quantised bytes, plain or in blocks: QLinearAdd and QLinearMul in vectors;
// QLinearSigmoid and QLinearLeakyRelu; QLinearConcat and QLinearGlobalAveragePool in blocks.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_byte_binary(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_byte_binary(const KernelNode& node);
Status match_byte_table(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_byte_table(const KernelNode& node);
Status match_byte_concat(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_byte_concat(const KernelNode& node);
Status match_byte_global_pool(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_byte_global_pool(const KernelNode& node);

}  // namespace tenon::cpu::nn
