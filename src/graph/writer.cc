#include "graph/writer.h"

#include <algorithm>
#include <protozero/pbf_writer.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/proto.h"
#include "graph/symbols.h"

namespace tenon {

namespace {

using protozero::pbf_writer;

constexpr int64_t kIrVersion = 10;
constexpr int64_t kFirstIrOfPlainInitializers = 4;  // before it every initializer was an input, too
constexpr int64_t kExternal = 1;                    // TensorProto.DataLocation
constexpr size_t kMostBytes = size_t{1} << 31;

// AttributeProto.AttributeType.
enum AttributeNumber { kFloat = 1, kInt, kString, kTensor, kGraph, kFloats, kInts, kStrings, kType = 13 };

std::string type_bytes(const ObjectType& object) {
  using P = proto::TypeProto;
  const std::string element = object.element == nullptr ? std::string() : type_bytes(*object.element);
  std::string inner, type;
  pbf_writer to(inner);
  switch (object.kind) {
    case ObjectKind::kTensor:
      to.add_int32(P::kElementType, static_cast<int32_t>(object.type));
      pbf_writer(type).add_message(P::kTensor, inner);
      break;
    case ObjectKind::kMap:
      to.add_int32(P::kMapKeyType, static_cast<int32_t>(object.type));
      to.add_message(P::kMapValueType, element);
      pbf_writer(type).add_message(P::kMap, inner);
      break;
    case ObjectKind::kSequence:
    case ObjectKind::kOptional:
      to.add_message(P::kElementType, element);
      pbf_writer(type).add_message(object.kind == ObjectKind::kSequence ? P::kSequence : P::kOptional, inner);
      break;
  }
  return type;
}

std::string type_bytes(const Value& value) {
  if (value.object != nullptr) return type_bytes(*value.object);
  std::string tensor;
  pbf_writer to(tensor);
  to.add_int32(proto::TypeProto::kElementType, static_cast<int32_t>(value.type));
  if (value.has_rank) {
    std::string shape;
    for (const Dim& dim : value.dims) {
      std::string bytes;
      if (dim.known()) {
        pbf_writer(bytes).add_int64(proto::TypeProto::kDimValue, dim.value);
      } else if (const std::string_view declared = declared_symbol(dim.symbol); !declared.empty()) {
        pbf_writer(bytes).add_string(proto::TypeProto::kDimParam, std::string(declared));
      }
      pbf_writer(shape).add_message(proto::TypeProto::kDim, bytes);
    }
    to.add_message(proto::TypeProto::kShape, shape);
  }
  std::string type;
  pbf_writer(type).add_message(proto::TypeProto::kTensor, tensor);
  return type;
}

std::string tensor_bytes(const std::string& name, const Constant& constant) {
  std::string bytes;
  pbf_writer to(bytes);
  to.add_packed_int64(proto::TensorProto::kDims, constant.shape.begin(), constant.shape.end());
  to.add_int32(proto::TensorProto::kDataType, static_cast<int32_t>(constant.type));
  if (!name.empty()) to.add_string(proto::TensorProto::kName, name);
  if (constant.type == DataType::kString) {
    for (const std::string& text : constant.strings) to.add_bytes(proto::TensorProto::kStringData, text);
  } else {
    to.add_bytes(proto::TensorProto::kRawData, reinterpret_cast<const char*>(constant.data.stored()),
                 constant.size_bytes);
  }
  return bytes;
}

void add_entry(pbf_writer& to, uint32_t field, const std::string& key, const std::string& value) {
  std::string entry;
  pbf_writer pair(entry);
  pair.add_string(proto::EntryProto::kKey, key);
  pair.add_string(proto::EntryProto::kValue, value);
  to.add_message(field, entry);
}

std::string tensor_bytes(const std::string& name, const Constant& constant, const ExternalPlace& place) {
  std::string bytes;
  pbf_writer to(bytes);
  to.add_packed_int64(proto::TensorProto::kDims, constant.shape.begin(), constant.shape.end());
  to.add_int32(proto::TensorProto::kDataType, static_cast<int32_t>(constant.type));
  to.add_string(proto::TensorProto::kName, name);
  add_entry(to, proto::TensorProto::kExternalData, "location", place.location);
  add_entry(to, proto::TensorProto::kExternalData, "offset", std::to_string(place.offset_bytes));
  add_entry(to, proto::TensorProto::kExternalData, "length", std::to_string(place.size_bytes));
  to.add_int32(proto::TensorProto::kDataLocation, kExternal);
  return bytes;
}

class GraphWriter {
 public:
  // `outer`: the graph around this one, for the names of what is captured; null where nothing is.
  GraphWriter(const Graph& graph, const GraphWriter* outer, const WriterOptions& options)
      : graph_(graph), outer_(outer), options_(options), names_(graph.values.size()) {
    PerValue<bool> captured(graph.values.size(), false);
    for (const auto& [from, to] : graph.captures) {
      if (outer != nullptr) names_[to] = outer->names_[from];
      captured[to] = true;
    }
    for (ValueId id : names_.ids()) {
      const std::string& name = graph.value(id).name;
      if (!captured[id]) names_[id] = name.empty() ? format("tenon_value_{}", id) : name;
    }
    is_captured_ = std::move(captured);
  }

  Result<std::string> write() const {
    std::string bytes;
    pbf_writer to(bytes);
    for (const Node& node : graph_.nodes) {
      TENON_TRY_ASSIGN(const std::string message, node_bytes(node));
      to.add_message(proto::GraphProto::kNode, message);
    }
    to.add_string(proto::GraphProto::kName, graph_.name.empty() ? "graph" : graph_.name);
    const PerValue<NodeId> producers = graph_.producers();
    const std::vector<ValueId> initializers = initializers_of(producers);
    for (ValueId id : initializers) TENON_TRY(add_initializer(to, id));
    if (outer_ == nullptr && options_.notes != nullptr && !options_.notes->doc_string.empty())
      to.add_string(proto::GraphProto::kDocString, options_.notes->doc_string);
    for (ValueId id : graph_.inputs) TENON_TRY(add_value(to, proto::GraphProto::kInput, id));
    if (outer_ == nullptr && options_.notes != nullptr) {
      for (ValueId id : options_.notes->overridable) {
        const bool written = std::find(initializers.begin(), initializers.end(), id) != initializers.end();
        const bool listed = std::find(graph_.inputs.begin(), graph_.inputs.end(), id) != graph_.inputs.end();
        if (written && !listed) TENON_TRY(add_value(to, proto::GraphProto::kInput, id));
      }
    }
    for (ValueId id : graph_.outputs) TENON_TRY(add_value(to, proto::GraphProto::kOutput, id));
    for (ValueId id : graph_.values.ids()) {
      const Value& value = graph_.value(id);
      if (!producers[id].valid() || value.type == DataType::kUndefined || !value.is_tensor) continue;
      if (std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end()) continue;
      TENON_TRY(add_value(to, proto::GraphProto::kValueInfo, id));
    }
    return bytes;
  }

 private:
  const std::string& name(ValueId id) const {
    static const std::string absent;
    return id == kNoValue ? absent : names_[id];
  }

  std::vector<ValueId> initializers_of(const PerValue<NodeId>& producers) const {
    const PerValue<int32_t> uses = graph_.use_counts();
    std::vector<ValueId> found;
    for (ValueId id : graph_.values.ids()) {
      if (graph_.value(id).constant && !producers[id].valid() && uses[id] > 0 && !is_captured_[id]) found.push_back(id);
    }
    if (options_.by_name)
      std::sort(found.begin(), found.end(), [&](ValueId a, ValueId b) { return names_[a] < names_[b]; });
    return found;
  }

  Status add_initializer(pbf_writer& to, ValueId id) const {
    const ConstantRef& constant = graph_.value(id).constant;
    std::optional<ExternalPlace> place;
    if (options_.place) {
      TENON_TRY_ASSIGN(place, options_.place(names_[id], constant));
    }
    to.add_message(proto::GraphProto::kInitializer, place && constant->type != DataType::kString
                                                        ? noted(tensor_bytes(names_[id], *constant, *place), constant)
                                                        : noted(tensor_bytes(names_[id], *constant), constant));
    return {};
  }

  // A TensorProto with the documentation and metadata of its constant.
  std::string noted(std::string tensor, const ConstantRef& constant) const {
    if (options_.notes != nullptr) tensor += options_.notes->find_notes(constant);
    return tensor;
  }

  Status add_value(pbf_writer& to, uint32_t field, ValueId id) const {
    const Value& value = graph_.value(id);
    TENON_UNSUPPORTED_IF(!value.is_tensor && value.object == nullptr, "\"{}\" is of a type that cannot be written.",
                         name(id));
    std::string bytes;
    pbf_writer info(bytes);
    info.add_string(proto::ValueInfoProto::kName, name(id));
    if (value.type != DataType::kUndefined) info.add_message(proto::ValueInfoProto::kType, type_bytes(value));
    to.add_message(field, bytes);
    return {};
  }

  Result<std::string> node_bytes(const Node& node) const {
    TENON_UNSUPPORTED_IF(node.domain == "tenon", "{} is an internal operator, which no file can have.",
                         node.label(graph_));
    std::string bytes;
    pbf_writer to(bytes);
    for (ValueId id : node.inputs) to.add_string(proto::NodeProto::kInput, name(id));
    for (ValueId id : node.outputs) to.add_string(proto::NodeProto::kOutput, name(id));
    if (!node.name.empty()) to.add_string(proto::NodeProto::kName, node.name);
    to.add_string(proto::NodeProto::kOpType, node.op_type);
    if (!node.domain.empty()) to.add_string(proto::NodeProto::kDomain, node.domain);
    for (const Attribute& attribute : node.attributes) {
      TENON_TRY_ASSIGN(const std::string message, attribute_bytes(node, attribute));
      to.add_message(proto::NodeProto::kAttribute, message);
    }
    if (node.notes != nullptr) bytes += *node.notes;
    return bytes;
  }

  Result<std::string> attribute_bytes(const Node& node, const Attribute& attribute) const {
    std::string bytes;
    pbf_writer to(bytes);
    to.add_string(proto::AttributeProto::kName, attribute.name);
    AttributeNumber type = kInt;
    switch (attribute.kind) {
      case AttributeKind::kFloat:
        type = kFloat;
        to.add_float(proto::AttributeProto::kF, attribute.f);
        break;
      case AttributeKind::kInt:
        to.add_int64(proto::AttributeProto::kI, attribute.i);
        break;
      case AttributeKind::kString:
        type = kString;
        to.add_bytes(proto::AttributeProto::kS, attribute.s);
        break;
      case AttributeKind::kTensor:
        type = kTensor;
        to.add_message(proto::AttributeProto::kT, noted(tensor_bytes("", *attribute.tensor), attribute.tensor));
        break;
      case AttributeKind::kGraph: {
        type = kGraph;
        TENON_TRY_ASSIGN(const std::string graph, GraphWriter(*attribute.graph, this, options_).write());
        to.add_message(proto::AttributeProto::kG, graph);
        break;
      }
      case AttributeKind::kFloats:
        type = kFloats;
        to.add_packed_float(proto::AttributeProto::kFloats, attribute.floats.begin(), attribute.floats.end());
        break;
      case AttributeKind::kInts:
        type = kInts;
        to.add_packed_int64(proto::AttributeProto::kInts, attribute.ints.begin(), attribute.ints.end());
        break;
      case AttributeKind::kStrings:
        type = kStrings;
        for (const std::string& text : attribute.strings) to.add_bytes(proto::AttributeProto::kStrings, text);
        break;
      case AttributeKind::kOther:
        if (!attribute.s.empty()) return bytes + attribute.s;
        if (attribute.type != nullptr) {
          type = kType;
          to.add_message(proto::AttributeProto::kTypeProto, type_bytes(*attribute.type));
          break;
        }
        TENON_UNSUPPORTED_IF(
            !attribute.strings.empty(),
            "Attribute \"{}\" of {} is a list of graphs, of which one reads \"{}\" of the graph around "
            "it; such lists, which no operator of ONNX has, cannot be written.",
            attribute.name, node.label(graph_), attribute.strings[0]);
        return unsupported("Attribute \"{}\" of {} is of a kind that cannot be written.", attribute.name,
                           node.label(graph_));
    }
    to.add_int32(proto::AttributeProto::kType, type);
    return bytes;
  }

  const Graph& graph_;
  const GraphWriter* const outer_;
  const WriterOptions& options_;
  PerValue<std::string> names_;
  PerValue<bool> is_captured_;
};

void add_info(pbf_writer& to, const ModelInfo& info) {
  to.add_int64(proto::ModelProto::kIrVersion, std::max(info.ir_version, kFirstIrOfPlainInitializers));
  const auto add_text = [&to](uint32_t field, const std::string& text) {
    if (!text.empty()) to.add_string(field, text);
  };
  add_text(proto::ModelProto::kProducerName, info.producer_name);
  add_text(proto::ModelProto::kProducerVersion, info.producer_version);
  add_text(proto::ModelProto::kDomain, info.domain);
  if (info.has_model_version) to.add_int64(proto::ModelProto::kModelVersion, info.model_version);
  add_text(proto::ModelProto::kDocString, info.doc_string);
  for (const auto& [key, value] : info.metadata) add_entry(to, proto::ModelProto::kMetadata, key, value);
}

}  // namespace

Result<std::string> write_model(const Graph& graph, const WriterOptions& options) {
  TENON_INVALID_IF(!graph.captures.empty(), "Graph \"{}\" captures {} values of another graph; a model captures none.",
                   graph.name, graph.captures.size());
  TENON_TRY_ASSIGN(const std::string body, GraphWriter(graph, nullptr, options).write());
  std::string bytes;
  pbf_writer to(bytes);
  add_info(to, options.info != nullptr ? *options.info : ModelInfo{.ir_version = kIrVersion, .producer_name = "Tenon"});
  for (const auto& [domain, version] : graph.opsets) {
    std::string opset;
    pbf_writer(opset).add_string(proto::OpsetProto::kDomain, domain);
    pbf_writer(opset).add_int64(proto::OpsetProto::kVersion, version);
    to.add_message(proto::ModelProto::kOpsetImport, opset);
  }
  TENON_UNSUPPORTED_IF(body.size() + bytes.size() + 16 >= kMostBytes,
                       "The model takes {} bytes; a file of ONNX holds less than 2 GiB.", body.size());
  to.add_message(proto::ModelProto::kGraph, body);
  return bytes;
}

void append_metadata(std::string& model, const std::string& key, const std::string& value) {
  pbf_writer to(model);
  add_entry(to, proto::ModelProto::kMetadata, key, value);
}

}  // namespace tenon
