// Convolution, pooling, resize, and what else works on the blocked layout, best first.
#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/conv/channel_rows.h"
#include "ep/cpu/ops/conv/plain.h"
#include "ep/cpu/ops/elementwise/rows.h"
#include "ep/cpu/ops/pool/rows.h"
#include "ep/cpu/ops/quantize/byte_rows.h"
#include "ep/cpu/ops/quantize/rows.h"
#include "ep/cpu/ops/resize/rows.h"

namespace tenon::cpu {

namespace {

constexpr KernelEntry kRows[] = {
    {"", "Conv", 1, kAnyVersion, "conv_depthwise", &match_conv_depthwise, &create_conv_depthwise},
    {"", "Conv", 1, kAnyVersion, "conv_winograd", &match_conv_winograd, &create_conv_winograd},
    {"", "Conv", 1, kAnyVersion, "conv_direct", &match_conv_direct, &create_conv_direct},
    {"", "Conv", 1, kAnyVersion, "conv_few", &match_conv_few, &create_conv_few},
    {"", "Conv", 1, kAnyVersion, "conv_few_plain", &match_conv_few_plain, &create_conv_few_plain},
    {"tenon", "Conv", 1, kAnyVersion, "conv_depthwise", &match_conv_depthwise, &create_conv_depthwise},
    {"tenon", "Conv", 1, kAnyVersion, "conv_winograd", &match_conv_winograd, &create_conv_winograd},
    {"tenon", "Conv", 1, kAnyVersion, "conv_direct", &match_conv_direct, &create_conv_direct},
    {"tenon", "Conv", 1, kAnyVersion, "conv_few", &match_conv_few, &create_conv_few},
    {"tenon", "Conv", 1, kAnyVersion, "conv_few_plain", &match_conv_few_plain, &create_conv_few_plain},
    {"", "ConvTranspose", 1, kAnyVersion, "conv_transpose", &match_conv_transpose, &create_conv_transpose},
    {"", "ConvTranspose", 1, kAnyVersion, "conv_few", &match_conv_transpose_few, &create_conv_few},
    {"tenon", "ConvTranspose", 1, kAnyVersion, "conv_transpose", &match_conv_transpose, &create_conv_transpose},
    {"tenon", "ConvTranspose", 1, kAnyVersion, "conv_few", &match_conv_transpose_few, &create_conv_few},
    {"", "ConvTranspose", 1, kAnyVersion, "conv_transpose_rows", &nn::match_plain_conv, &nn::create_channel_rows},
    {"tenon", "ConvTranspose", 1, kAnyVersion, "conv_transpose_rows", &nn::match_plain_conv, &nn::create_channel_rows},
    {"", "ConvTranspose", 1, kAnyVersion, "conv_transpose_columns", &match_transpose_columns,
     &create_transpose_columns},
    {"tenon", "ConvTranspose", 1, kAnyVersion, "conv_transpose_columns", &match_transpose_columns,
     &create_transpose_columns},
    {"", "MaxPool", 1, kAnyVersion, "window_pool", &match_window_pool, &create_window_pool},
    {"", "AveragePool", 1, kAnyVersion, "window_pool", &match_window_pool, &create_window_pool},
    {"", "GlobalAveragePool", 1, kAnyVersion, "global_pool", &match_global_pool, &create_global_pool},
    {"", "GlobalMaxPool", 1, kAnyVersion, "global_pool", &match_global_pool, &create_global_pool},
    {"", "ReduceMean", 1, kAnyVersion, "global_pool", &match_global_pool, &create_global_pool},
    {"", "ReduceMax", 1, kAnyVersion, "global_pool", &match_global_pool, &create_global_pool},
    {"", "ReduceSum", 1, kAnyVersion, "global_pool", &match_global_pool, &create_global_pool},
    {"", "Resize", 10, kAnyVersion, "resize_nearest", &match_resize_copy, &create_resize_copy},
    {"", "Resize", 10, kAnyVersion, "resize", &match_resize_mix, &create_resize_mix},
    {"", "Upsample", 7, kAnyVersion, "resize_nearest", &match_resize_copy, &create_resize_copy},
    {"", "Upsample", 7, kAnyVersion, "resize", &match_resize_mix, &create_resize_mix},
    {"", "Add", 7, kAnyVersion, "blocked_binary", &match_blocked_binary, &create_blocked_binary},
    {"", "Sub", 7, kAnyVersion, "blocked_binary", &match_blocked_binary, &create_blocked_binary},
    {"", "Mul", 7, kAnyVersion, "blocked_binary", &match_blocked_binary, &create_blocked_binary},
    {"", "Div", 7, kAnyVersion, "blocked_binary", &match_blocked_binary, &create_blocked_binary},
    {"", "Min", 8, kAnyVersion, "blocked_binary", &match_blocked_binary, &create_blocked_binary},
    {"", "Max", 8, kAnyVersion, "blocked_binary", &match_blocked_binary, &create_blocked_binary},
    {"", "PRelu", 7, kAnyVersion, "blocked_binary", &match_blocked_binary, &create_blocked_binary},
    {"tenon", "Activation", 1, kAnyVersion, "blocked_activation", &match_blocked_activation,
     &create_blocked_activation},
    {"", "Relu", 1, kAnyVersion, "blocked_activation", &match_blocked_activation, &create_blocked_activation},
    {"", "LeakyRelu", 1, kAnyVersion, "blocked_activation", &match_blocked_activation, &create_blocked_activation},
    {"", "Sigmoid", 1, kAnyVersion, "blocked_activation", &match_blocked_activation, &create_blocked_activation},
    {"", "Tanh", 1, kAnyVersion, "blocked_activation", &match_blocked_activation, &create_blocked_activation},
    {"", "HardSigmoid", 1, kAnyVersion, "blocked_activation", &match_blocked_activation, &create_blocked_activation},
    {"", "HardSwish", 14, kAnyVersion, "blocked_activation", &match_blocked_activation, &create_blocked_activation},
    {"", "Gelu", 20, kAnyVersion, "blocked_activation", &match_blocked_activation, &create_blocked_activation},
    {"", "Clip", 6, kAnyVersion, "blocked_activation", &match_blocked_activation, &create_blocked_activation},
    {"", "Abs", 6, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Celu", 12, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Ceil", 6, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Cos", 7, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Elu", 6, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Erf", 9, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Exp", 6, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Floor", 6, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Log", 6, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Mish", 18, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Neg", 6, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Reciprocal", 6, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Round", 11, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Selu", 6, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Shrink", 9, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Sign", 9, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Sin", 7, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Softplus", 1, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Softsign", 1, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Sqrt", 6, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "Swish", 24, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"", "ThresholdedRelu", 10, kAnyVersion, "elementwise", &nn::match_unary, &nn::create_unary},
    {"tenon", "Reorder", 1, kAnyVersion, "reorder", &match_reorder, &create_reorder},
    {"", "Concat", 4, kAnyVersion, "blocked_concat", &match_blocked_concat, &create_blocked_concat},
    {"", "Split", 2, kAnyVersion, "blocked_split", &match_blocked_split, &create_blocked_split},
    {"", "GroupNormalization", 18, kAnyVersion, "blocked_group_norm", &match_blocked_group_norm,
     &create_blocked_group_norm},
    {"", "InstanceNormalization", 6, kAnyVersion, "blocked_group_norm", &match_blocked_group_norm,
     &create_blocked_group_norm},
    {"", "Pad", 2, kAnyVersion, "blocked_pad", &match_blocked_pad, &create_blocked_pad},
    {"", "Slice", 1, kAnyVersion, "blocked_slice", &match_blocked_slice, &create_blocked_slice},
    // Of bytes, in either layout.
    {"", "QuantizeLinear", 10, kAnyVersion, "quantize", &nn::match_quantize, &nn::create_quantize},
    {"com.microsoft", "QuantizeLinear", 1, kAnyVersion, "quantize", &nn::match_quantize, &nn::create_quantize},
    {"", "DequantizeLinear", 10, kAnyVersion, "quantize", &nn::match_quantize, &nn::create_dequantize},
    {"com.microsoft", "DequantizeLinear", 1, kAnyVersion, "quantize", &nn::match_quantize, &nn::create_dequantize},
    {"", "DynamicQuantizeLinear", 11, kAnyVersion, "quantize", &nn::match_dynamic_quantize,
     &nn::create_dynamic_quantize},
    {"tenon", "LookupBytes", 1, kAnyVersion, "lookup bytes", &nn::match_lookup_bytes, &nn::create_lookup_bytes},
    {"com.microsoft", "QLinearAveragePool", 1, kAnyVersion, "pool int8", &nn::match_byte_pool, &nn::create_byte_pool},
    {"com.microsoft", "QLinearAdd", 1, kAnyVersion, "elementwise int8", &nn::match_byte_binary,
     &nn::create_byte_binary},
    {"com.microsoft", "QLinearMul", 1, kAnyVersion, "elementwise int8", &nn::match_byte_binary,
     &nn::create_byte_binary},
    {"", "Resize", 10, kAnyVersion, "resize", &match_resize_bytes, &create_resize_bytes},
    {"", "Upsample", 7, kAnyVersion, "resize", &match_resize_bytes, &create_resize_bytes},
    {"", "MaxPool", 1, kAnyVersion, "pool", &nn::match_byte_max_pool, &nn::create_plain_pool},
    {"com.microsoft", "QLinearGlobalAveragePool", 1, kAnyVersion, "global_pool int8", &nn::match_byte_global_pool,
     &nn::create_byte_global_pool},
    {"com.microsoft", "QLinearSigmoid", 1, kAnyVersion, "lookup int8", &nn::match_byte_table, &nn::create_byte_table},
    {"com.microsoft", "QLinearLeakyRelu", 1, kAnyVersion, "lookup int8", &nn::match_byte_table, &nn::create_byte_table},
    {"com.microsoft", "QLinearConcat", 1, kAnyVersion, "concat int8", &nn::match_byte_concat, &nn::create_byte_concat},
};

}  // namespace

std::span<const KernelEntry> blocked_kernels() { return kRows; }

}  // namespace tenon::cpu
