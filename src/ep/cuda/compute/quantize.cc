#include "ep/cuda/compute/quantize.h"

#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/lowering.h"
#include "ops/quantize.h"

namespace tenon::cuda {

namespace {

bool is_quantized(DataType type) {
  return type == DataType::kUint8 || type == DataType::kInt8 || type == DataType::kUint16 || type == DataType::kInt16 ||
         type == DataType::kInt32;
}

bool is_scale(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

int32_t integer_at(const Constant& constant, size_t index) {
  switch (constant.type) {
    case DataType::kUint8:
      return constant.as<uint8_t>()[index];
    case DataType::kInt8:
      return constant.as<int8_t>()[index];
    case DataType::kUint16:
      return constant.as<uint16_t>()[index];
    case DataType::kInt16:
      return constant.as<int16_t>()[index];
    default:
      return constant.as<int32_t>()[index];
  }
}

}  // namespace

Result<std::string> quantize_expression(DataType to, bool zero_point) {
  const char *lowest = nullptr, *highest = nullptr;
  switch (to) {
    case DataType::kUint8:
      lowest = "0.0f", highest = "255.0f";
      break;
    case DataType::kInt8:
      lowest = "-128.0f", highest = "127.0f";
      break;
    case DataType::kUint16:
      lowest = "0.0f", highest = "65535.0f";
      break;
    case DataType::kInt16:
      lowest = "-32768.0f", highest = "32767.0f";
      break;
    default:
      return unsupported("Kernels do not quantise to {}.", data_type_name(to));
  }
  // Whole numbers of that size are exact as floats, and what is larger saturates.
  return format("fminf(fmaxf(rintf((float)$0 / $1){}, {}), {})", zero_point ? " + (float)(int)$2" : "", lowest,
                highest);
}

std::string dequantize_expression(DataType from, bool zero_point) {
  if (!zero_point) return "(float)(int)$0 * $1";
  // The difference of two of 32 bits may have 33.
  return from == DataType::kInt32 ? "(float)((long long)$0 - (long long)$2) * $1" : "(float)((int)$0 - (int)$2) * $1";
}

bool can_dequantize_on_host(const Graph& graph, const Node& node) {
  if (node.op_type != "DequantizeLinear" || !node.domain.empty() || node.inputs.size() < 2 || node.outputs.size() != 1)
    return false;
  for (ValueId id : node.inputs)
    if (id != kNoValue && graph.value(id).constant == nullptr) return false;
  if (node.inputs[0] == kNoValue || node.inputs[1] == kNoValue || node.outputs[0] == kNoValue) return false;
  const Constant &x = *graph.value(node.inputs[0]).constant, &scale = *graph.value(node.inputs[1]).constant;
  if (!is_quantized(x.type) || !is_scale(scale.type) || scale.shape.element_count() == 0) return false;
  const DataType made = graph.value(node.outputs[0]).type;
  if (made != DataType::kUndefined && !is_scale(made)) return false;
  if (node.input(2) != kNoValue) {
    const Constant& zero = *graph.value(node.inputs[2]).constant;
    if (zero.type != x.type || zero.shape.element_count() != scale.shape.element_count()) return false;
  }
  return read_quantization(node, x.shape, scale.shape).ok();
}

Result<ConstantRef> dequantize_on_host(const Graph& graph, const Node& node) {
  TENON_UNSUPPORTED_IF(!can_dequantize_on_host(graph, node), "{} is not computed on the host.", node.label(graph));
  const Constant &x = *graph.value(node.inputs[0]).constant, &scale = *graph.value(node.inputs[1]).constant;
  const ConstantRef zero = node.input(2) != kNoValue ? graph.value(node.inputs[2]).constant : nullptr;
  TENON_TRY_ASSIGN(const QuantizationDesc desc, read_quantization(node, x.shape, scale.shape));
  const std::vector<float> scales = floats_of(scale);
  std::vector<float> values(x.shape.element_count());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t at = desc.parameter_of(static_cast<int64_t>(i));
    const int64_t shifted = int64_t{integer_at(x, i)} - (zero != nullptr ? integer_at(*zero, at) : 0);
    values[i] = static_cast<float>(shifted) * scales[at];
  }
  const DataType made = graph.value(node.outputs[0]).type;
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef result, make_constant(made != DataType::kUndefined ? made : scale.type, x.shape, &data));
  store_floats(values, result->type, data);
  return result;
}

Graph with_dequantized_weights(const Graph& graph) {
  Graph folded = graph;
  for (const Node& node : graph.nodes) {
    if (!can_dequantize_on_host(graph, node)) continue;
    if (Result<ConstantRef> weights = dequantize_on_host(graph, node); weights.ok()) {
      Value& value = folded.value(node.outputs[0]);
      value.type = (*weights)->type;
      value.set_shape((*weights)->shape);
      value.constant = *std::move(weights);
    }
  }
  return folded;
}

}  // namespace tenon::cuda
