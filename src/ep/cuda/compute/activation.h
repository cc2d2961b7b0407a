// The functions of ops/activation_list.h as text of generated kernels.
#pragma once

#include <string>

#include "ops/unary.h"

namespace tenon::cuda {

// The function of `x`, an operand as the kernel names it, of any type that the kernel computes in.
std::string unary_expression(const UnaryDesc& unary, const std::string& x);
std::string activation_expression(const Epilogue& epilogue, const std::string& x);

// The vocabulary of the list as device functions on float and double, and on integers where the formulas have some; a
// part of every generated kernel's helpers (codegen.cc).
const std::string& generated_vocabulary();

}  // namespace tenon::cuda
