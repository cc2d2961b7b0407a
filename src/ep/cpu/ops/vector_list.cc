// Matrix products, attention, norms, softmax, elementwise operators and data movement, best first.
#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/ops/attention/rows.h"
#include "ep/cpu/ops/attention/state_rows.h"
#include "ep/cpu/ops/contrib/experts_rows.h"
#include "ep/cpu/ops/conv/channel_rows.h"
#include "ep/cpu/ops/conv/columns.h"
#include "ep/cpu/ops/conv/integer.h"
#include "ep/cpu/ops/conv/plain.h"
#include "ep/cpu/ops/elementwise/rows.h"
#include "ep/cpu/ops/matmul/integer_float_rows.h"
#include "ep/cpu/ops/matmul/integer_product.h"
#include "ep/cpu/ops/matmul/other.h"
#include "ep/cpu/ops/matmul/rows.h"
#include "ep/cpu/ops/moves/rows.h"
#include "ep/cpu/ops/narrow/operands.h"
#include "ep/cpu/ops/norm/rows.h"
#include "ep/cpu/ops/pool/rows.h"
#include "ep/cpu/ops/quantize/nbits8_rows.h"
#include "ep/cpu/ops/quantize/nbits_rows.h"
#include "ep/cpu/ops/quantize/rows.h"
#include "ep/cpu/ops/recurrent/quantized_rows.h"
#include "ep/cpu/ops/recurrent/rows.h"
#include "ep/cpu/ops/reduce/rows.h"
#include "ep/cpu/ops/resize/rows.h"
#include "ep/cpu/ops/sample/rows.h"
#include "ops/unary.h"

namespace tenon::cpu {

namespace {

using namespace nn;  // NOLINT(google-build-using-namespace)

constexpr KernelEntry kRows[] = {
    {"tenon", "MatMul", 1, kAnyVersion, "gemm", &match_matmul, &create_matmul},
    {"", "MatMul", 1, kAnyVersion, "gemm", &match_matmul, &create_matmul},
    {"", "Gemm", 7, kAnyVersion, "gemm", &match_matmul, &create_matmul},
    {"", "MatMul", 1, kAnyVersion, "gemm wide", &match_other_matmul, &create_other_matmul},
    {"", "Gemm", 7, kAnyVersion, "gemm wide", &match_other_matmul, &create_other_matmul},
    {"", "MatMulInteger", 10, kAnyVersion, "gemm int8", &match_matmul_integer, &create_matmul_integer},
    {"", "QLinearMatMul", 10, kAnyVersion, "gemm int8", &match_matmul_integer, &create_matmul_integer},
    {"tenon", "QuantizedSoftmax", 1, kAnyVersion, "softmax int8", &match_quantized_softmax, &create_quantized_softmax},
    {"tenon", "QuantizedMatMul", 1, kAnyVersion, "gemm int8", &match_matmul_integer, &create_matmul_integer},
    {"tenon", "QuantizedConv", 1, kAnyVersion, "conv int8", &match_conv_integer, &create_conv_integer},
    {"", "Conv", 1, kAnyVersion, "conv_rows", &match_plain_conv, &create_channel_rows},
    {"tenon", "Conv", 1, kAnyVersion, "conv_rows", &match_plain_conv, &create_channel_rows},
    {"", "Conv", 1, kAnyVersion, "conv columns", &match_plain_conv, &create_conv_columns},
    {"tenon", "Conv", 1, kAnyVersion, "conv columns", &match_plain_conv, &create_conv_columns},
    {"", "ConvInteger", 10, kAnyVersion, "conv int8", &match_conv_integer, &create_conv_integer},
    {"", "QLinearConv", 10, kAnyVersion, "conv int8", &match_conv_integer, &create_conv_integer},
    {"com.microsoft", "MatMulNBits", 1, kAnyVersion, "nbits int8", &match_nbits8, &create_nbits8},
    {"com.microsoft", "MatMulNBits", 1, kAnyVersion, "nbits", &match_nbits, &create_nbits},
    {"com.microsoft", "MoE", 1, kAnyVersion, "experts", &match_packed_experts, &create_packed_experts},
    {"com.microsoft", "QMoE", 1, kAnyVersion, "experts", &match_packed_experts, &create_packed_experts},
    {"com.microsoft", "MatMulIntegerToFloat", 1, kAnyVersion, "gemm int8", &match_integer_float, &create_integer_float},
    {"com.microsoft", "DynamicQuantizeMatMul", 1, kAnyVersion, "gemm int8", &match_integer_float,
     &create_integer_float},
    {"com.microsoft", "QGemm", 1, kAnyVersion, "gemm int8", &match_integer_float, &create_integer_float},
    {"com.microsoft", "DynamicQuantizeLSTM", 1, kAnyVersion, "lstm int8", &match_quantized_lstm,
     &create_quantized_lstm},
    {"com.microsoft", "QLinearSoftmax", 1, kAnyVersion, "softmax int8", &match_quantized_softmax,
     &create_qlinear_softmax},
    {"com.microsoft", "QLinearConv", 1, kAnyVersion, "conv int8", &match_conv_integer, &create_conv_integer},
    {"tenon", "Attention", 1, kAnyVersion, "attention", &match_attention, &create_attention},
    {"", "Attention", 23, kAnyVersion, "attention", &match_attention, &create_attention},
    {"tenon", "CachedAttention", 1, kAnyVersion, "attention", &match_attention, &create_attention},
    {"tenon", "PackedAttention", 1, kAnyVersion, "attention", &match_attention, &create_attention},
    {"", "LinearAttention", 27, kAnyVersion, "linear attention", &match_linear_attention, &create_linear_attention},
    {"tenon", "LayerNorm", 1, kAnyVersion, "layer_norm", &match_norm, &create_layer_norm},
    {"", "LayerNormalization", 17, kAnyVersion, "layer_norm", &match_norm, &create_layer_norm},
    {"", "RMSNormalization", 23, kAnyVersion, "layer_norm", &match_norm, &create_layer_norm},
    {"", "Softmax", 1, kAnyVersion, "softmax", &match_norm, &create_softmax},
    {"tenon", "GuardedSoftmax", 1, kAnyVersion, "softmax", &match_norm, &create_softmax},
    {"", "LogSoftmax", 1, kAnyVersion, "softmax", &match_norm, &create_softmax},
    {"", "InstanceNormalization", 6, kAnyVersion, "group_norm", &match_group_norm, &create_group_norm},
    {"", "GroupNormalization", 18, kAnyVersion, "group_norm", &match_group_norm, &create_group_norm},
    {"", "Hardmax", 1, kAnyVersion, "hardmax", &match_lp_norm, &create_hardmax},
    {"", "LpNormalization", 1, kAnyVersion, "lp_norm", &match_lp_norm, &create_lp_norm},
    {"", "MeanVarianceNormalization", 9, kAnyVersion, "mean_variance", &match_mean_variance, &create_mean_variance},
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
    {"", "ReduceSum", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceMean", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceMax", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceMin", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceSumSquare", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceL2", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceL1", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceLogSum", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "ReduceLogSumExp", 1, kAnyVersion, "reduce", &match_log_sum_exp, &create_log_sum_exp},
    {"", "ReduceSum", 1, kAnyVersion, "reduce", &match_reduce_integers, &create_reduce_integers},
    {"", "ReduceMean", 1, kAnyVersion, "reduce", &match_reduce_integers, &create_reduce_integers},
    {"", "ReduceMax", 1, kAnyVersion, "reduce", &match_reduce_integers, &create_reduce_integers},
    {"", "ReduceMin", 1, kAnyVersion, "reduce", &match_reduce_integers, &create_reduce_integers},
    {"", "ReduceProd", 1, kAnyVersion, "reduce", &match_reduce_integers, &create_reduce_integers},
    {"", "ReduceSum", 1, kAnyVersion, "reduce", &match_reduce_doubles, &create_reduce_doubles},
    {"", "ReduceMean", 1, kAnyVersion, "reduce", &match_reduce_doubles, &create_reduce_doubles},
    {"", "ReduceMax", 1, kAnyVersion, "reduce", &match_reduce_doubles, &create_reduce_doubles},
    {"", "ReduceMin", 1, kAnyVersion, "reduce", &match_reduce_doubles, &create_reduce_doubles},
    {"", "ReduceSumSquare", 1, kAnyVersion, "reduce", &match_reduce_doubles, &create_reduce_doubles},
    {"", "ReduceL2", 1, kAnyVersion, "reduce", &match_reduce_doubles, &create_reduce_doubles},
    {"", "ReduceL1", 1, kAnyVersion, "reduce", &match_reduce_doubles, &create_reduce_doubles},
    {"", "ReduceLogSum", 1, kAnyVersion, "reduce", &match_reduce_doubles, &create_reduce_doubles},
    {"", "ReduceProd", 1, kAnyVersion, "reduce", &match_reduce_doubles, &create_reduce_doubles},
    {"", "GlobalAveragePool", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "GlobalMaxPool", 1, kAnyVersion, "reduce", &match_reduce, &create_reduce},
    {"", "MaxPool", 1, kAnyVersion, "pool", &match_small_pool, &create_small_pool},
    {"", "MaxPool", 1, kAnyVersion, "pool", &match_plain_pool, &create_plain_pool},
    {"", "MaxPool", 1, kAnyVersion, "pool", &match_pool_places, &create_pool_places},
    {"", "AveragePool", 1, kAnyVersion, "pool", &match_small_pool, &create_small_pool},
    {"", "AveragePool", 1, kAnyVersion, "pool", &match_plain_pool, &create_plain_pool},
    {"", "GridSample", 16, kAnyVersion, "grid_sample", &match_grid_sample, &create_grid_sample},
    {"", "DeformConv", 19, kAnyVersion, "deform_conv", &match_deform_conv, &create_deform_conv},
};

}  // namespace

std::span<const KernelEntry> vector_kernels() {
  static const std::vector<KernelEntry> kAll = [] {
    std::vector<KernelEntry> all;
    all.reserve(std::size(kRows) + unary_rows().size() + narrowed_operators().size());
    all.insert(all.end(), std::begin(kRows), std::end(kRows));
    for (const UnaryRow& row : unary_rows()) {
      if (!row.has_vector_loop() || row.operator_name.empty()) continue;
      // Later versions of Clip have their bounds as inputs (create_clip).
      const int until = row.function == Unary::kClip ? 6 : kAnyVersion;
      all.push_back({"", row.operator_name, row.since, until, "elementwise", &match_unary, &create_unary});
    }
    // Behind the rows that read 16 bits themselves.
    for (const auto& [domain, op_type] : narrowed_operators())
      all.push_back({domain, op_type, 1, kAnyVersion, "narrow", &match_narrow,
                     static_cast<Result<std::unique_ptr<Kernel>> (*)(const KernelNode&)>(&create_narrow)});
    return all;
  }();
  return kAll;
}

}  // namespace tenon::cpu
