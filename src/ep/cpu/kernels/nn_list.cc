// Matrix products, attention, norms, softmax, elementwise operators and data movement, best first.
#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/kernels/nn_attention.h"
#include "ep/cpu/kernels/nn_eltwise.h"
#include "ep/cpu/kernels/nn_matmul.h"
#include "ep/cpu/kernels/nn_move.h"
#include "ep/cpu/kernels/nn_norm.h"
#include "ep/cpu/kernels/nn_reduce.h"

namespace tenon::cpu {

namespace {

using namespace nn;  // NOLINT(google-build-using-namespace)

constexpr KernelEntry kNnKernels[] = {
    {"tenon", "MatMul", 1, kAnyVersion, "gemm", &match_matmul, &create_matmul},
    {"", "MatMul", 1, kAnyVersion, "gemm", &match_matmul, &create_matmul},
    {"", "Gemm", 7, kAnyVersion, "gemm", &match_matmul, &create_matmul},
    {"tenon", "Attention", 1, kAnyVersion, "attention", &match_attention, &create_attention},
    {"tenon", "PackedAttention", 1, kAnyVersion, "attention", &match_attention, &create_attention},
    {"tenon", "LayerNorm", 1, kAnyVersion, "layer_norm", &match_norm, &create_layer_norm},
    {"", "LayerNormalization", 17, kAnyVersion, "layer_norm", &match_norm, &create_layer_normalization},
    {"", "Softmax", 13, kAnyVersion, "softmax", &match_norm, &create_softmax},
    {"", "Softmax", 1, 12, "softmax", &match_norm, &create_flat_softmax},
    {"", "LogSoftmax", 13, kAnyVersion, "softmax", &match_norm, &create_log_softmax},
    {"", "LogSoftmax", 1, 12, "softmax", &match_norm, &create_flat_log_softmax},
    {"tenon", "Activation", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Abs", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Ceil", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Elu", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Erf", 9, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Exp", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Floor", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Gelu", 20, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "HardSigmoid", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "HardSwish", 14, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "LeakyRelu", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Log", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Mish", 18, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Neg", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Reciprocal", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Relu", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Round", 11, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Selu", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Sigmoid", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Sign", 9, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Softplus", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Softsign", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Sqrt", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Tanh", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "ThresholdedRelu", 10, kAnyVersion, "elementwise", &match_unary, &create_unary},
    {"", "Clip", 1, 6, "elementwise", &match_unary, &create_unary},
    {"", "Clip", 11, kAnyVersion, "elementwise", &match_clip, &create_clip},
    {"", "Add", 7, kAnyVersion, "elementwise", &match_binary, &create_binary},
    {"", "Sub", 7, kAnyVersion, "elementwise", &match_binary, &create_binary},
    {"", "Mul", 7, kAnyVersion, "elementwise", &match_binary, &create_binary},
    {"", "Div", 7, kAnyVersion, "elementwise", &match_binary, &create_binary},
    {"", "Max", 8, kAnyVersion, "elementwise", &match_binary, &create_binary},
    {"", "Min", 8, kAnyVersion, "elementwise", &match_binary, &create_binary},
    {"", "Sum", 8, kAnyVersion, "elementwise", &match_binary, &create_binary},
    {"", "PRelu", 9, kAnyVersion, "elementwise", &match_binary, &create_binary},
    {"", "Pow", 7, kAnyVersion, "elementwise", &match_power, &create_power},
    {"", "Where", 9, kAnyVersion, "elementwise", &match_where, &create_where},
    {"", "Cast", 6, kAnyVersion, "cast", &match_cast, &create_cast},
    {"", "Transpose", 1, kAnyVersion, "copy", &match_move, &create_transpose},
    {"", "Expand", 8, kAnyVersion, "copy", &match_move, &create_expand},
    {"", "Split", 2, kAnyVersion, "copy", &match_move, &create_split},
    {"", "Concat", 4, kAnyVersion, "copy", &match_move, &create_concat},
    {"", "Slice", 1, kAnyVersion, "copy", &match_slice, &create_slice},
    {"", "Gather", 1, kAnyVersion, "gather", &match_gather, &create_gather},
    {"tenon", "LookupOrDefault", 1, kAnyVersion, "gather", &match_gather, &create_lookup_or_default},
    {"", "ReduceSum", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceMean", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceMax", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceMin", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceSumSquare", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceL2", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceL1", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "GlobalAveragePool", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "GlobalMaxPool", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
};

}  // namespace

std::span<const KernelEntry> nn_kernels() { return kNnKernels; }

}  // namespace tenon::cpu
