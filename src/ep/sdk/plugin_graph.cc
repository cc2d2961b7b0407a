#include "ep/sdk/plugin_graph.h"

#include <cstring>

#include "ep/sdk/plugin_kernel.h"

namespace tenon::plugin {

namespace {

Result<GraphValue> read_value(const HostApi& host, const OrtValueInfo* info) {
  GraphValue value;
  value.info = info;
  if (info == nullptr) return value;
  const char* name = nullptr;
  TENON_ORT_TRY(host, GetValueInfoName, info, &name);
  value.name = name != nullptr ? name : "";
  if (value.name.empty()) return value;
  TENON_ORT_TRY(host, ValueInfo_IsConstantInitializer, info, &value.constant);
  const OrtTypeInfo* type_info = nullptr;
  TENON_ORT_TRY(host, GetValueInfoTypeInfo, info, &type_info);
  if (type_info == nullptr) return value;
  const OrtTensorTypeAndShapeInfo* tensor_info = nullptr;
  TENON_ORT_TRY(host, CastTypeInfoToTensorInfo, type_info, &tensor_info);
  if (tensor_info == nullptr) return value;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  TENON_ORT_TRY(host, GetTensorElementType, tensor_info, &type);
  value.type = data_type(type);
  if (!host.ort().TensorTypeAndShape_HasShape(tensor_info)) return value;
  size_t rank = 0;
  TENON_ORT_TRY(host, GetDimensionsCount, tensor_info, &rank);
  if (rank > Shape::kMaxRank) return value;
  std::vector<int64_t> dims(rank);
  TENON_ORT_TRY(host, GetDimensions, tensor_info, dims.data(), rank);
  value.shape = Shape(dims);
  return value;
}

Result<std::vector<GraphValue>> read_values(const HostApi& host, const std::vector<const OrtValueInfo*>& infos) {
  std::vector<GraphValue> values;
  for (const OrtValueInfo* info : infos) {
    TENON_TRY_ASSIGN(GraphValue value, read_value(host, info));
    values.push_back(std::move(value));
  }
  return values;
}

// Null when the node has no such attribute.
Result<const OrtOpAttr*> find_attribute(const HostApi& host, const GraphNode& node, const char* name,
                                        OrtOpAttrType type) {
  const OrtOpAttr* attribute = nullptr;
  OrtStatus* status = host.ort().Node_GetAttributeByName(node.node, name, &attribute);
  // Hosts answer not-found for an optional attribute that is not set.
  if (status != nullptr) {
    const bool absent = host.ort().GetErrorCode(status) == ORT_NOT_FOUND || attribute == nullptr;
    Status failed = host.take(status, "Node_GetAttributeByName");
    if (absent && failed.code() == StatusCode::kNotFound) return static_cast<const OrtOpAttr*>(nullptr);
    return failed;
  }
  if (attribute == nullptr) return attribute;
  OrtOpAttrType have = ORT_OP_ATTR_UNDEFINED;
  TENON_ORT_TRY(host, OpAttr_GetType, attribute, &have);
  TENON_INVALID_IF(have != type, "Attribute \"{}\" of {} has type {}; type {} is expected.", name, node.label(),
                   static_cast<int>(have), static_cast<int>(type));
  return attribute;
}

}  // namespace

std::string GraphNode::label() const { return format("{} \"{}\"", op_type, name); }

Result<GraphNode> graph_node(const HostApi& host, const OrtNode* node) {
  GraphNode result;
  result.node = node;
  const char* text = nullptr;
  TENON_ORT_TRY(host, Node_GetId, node, &result.id);
  TENON_ORT_TRY(host, Node_GetName, node, &text);
  result.name = text != nullptr ? text : "";
  TENON_ORT_TRY(host, Node_GetOperatorType, node, &text);
  result.op_type = text != nullptr ? text : "";
  TENON_ORT_TRY(host, Node_GetDomain, node, &text);
  result.domain = text != nullptr && std::strcmp(text, "ai.onnx") != 0 ? text : "";
  TENON_ORT_TRY(host, Node_GetSinceVersion, node, &result.since);
  size_t count = 0;
  TENON_ORT_TRY(host, Node_GetNumInputs, node, &count);
  std::vector<const OrtValueInfo*> infos(count);
  TENON_ORT_TRY(host, Node_GetInputs, node, infos.data(), count);
  TENON_TRY_ASSIGN(result.inputs, read_values(host, infos));
  TENON_ORT_TRY(host, Node_GetNumOutputs, node, &count);
  infos.assign(count, nullptr);
  TENON_ORT_TRY(host, Node_GetOutputs, node, infos.data(), count);
  TENON_TRY_ASSIGN(result.outputs, read_values(host, infos));
  TENON_ORT_TRY(host, Node_GetNumSubgraphs, node, &result.subgraphs);
  return result;
}

Result<std::vector<GraphNode>> graph_nodes(const HostApi& host, const OrtGraph* graph) {
  size_t count = 0;
  TENON_ORT_TRY(host, Graph_GetNumNodes, graph, &count);
  std::vector<const OrtNode*> nodes(count);
  TENON_ORT_TRY(host, Graph_GetNodes, graph, nodes.data(), count);
  std::vector<GraphNode> result;
  for (const OrtNode* node : nodes) {
    TENON_TRY_ASSIGN(GraphNode read, graph_node(host, node));
    result.push_back(std::move(read));
  }
  return result;
}

Result<std::vector<GraphValue>> graph_inputs(const HostApi& host, const OrtGraph* graph) {
  size_t count = 0;
  TENON_ORT_TRY(host, Graph_GetNumInputs, graph, &count);
  std::vector<const OrtValueInfo*> infos(count);
  TENON_ORT_TRY(host, Graph_GetInputs, graph, infos.data(), count);
  return read_values(host, infos);
}

Result<std::vector<GraphValue>> graph_outputs(const HostApi& host, const OrtGraph* graph) {
  size_t count = 0;
  TENON_ORT_TRY(host, Graph_GetNumOutputs, graph, &count);
  std::vector<const OrtValueInfo*> infos(count);
  TENON_ORT_TRY(host, Graph_GetOutputs, graph, infos.data(), count);
  return read_values(host, infos);
}

namespace {

// The bytes of an attribute whose size only the host knows: it answers an error together with the size.
Result<std::vector<char>> sized_attribute(const HostApi& host, const OrtOpAttr* attribute, OrtOpAttrType type) {
  size_t bytes = 0;
  if (OrtStatus* status = host.ort().ReadOpAttr(attribute, type, nullptr, 0, &bytes)) host.ort().ReleaseStatus(status);
  std::vector<char> data(bytes);
  if (bytes != 0) TENON_ORT_TRY(host, ReadOpAttr, attribute, type, data.data(), bytes, &bytes);
  return data;
}

}  // namespace

Status copy_attribute(const HostApi& host, const GraphNode& from, const char* name, AttributeKind kind, Node& to) {
  const OrtOpAttrType type = kind == AttributeKind::kInt      ? ORT_OP_ATTR_INT
                             : kind == AttributeKind::kFloat  ? ORT_OP_ATTR_FLOAT
                             : kind == AttributeKind::kString ? ORT_OP_ATTR_STRING
                                                              : ORT_OP_ATTR_INTS;
  TENON_TRY_ASSIGN(const OrtOpAttr* attribute, find_attribute(host, from, name, type));
  if (attribute == nullptr) return Status();
  size_t bytes = 0;
  if (kind == AttributeKind::kInt) {
    int64_t value = 0;
    TENON_ORT_TRY(host, ReadOpAttr, attribute, type, &value, sizeof(value), &bytes);
    to.set_int(name, value);
    return Status();
  }
  if (kind == AttributeKind::kFloat) {
    float value = 0;
    TENON_ORT_TRY(host, ReadOpAttr, attribute, type, &value, sizeof(value), &bytes);
    to.set_float(name, value);
    return Status();
  }
  TENON_TRY_ASSIGN(const std::vector<char> data, sized_attribute(host, attribute, type));
  if (kind == AttributeKind::kString) {
    to.set_string(name, std::string(data.begin(), data.end()));
    return Status();
  }
  std::vector<int64_t> values(data.size() / sizeof(int64_t));
  if (!values.empty()) std::memcpy(values.data(), data.data(), values.size() * sizeof(int64_t));
  to.set_ints(name, std::move(values));
  return Status();
}

Result<int64_t> int_attribute(const HostApi& host, const GraphNode& node, const char* name, int64_t fallback) {
  Node read;
  TENON_TRY(copy_attribute(host, node, name, AttributeKind::kInt, read));
  return read.attributes.empty() ? fallback : read.attributes[0].i;
}

Result<std::string> text_attribute(const HostApi& host, const GraphNode& node, const char* name,
                                   const std::string& fallback) {
  Node read;
  TENON_TRY(copy_attribute(host, node, name, AttributeKind::kString, read));
  return read.attributes.empty() ? fallback : read.attributes[0].s;
}

Result<ConstantTensor> constant_tensor(const HostApi& host, const GraphValue& value) {
  const OrtValue* tensor = nullptr;
  TENON_ORT_TRY(host, ValueInfo_GetInitializerValue, value.info, &tensor);
  TENON_INVALID_IF(tensor == nullptr, "Value \"{}\" has no constant tensor.", value.name);
  Result<TensorArgument> read = describe_tensor(host, tensor);
  if (!read.ok()) return std::move(read).status().with_context(format("while reading constant \"{}\"", value.name));
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(read->type, read->shape));
  ConstantTensor result{.type = read->type, .shape = read->shape, .bytes = std::vector<std::byte>(bytes)};
  if (bytes != 0) std::memcpy(result.bytes.data(), read->data, bytes);
  return result;
}

}  // namespace tenon::plugin
