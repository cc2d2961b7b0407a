// ConvInteger, QLinearConv and tenon.QuantizedConv over the product of bytes.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu {

// One to three spatial dimensions, plain tensors, parameters of X and Y with one element.
Status match_conv_integer(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_conv_integer(const KernelNode& node);

}  // namespace tenon::cpu
