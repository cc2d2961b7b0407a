// Matrix products, attention, norms, softmax, elementwise operators and data movement, best first.
#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/kernels/nn_attention.h"
#include "ep/cpu/kernels/nn_matmul.h"
#include "ep/cpu/kernels/nn_norm.h"

namespace tenon::cpu {

namespace {

constexpr KernelEntry kNnKernels[] = {
    {"tenon", "MatMul", 1, kAnyVersion, "gemm", &match_matmul, &create_fused_matmul},
    {"", "MatMul", 1, kAnyVersion, "gemm", &match_matmul, &create_matmul},
    {"", "Gemm", 7, kAnyVersion, "gemm", &match_matmul, &create_gemm},
    {"tenon", "Attention", 1, kAnyVersion, "attention", &match_attention, &create_attention},
    {"tenon", "PackedAttention", 1, kAnyVersion, "attention", &match_attention, &create_packed_attention},
    {"tenon", "LayerNorm", 1, kAnyVersion, "layer_norm", &match_norm, &create_layer_norm},
    {"", "LayerNormalization", 17, kAnyVersion, "layer_norm", &match_norm, &create_layer_normalization},
    {"", "Softmax", 13, kAnyVersion, "softmax", &match_norm, &create_softmax},
    {"", "Softmax", 1, 12, "softmax", &match_norm, &create_flat_softmax},
    {"", "LogSoftmax", 13, kAnyVersion, "softmax", &match_norm, &create_log_softmax},
    {"", "LogSoftmax", 1, 12, "softmax", &match_norm, &create_flat_log_softmax},
};

}  // namespace

std::span<const KernelEntry> nn_kernels() { return kNnKernels; }

}  // namespace tenon::cpu
