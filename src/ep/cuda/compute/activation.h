// The functions of ops/activation_list.h as text of fused chains.
#pragma once

#include <string>

#include "ops/unary.h"

namespace tenon::cuda {

// The function of `x`, an operand as the kernel names it, of any type that the kernel computes in. The vocabulary is
// that of templates/functions.cuh.
std::string unary_expression(const UnaryDesc& unary, const std::string& x);
std::string activation_expression(const Epilogue& epilogue, const std::string& x);

}  // namespace tenon::cuda
