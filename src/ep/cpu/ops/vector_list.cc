// Matrix products, attention, norms, softmax, elementwise operators and data movement, best first.
#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/ops/attention/rows.h"
#include "ep/cpu/ops/conv/integer.h"
#include "ep/cpu/ops/elementwise/rows.h"
#include "ep/cpu/ops/matmul/integer_product.h"
#include "ep/cpu/ops/matmul/rows.h"
#include "ep/cpu/ops/moves/rows.h"
#include "ep/cpu/ops/norm/rows.h"
#include "ep/cpu/ops/quantize/rows.h"
#include "ep/cpu/ops/recurrent/rows.h"
#include "ep/cpu/ops/reduce/rows.h"
#include "ep/cpu/ops/resize/rows.h"
#include "ops/unary.h"

namespace tenon::cpu {

namespace {

using namespace nn;  // NOLINT(google-build-using-namespace)

constexpr KernelEntry kRows[] = {
    {"tenon", "MatMul", 1, kAnyVersion, "gemm", &match_matmul, &create_matmul},
    {"", "MatMul", 1, kAnyVersion, "gemm", &match_matmul, &create_matmul},
    {"", "Gemm", 7, kAnyVersion, "gemm", &match_matmul, &create_matmul},
    {"", "MatMulInteger", 10, kAnyVersion, "gemm int8", &match_matmul_integer, &create_matmul_integer},
    {"", "QLinearMatMul", 10, kAnyVersion, "gemm int8", &match_matmul_integer, &create_matmul_integer},
    {"", "QuantizeLinear", 10, kAnyVersion, "quantize", &match_quantize, &create_quantize},
    {"", "DequantizeLinear", 10, kAnyVersion, "quantize", &match_quantize, &create_dequantize},
    {"", "DynamicQuantizeLinear", 11, kAnyVersion, "quantize", &match_dynamic_quantize, &create_dynamic_quantize},
    {"tenon", "LookupBytes", 1, kAnyVersion, "lookup bytes", &match_lookup_bytes, &create_lookup_bytes},
    {"tenon", "QuantizedSoftmax", 1, kAnyVersion, "softmax int8", &match_quantized_softmax, &create_quantized_softmax},
    {"tenon", "QuantizedMatMul", 1, kAnyVersion, "gemm int8", &match_matmul_integer, &create_matmul_integer},
    {"tenon", "QuantizedConv", 1, kAnyVersion, "conv int8", &match_conv_integer, &create_conv_integer},
    {"", "ConvInteger", 10, kAnyVersion, "conv int8", &match_conv_integer, &create_conv_integer},
    {"", "QLinearConv", 10, kAnyVersion, "conv int8", &match_conv_integer, &create_conv_integer},
    {"tenon", "Attention", 1, kAnyVersion, "attention", &match_attention, &create_attention},
    {"tenon", "PackedAttention", 1, kAnyVersion, "attention", &match_attention, &create_attention},
    {"tenon", "LayerNorm", 1, kAnyVersion, "layer_norm", &match_norm, &create_layer_norm},
    {"", "LayerNormalization", 17, kAnyVersion, "layer_norm", &match_norm, &create_layer_norm},
    {"", "Softmax", 1, kAnyVersion, "softmax", &match_norm, &create_softmax},
    {"tenon", "GuardedSoftmax", 1, kAnyVersion, "softmax", &match_norm, &create_softmax},
    {"", "LogSoftmax", 1, kAnyVersion, "softmax", &match_norm, &create_softmax},
    {"tenon", "Activation", 1, kAnyVersion, "elementwise", &match_unary, &create_unary},
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
    {"", "Cast", 6, kAnyVersion, "cast", &match_cast, &create_cast},
    {"", "Transpose", 1, kAnyVersion, "copy", &match_move, &create_transpose},
    {"", "Expand", 8, kAnyVersion, "copy", &match_move, &create_expand},
    {"", "Split", 2, kAnyVersion, "copy", &match_move, &create_split},
    {"", "Concat", 4, kAnyVersion, "copy", &match_move, &create_concat},
    {"", "Slice", 1, kAnyVersion, "copy", &match_slice, &create_slice},
    {"", "Gather", 1, kAnyVersion, "gather", &match_gather, &create_gather},
    {"tenon", "LookupOrDefault", 1, kAnyVersion, "gather", &match_gather, &create_lookup_or_default},
    {"", "LSTM", 7, kAnyVersion, "recurrent", &match_recurrent, &create_recurrent},
    {"", "GRU", 7, kAnyVersion, "recurrent", &match_recurrent, &create_recurrent},
    {"", "RNN", 7, kAnyVersion, "recurrent", &match_recurrent, &create_recurrent},
    {"", "Resize", 10, kAnyVersion, "resize", &match_resize_bytes, &create_resize_bytes},
    {"", "Upsample", 7, kAnyVersion, "resize", &match_resize_bytes, &create_resize_bytes},
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

std::span<const KernelEntry> vector_kernels() {
  static const std::vector<KernelEntry> kAll = [] {
    std::vector<KernelEntry> all(std::begin(kRows), std::end(kRows));
    for (const UnaryRow& row : unary_rows()) {
      if (!row.has_vector_loop() || row.operator_name.empty()) continue;
      // Later versions of Clip have their bounds as inputs (create_clip).
      const int until = row.function == Unary::kClip ? 6 : kAnyVersion;
      all.push_back({"", row.operator_name, row.since, until, "elementwise", &match_unary, &create_unary});
    }
    return all;
  }();
  return kAll;
}

}  // namespace tenon::cpu
