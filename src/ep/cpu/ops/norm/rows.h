// Normalisations, Softmax, LogSoftmax and Hardmax of float32, float16 and bfloat16.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_norm(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_layer_norm(const KernelNode& node);  // LayerNormalization, tenon.LayerNorm
Result<std::unique_ptr<Kernel>> create_softmax(const KernelNode& node);     // Softmax, LogSoftmax; all versions

// LpNormalization and Hardmax.
Status match_lp_norm(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_lp_norm(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_hardmax(const KernelNode& node);

// InstanceNormalization and GroupNormalization.
Status match_group_norm(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_group_norm(const KernelNode& node);

// MeanVarianceNormalization.
Status match_mean_variance(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_mean_variance(const KernelNode& node);

}  // namespace tenon::cpu::nn
