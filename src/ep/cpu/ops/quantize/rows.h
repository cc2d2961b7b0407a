// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear between float32 and bytes, tenon.LookupBytes,
// tenon.QuantizedSoftmax and QLinearSoftmax.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

// One scale for the tensor, or one for each index of an axis with enough elements behind it.
Status match_quantize(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_quantize(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_dequantize(const KernelNode& node);

Status match_dynamic_quantize(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_dynamic_quantize(const KernelNode& node);

Status match_lookup_bytes(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_lookup_bytes(const KernelNode& node);

Status match_quantized_softmax(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_quantized_softmax(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_qlinear_softmax(const KernelNode& node);

}  // namespace tenon::cpu::nn
