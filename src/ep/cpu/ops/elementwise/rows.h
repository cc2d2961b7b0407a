// Elementwise f32 operators, one row of a table each, and casts.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_unary(const KernelNode& node);  // also tenon.Activation; plain and blocked layouts
Result<std::unique_ptr<Kernel>> create_unary(const KernelNode& node);
Status match_clip(const KernelNode& node);  // 11 and later: bounds are inputs
Result<std::unique_ptr<Kernel>> create_clip(const KernelNode& node);
Status match_binary(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_binary(const KernelNode& node);
Status match_power(const KernelNode& node);  // constant exponents that are products or roots
Result<std::unique_ptr<Kernel>> create_power(const KernelNode& node);
Status match_cast(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_cast(const KernelNode& node);

}  // namespace tenon::cpu::nn
