// LayerNorm, Softmax and LogSoftmax on f32.
#pragma once

#include "ep/kit/kernel.h"

namespace tenon::cpu::nn {

Status match_norm(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_layer_norm(const KernelNode& node);           // tenon: X, skip, scale, bias
Result<std::unique_ptr<Kernel>> create_layer_normalization(const KernelNode& node);  // ONNX: X, scale, bias
Result<std::unique_ptr<Kernel>> create_softmax(const KernelNode& node);              // 13 and later: one axis
Result<std::unique_ptr<Kernel>> create_flat_softmax(const KernelNode& node);         // until 12: axis and all after it
Result<std::unique_ptr<Kernel>> create_log_softmax(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_flat_log_softmax(const KernelNode& node);

}  // namespace tenon::cpu::nn
