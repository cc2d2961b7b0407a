// Matrix products, attention, norms, softmax, elementwise operators and data movement, best first.
#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/kernels/nn_matmul.h"

namespace tenon::cpu {

namespace {

constexpr KernelEntry kNnKernels[] = {
    {"tenon", "MatMul", 1, kAnyVersion, "gemm", &match_matmul, &create_fused_matmul},
    {"", "MatMul", 1, kAnyVersion, "gemm", &match_matmul, &create_matmul},
    {"", "Gemm", 7, kAnyVersion, "gemm", &match_matmul, &create_gemm},
};

}  // namespace

std::span<const KernelEntry> nn_kernels() { return kNnKernels; }

}  // namespace tenon::cpu
