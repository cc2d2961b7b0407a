// Elementwise operators and those that keep the shape of their first input.
#include <utility>

#include "base/status.h"
#include "graph/shape_inference_context.h"

namespace tenon::infer {
namespace {

Status infer_same(Context& c) { return c.copy(0); }

// The output has the scale's type.
Status infer_rms_normalization(Context& c) {
  TENON_TRY(c.copy(0));
  c.set_type(0, c.type(1));
  return {};
}

Status infer_same_as_bool(Context& c) {
  TENON_TRY(c.copy(0));
  c.set_type(0, DataType::kBool);
  return {};
}

// Output 0 is the broadcast of all inputs; its type is that of input `type_input`.
Status infer_broadcast(Context& c, size_t type_input) {
  c.set_type(0, c.type(type_input));
  Dims dims;
  for (size_t i = 0; i < c.node().inputs.size(); ++i) {
    if (!c.has(i)) continue;
    if (!c.ranked(i)) return {};
    if (i == 0) {
      dims = c.dims(0);
    } else {
      TENON_TRY_ASSIGN(dims, broadcast(dims, c.dims(i)));
    }
  }
  return c.set_dims(0, std::move(dims));
}

Status infer_arithmetic(Context& c) { return infer_broadcast(c, 0); }
Status infer_where(Context& c) { return infer_broadcast(c, 1); }
Status infer_compare(Context& c) {
  TENON_TRY(infer_broadcast(c, 0));
  c.set_type(0, DataType::kBool);
  return {};
}

Status infer_cast(Context& c) {
  TENON_TRY(c.copy(0));
  int64_t to = c.node().int_or("to", 0);
  TENON_INVALID_IF(data_type_name(static_cast<DataType>(to)) == "undefined",
                   "Attribute \"to\" ({}) is no element type.", to);
  c.set_type(0, static_cast<DataType>(to));
  return {};
}

Status infer_cast_like(Context& c) {
  TENON_TRY(c.copy(0));
  c.set_type(0, c.type(1));
  return {};
}

// Softmax and its kin, LpNormalization, CumSum's axis is an input.
Status infer_along_axis(Context& c) {
  if (c.ranked(0) && c.rank(0) > 0) {
    TENON_TRY(
        c.axis_attribute(c.node().op_type == "LpNormalization" || c.version() >= 13 ? -1 : 1, c.rank(0)).status());
  }
  return c.copy(0);
}

Status infer_dropout(Context& c) {
  TENON_TRY(c.copy(0, 0));
  TENON_TRY(c.copy(0, 1));
  c.set_type(1, c.version() >= 10 ? DataType::kBool : c.type(0));
  return {};
}

// X, then `first`.. are per-channel vectors of length C.
Status check_channels(const Context& c, size_t first) {
  if (!c.ranked(0)) return {};
  TENON_INVALID_IF(c.rank(0) < 1, "Input 0 has shape []; it needs a channel dimension.");
  const Dim channels = c.rank(0) >= 2 ? c.dims(0)[1] : number(1);
  for (size_t i = first; i < c.node().inputs.size(); ++i) {
    if (!c.ranked(i)) continue;
    TENON_TRY(c.require_rank(i, 1, "one value a channel"));
    const Dim& length = c.dims(i)[0];
    TENON_INVALID_IF(channels.known() && length.known() && channels.value != length.value,
                     "Input {} has {} elements, but X {} has {} channels.", i, length.value, text(c.dims(0)),
                     channels.value);
  }
  return {};
}

Status infer_batch_normalization(Context& c) {
  TENON_TRY(check_channels(c, 1));
  TENON_TRY(c.copy(0));
  for (size_t i = 1; i < c.node().outputs.size() && i < 5; ++i) TENON_TRY(c.copy(c.version() >= 14 ? i + 2 : i, i));
  return {};
}

Status infer_instance_normalization(Context& c) {
  TENON_TRY(check_channels(c, 1));
  return c.copy(0);
}

Status infer_layer_normalization(Context& c) {
  TENON_TRY(c.copy(0));
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(int64_t axis, c.axis_attribute(-1, c.rank(0)));
  for (size_t i = 1; i < c.node().inputs.size() && i < 3; ++i) {
    if (!c.ranked(i)) continue;
    TENON_TRY_ASSIGN(Dims dims, broadcast(c.dims(0), c.dims(i)));
    for (size_t d = 0; d < dims.size(); ++d)
      TENON_INVALID_IF(dims.size() != c.dims(0).size() || certainly_differ(dims[d], c.dims(0)[d]),
                       "Input {} of shape {} does not broadcast to X {}.", i, text(c.dims(i)), text(c.dims(0)));
  }
  Dims reduced = c.dims(0);
  for (size_t i = static_cast<size_t>(axis); i < reduced.size(); ++i) reduced[i] = number(1);
  for (size_t i = 1; i < 3; ++i) {
    c.set_type(i, DataType::kFloat);
    TENON_TRY(c.set_dims(i, reduced));
  }
  return {};
}

Status infer_like_with_dtype(Context& c) {
  TENON_TRY(c.copy(0));
  if (const Attribute* dtype = c.node().find("dtype")) c.set_type(0, static_cast<DataType>(dtype->i));
  return {};
}

Status infer_dequantize(Context& c) {
  TENON_TRY(c.copy(0));
  int64_t type = c.node().int_or("output_dtype", 0);
  c.set_type(0, type != 0 ? static_cast<DataType>(type) : c.type(1));
  return {};
}

Status infer_quantize(Context& c) {
  TENON_TRY(c.copy(0));
  int64_t type = c.node().int_or("output_dtype", 0);
  c.set_type(0, c.has(2) ? c.type(2) : type != 0 ? static_cast<DataType>(type) : DataType::kUint8);
  return {};
}

Status infer_dynamic_quantize(Context& c) {
  TENON_TRY(c.copy(0));
  c.set_type(0, DataType::kUint8);
  c.set_type(1, DataType::kFloat);
  c.set_type(2, DataType::kUint8);
  TENON_TRY(c.set_dims(1, {}));
  return c.set_dims(2, {});
}

constexpr Row kRows[] = {
    {"Abs", &infer_same},
    {"Acos", &infer_same},
    {"Acosh", &infer_same},
    {"Add", &infer_arithmetic},
    {"And", &infer_compare},
    {"Asin", &infer_same},
    {"Asinh", &infer_same},
    {"Atan", &infer_same},
    {"Atanh", &infer_same},
    {"BatchNormalization", &infer_batch_normalization},
    {"Bernoulli", &infer_like_with_dtype},
    {"BitCast", &infer_cast},
    {"BitShift", &infer_arithmetic},
    {"BitwiseAnd", &infer_arithmetic},
    {"BitwiseNot", &infer_same},
    {"BitwiseOr", &infer_arithmetic},
    {"BitwiseXor", &infer_arithmetic},
    {"Cast", &infer_cast},
    {"CastLike", &infer_cast_like},
    {"Ceil", &infer_same},
    {"Celu", &infer_same},
    {"Clip", &infer_same},
    {"Cos", &infer_same},
    {"Cosh", &infer_same},
    {"CumSum", &infer_same},
    {"CumProd", &infer_same},
    {"DequantizeLinear", &infer_dequantize},
    {"Div", &infer_arithmetic},
    {"Dropout", &infer_dropout},
    {"DynamicQuantizeLinear", &infer_dynamic_quantize},
    {"Elu", &infer_same},
    {"Equal", &infer_compare},
    {"Erf", &infer_same},
    {"Exp", &infer_same},
    {"EyeLike", &infer_like_with_dtype},
    {"Floor", &infer_same},
    {"Gelu", &infer_same},
    {"Greater", &infer_compare},
    {"GreaterOrEqual", &infer_compare},
    {"GroupNormalization", &infer_same},
    {"HardSigmoid", &infer_same},
    {"HardSwish", &infer_same},
    {"Hardmax", &infer_along_axis},
    {"Identity", &infer_same},
    {"InstanceNormalization", &infer_instance_normalization},
    {"IsInf", &infer_same_as_bool},
    {"IsNaN", &infer_same_as_bool},
    {"LRN", &infer_same},
    {"LayerNormalization", &infer_layer_normalization},
    {"LeakyRelu", &infer_same},
    {"Less", &infer_compare},
    {"LessOrEqual", &infer_compare},
    {"Log", &infer_same},
    {"LogSoftmax", &infer_along_axis},
    {"LpNormalization", &infer_along_axis},
    {"Max", &infer_arithmetic},
    {"Mean", &infer_arithmetic},
    {"MeanVarianceNormalization", &infer_same},
    {"Min", &infer_arithmetic},
    {"Mish", &infer_same},
    {"Mod", &infer_arithmetic},
    {"Mul", &infer_arithmetic},
    {"Neg", &infer_same},
    {"Not", &infer_same_as_bool},
    {"Or", &infer_compare},
    {"PRelu", &infer_arithmetic},
    {"Pow", &infer_arithmetic},
    {"QuantizeLinear", &infer_quantize},
    {"RMSNormalization", &infer_rms_normalization},
    {"RandomNormalLike", &infer_like_with_dtype},
    {"RandomUniformLike", &infer_like_with_dtype},
    {"Reciprocal", &infer_same},
    {"Relu", &infer_same},
    {"ReverseSequence", &infer_same},
    {"Round", &infer_same},
    {"Scatter", &infer_same},
    {"ScatterElements", &infer_same},
    {"ScatterND", &infer_same},
    {"Selu", &infer_same},
    {"Shrink", &infer_same},
    {"Sigmoid", &infer_same},
    {"Sign", &infer_same},
    {"Sin", &infer_same},
    {"Sinh", &infer_same},
    {"Softmax", &infer_along_axis},
    {"Softplus", &infer_same},
    {"Softsign", &infer_same},
    {"Sqrt", &infer_same},
    {"Sub", &infer_arithmetic},
    {"Sum", &infer_arithmetic},
    {"Swish", &infer_same},
    {"Tan", &infer_same},
    {"Tanh", &infer_same},
    {"ThresholdedRelu", &infer_same},
    {"Trilu", &infer_same},
    {"Where", &infer_where},
    {"Xor", &infer_compare},
};

}  // namespace

std::span<const Row> elementwise_rows() { return kRows; }

}  // namespace tenon::infer
