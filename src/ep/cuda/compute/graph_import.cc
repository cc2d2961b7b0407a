#include "ep/cuda/compute/graph_import.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/format.h"
#include "ep/sdk/plugin_kernel.h"

namespace tenon::cuda {

using plugin::GraphNode;
using plugin::GraphValue;
using plugin::HostApi;

namespace {

Result<ConstantRef> read_tensor(const HostApi& host, const OrtValue* tensor, bool borrowed) {
  TENON_TRY_ASSIGN(const plugin::TensorArgument read, plugin::describe_tensor(host, tensor));
  TENON_TRY_ASSIGN(const size_t size, tensor_size_bytes(read.type, read.shape));
  if (borrowed) {
    auto constant = std::make_shared<Constant>();
    constant->type = read.type;
    constant->shape = read.shape;
    constant->data = static_cast<const std::byte*>(read.data);
    constant->size_bytes = size;
    return ConstantRef(std::move(constant));
  }
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef copied, make_constant(read.type, read.shape, &data));
  if (size != 0) std::memcpy(data, read.data, size);
  return copied;
}

template <typename T>
Result<std::vector<T>> read_list(const HostApi& host, const OrtOpAttr* attribute, OrtOpAttrType type) {
  // The size is told together with an error.
  size_t bytes = 0;
  if (OrtStatus* status = host.ort().ReadOpAttr(attribute, type, nullptr, 0, &bytes)) host.ort().ReleaseStatus(status);
  std::vector<T> values(bytes / sizeof(T));
  if (bytes != 0) TENON_ORT_TRY(host, ReadOpAttr, attribute, type, values.data(), bytes, &bytes);
  return values;
}

Result<Attribute> read_attribute(const HostApi& host, const OrtOpAttr* from) {
  Attribute attribute;
  const char* name = nullptr;
  TENON_ORT_TRY(host, OpAttr_GetName, from, &name);
  attribute.name = name != nullptr ? name : "";
  OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
  TENON_ORT_TRY(host, OpAttr_GetType, from, &type);
  size_t bytes = 0;
  switch (type) {
    case ORT_OP_ATTR_INT:
      attribute.kind = AttributeKind::kInt;
      TENON_ORT_TRY(host, ReadOpAttr, from, type, &attribute.i, sizeof(attribute.i), &bytes);
      break;
    case ORT_OP_ATTR_FLOAT:
      attribute.kind = AttributeKind::kFloat;
      TENON_ORT_TRY(host, ReadOpAttr, from, type, &attribute.f, sizeof(attribute.f), &bytes);
      break;
    case ORT_OP_ATTR_STRING: {
      attribute.kind = AttributeKind::kString;
      TENON_TRY_ASSIGN(const std::vector<char> text, read_list<char>(host, from, type));
      attribute.s.assign(text.begin(), text.end());
      break;
    }
    case ORT_OP_ATTR_INTS: {
      attribute.kind = AttributeKind::kInts;
      TENON_TRY_ASSIGN(attribute.ints, read_list<int64_t>(host, from, type));
      break;
    }
    case ORT_OP_ATTR_FLOATS: {
      attribute.kind = AttributeKind::kFloats;
      TENON_TRY_ASSIGN(attribute.floats, read_list<float>(host, from, type));
      break;
    }
    case ORT_OP_ATTR_STRINGS: {
      // One after another, each with a zero behind it.
      attribute.kind = AttributeKind::kStrings;
      TENON_TRY_ASSIGN(const std::vector<char> texts, read_list<char>(host, from, type));
      for (auto at = texts.begin(); at != texts.end();) {
        const auto end = std::find(at, texts.end(), '\0');
        attribute.strings.emplace_back(at, end);
        at = end == texts.end() ? end : end + 1;
      }
      break;
    }
    case ORT_OP_ATTR_TENSOR: {
      attribute.kind = AttributeKind::kTensor;
      OrtValue* value = nullptr;
      TENON_ORT_TRY(host, OpAttr_GetTensorAttributeAsOrtValue, from, &value);
      const auto owned = host.own(value, host.ort().ReleaseValue);
      TENON_TRY_ASSIGN(attribute.tensor, read_tensor(host, value, false));
      break;
    }
    default:
      attribute.kind = AttributeKind::kOther;
  }
  return attribute;
}

class Import {
 public:
  explicit Import(const HostApi& host) : host_(host) {}

  Result<ImportedGraph> run(const OrtGraph* graph) {
    TENON_TRY_ASSIGN(std::vector<GraphNode> nodes, plugin::graph_nodes(host_, graph));
    result_.nodes = PerNode<GraphNode>(std::move(nodes));
    int newest = 1;
    for (const GraphNode& from : result_.nodes) {
      Node node;
      node.name = from.name;
      node.op_type = from.op_type;
      node.domain = from.domain;
      node.since_version = from.since;
      if (from.domain.empty()) newest = std::max(newest, from.since);
      for (const GraphValue& value : from.inputs) {
        TENON_TRY_ASSIGN(const ValueId id, add(value));
        node.inputs.push_back(id);
      }
      for (const GraphValue& value : from.outputs) {
        TENON_TRY_ASSIGN(const ValueId id, add(value));
        node.outputs.push_back(id);
      }
      while (!node.outputs.empty() && node.outputs.back() == kNoValue) node.outputs.pop_back();
      size_t count = 0;
      TENON_ORT_TRY(host_, Node_GetNumAttributes, from.node, &count);
      std::vector<const OrtOpAttr*> attributes(count);
      if (count != 0) TENON_ORT_TRY(host_, Node_GetAttributes, from.node, attributes.data(), count);
      for (const OrtOpAttr* attribute : attributes) {
        if (attribute == nullptr) continue;
        TENON_TRY_ASSIGN(Attribute read, read_attribute(host_, attribute));
        node.attributes.edit().push_back(std::move(read));
      }
      result_.graph.nodes.push_back(std::move(node));
    }
    result_.graph.opsets = {{"", newest}, {"tenon", 1}};
    return std::move(result_);
  }

 private:
  Result<ValueId> add(const GraphValue& from) {
    if (from.name.empty()) return kNoValue;
    const auto [known, added] = ids_.emplace(from.name, kNoValue);
    if (!added) return known->second;
    Value value;
    value.name = from.name;
    value.type = from.type;
    value.is_tensor = from.type != DataType::kUndefined;
    if (from.shape) {
      value.has_rank = true;
      for (int64_t dim : from.shape->dims()) value.dims.push_back({dim < 0 ? -1 : dim, {}});
    }
    if (from.constant) {
      const OrtValue* tensor = nullptr;
      TENON_ORT_TRY(host_, ValueInfo_GetInitializerValue, from.info, &tensor);
      if (tensor != nullptr && from.type != DataType::kString) {
        TENON_TRY_ASSIGN(value.constant, read_tensor(host_, tensor, true));
        value.type = value.constant->type;
        value.set_shape(value.constant->shape);
      }
    }
    known->second = result_.graph.add_value(std::move(value));
    return known->second;
  }

  const HostApi& host_;
  ImportedGraph result_;
  std::unordered_map<std::string, ValueId> ids_;
};

}  // namespace

Result<ImportedGraph> import_graph(const HostApi& host, const OrtGraph* graph) { return Import(host).run(graph); }

ValueId find_value(const Graph& graph, const std::string& name) {
  for (ValueId id : graph.values.ids())
    if (graph.value(id).name == name) return id;
  return kNoValue;
}

}  // namespace tenon::cuda
