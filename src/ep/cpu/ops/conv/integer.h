// ConvInteger, QLinearConv and tenon.QuantizedConv over the product of bytes.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu {

// One to three spatial dimensions, plain tensors, parameters of X and Y with one element.
Status match_conv_integer(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_conv_integer(const KernelNode& node);
// Into blocks of eight channels: see match_constant_bytes. depthwise_bytes.cc: from blocks.
Status match_depthwise_bytes(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_depthwise_bytes(const KernelNode& node);
// blocked_bytes.cc: from blocks, or from up to four plain channels.
Status match_blocked_bytes(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_blocked_bytes(const KernelNode& node);

}  // namespace tenon::cpu
