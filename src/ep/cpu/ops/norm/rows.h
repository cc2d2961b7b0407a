// Layer normalisation, Softmax and LogSoftmax on f32.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_norm(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_layer_norm(const KernelNode& node);  // LayerNormalization, tenon.LayerNorm
Result<std::unique_ptr<Kernel>> create_softmax(const KernelNode& node);     // Softmax, LogSoftmax; all versions

}  // namespace tenon::cpu::nn
