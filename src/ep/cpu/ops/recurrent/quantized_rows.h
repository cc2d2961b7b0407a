// DynamicQuantizeLSTM with constant weights and the functions of gates that ONNX takes by default.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_quantized_lstm(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_quantized_lstm(const KernelNode& node);

}  // namespace tenon::cpu::nn
