// Reads the small messages: types, attributes, functions.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <protozero/pbf_writer.hpp>

#include "graph/proto.h"
#include "graph/reader_internal.h"

namespace tenon::reader {

namespace {

Status read_dim(const ReadContext& context, std::string_view message, Dim& dim) {
  using P = proto::TypeProto;
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::varint(P::kDimValue):
        dim.value = reader.get_int64();
        // Exporters write -1 for "not known"; any other negative number is a mistake.
        TENON_INVALID_IF(dim.value < -1, "The dimension {} is negative.", dim.value);
        break;
      case proto::bytes(P::kDimParam): {
        const std::string_view symbol = proto::text(reader.get_view());
        TENON_TRY(check_name(context, symbol, "dimension"));
        dim.symbol = symbol;
        break;
      }
      default:
        reader.skip();
    }
  }
  if (dim.known()) dim.symbol.clear();
  return Status();
}

Status read_shape(const ReadContext& context, std::string_view message, Value& value) {
  value.has_rank = true;
  value.dims.clear();
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    if (reader.tag_and_type() != proto::bytes(proto::TypeProto::kDim)) {
      reader.skip();
      continue;
    }
    TENON_UNSUPPORTED_IF(value.dims.size() == Shape::kMaxRank, "It has more than {} dimensions.", Shape::kMaxRank);
    TENON_TRY(read_dim(context, proto::text(reader.get_view()), value.dims.emplace_back()));
  }
  return Status();
}

Status read_tensor_type(const ReadContext& context, std::string_view message, Value& value) {
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::varint(proto::TypeProto::kElementType): {
        TENON_TRY_ASSIGN(value.type, to_data_type(reader.get_int64()));
        break;
      }
      case proto::bytes(proto::TypeProto::kShape):
        TENON_TRY(read_shape(context, proto::text(reader.get_view()), value));
        break;
      default:
        reader.skip();
    }
  }
  return Status();
}

constexpr int kMostNestedTypes = 16;

// A TypeProto as a type of sequences, optionals and maps, or of what is in them. Null for an opaque or sparse one.
Result<ObjectTypeRef> read_object_type(const ReadContext& context, std::string_view message, int levels) {
  using P = proto::TypeProto;
  TENON_INVALID_IF(levels == 0, "A type nests more than {} types.", kMostNestedTypes);
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::bytes(P::kTensor): {
        Value tensor;
        TENON_TRY(read_tensor_type(context, proto::text(reader.get_view()), tensor));
        return ObjectType::tensor(tensor.type);
      }
      case proto::bytes(P::kSequence):
      case proto::bytes(P::kOptional): {
        const bool sequence = reader.tag() == P::kSequence;
        std::string_view element;
        proto::Reader inner = proto::reader(proto::text(reader.get_view()));
        while (inner.next(P::kElementType, protozero::pbf_wire_type::length_delimited))
          element = proto::text(inner.get_view());
        TENON_TRY_ASSIGN(ObjectTypeRef type, read_object_type(context, element, levels - 1));
        return sequence ? ObjectType::sequence(std::move(type)) : ObjectType::optional(std::move(type));
      }
      case proto::bytes(P::kMap): {
        DataType key = DataType::kUndefined;
        std::string_view element;
        proto::Reader inner = proto::reader(proto::text(reader.get_view()));
        while (inner.next()) {
          if (inner.tag_and_type() == proto::varint(P::kMapKeyType)) {
            TENON_TRY_ASSIGN(key, to_data_type(inner.get_int64()));
          } else if (inner.tag_and_type() == proto::bytes(P::kMapValueType)) {
            element = proto::text(inner.get_view());
          } else {
            inner.skip();
          }
        }
        TENON_TRY_ASSIGN(ObjectTypeRef value, read_object_type(context, element, levels - 1));
        return ObjectType::map(key, std::move(value));
      }
      default:
        reader.skip();
    }
  }
  return ObjectTypeRef();
}

// AttributeProto.AttributeType.
enum AttributeType : int64_t {
  kUndefined = 0,
  kFloat,
  kInt,
  kString,
  kTensor,
  kGraph,
  kFloats,
  kInts,
  kStrings,
  kTensors,
  kGraphs,
  kSparse,
  kSparses,
  kType,
  kTypes
};

AttributeKind to_kind(int64_t type) {
  switch (type) {
    case kFloat:
      return AttributeKind::kFloat;
    case kInt:
      return AttributeKind::kInt;
    case kString:
      return AttributeKind::kString;
    case kTensor:
      return AttributeKind::kTensor;
    case kGraph:
      return AttributeKind::kGraph;
    case kFloats:
      return AttributeKind::kFloats;
    case kInts:
      return AttributeKind::kInts;
    case kStrings:
      return AttributeKind::kStrings;
    default:
      return AttributeKind::kOther;
  }
}

// The fields of an attribute's message; `type` says which part counts.
struct AttributeFields {
  Attribute attribute;
  int64_t type = kUndefined;
  std::string_view reference, tensor, sparse, graph, type_proto;
  uint32_t present = 0;  // bit AttributeType
};

AttributeFields split_attribute(std::string_view message) {
  using P = proto::AttributeProto;
  AttributeFields fields;
  Attribute& to = fields.attribute;
  const auto saw = [&](AttributeType type) { fields.present |= 1u << type; };
  const auto add_float = [&](uint32_t bits) { to.floats.push_back(std::bit_cast<float>(bits)); };
  const auto add_int = [&](uint64_t value) { to.ints.push_back(static_cast<int64_t>(value)); };
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::bytes(P::kName):
        to.name = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kRefAttrName):
        fields.reference = proto::text(reader.get_view());
        break;
      case proto::varint(P::kType):
        fields.type = reader.get_int64();
        break;
      case proto::fixed32(P::kF):
        saw(kFloat), to.f = std::bit_cast<float>(reader.get_fixed32());
        break;
      case proto::varint(P::kI):
        saw(kInt), to.i = reader.get_int64();
        break;
      case proto::bytes(P::kS):
        saw(kString), to.s = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kT):
        saw(kTensor), fields.tensor = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kG):
        saw(kGraph), fields.graph = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kFloats):
        saw(kFloats), proto::for_each_packed_fixed<uint32_t>(proto::text(reader.get_view()), add_float);
        break;
      case proto::fixed32(P::kFloats):
        saw(kFloats), add_float(reader.get_fixed32());
        break;
      case proto::bytes(P::kInts):
        saw(kInts), proto::for_each_packed_varint(proto::text(reader.get_view()), add_int);
        break;
      case proto::varint(P::kInts):
        saw(kInts), add_int(reader.get_uint64());
        break;
      case proto::bytes(P::kStrings):
        saw(kStrings), to.strings.emplace_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kTensors):
        saw(kTensors), reader.skip();
        break;
      case proto::bytes(P::kGraphs):
        saw(kGraphs), reader.skip();
        break;
      case proto::bytes(P::kSparseTensor):
        saw(kSparse), fields.sparse = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kSparseTensors):
        saw(kSparses), reader.skip();
        break;
      case proto::bytes(P::kTypeProto):
        saw(kType), fields.type_proto = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kTypeProtos):
        saw(kTypes), reader.skip();
        break;
      default:
        reader.skip();
    }
  }
  return fields;
}

// The fields of a message whose numbers `keep` takes, as they are.
template <typename Keep>
std::string fields_of(std::string_view message, const Keep& keep) {
  std::string kept;
  proto::Reader reader = proto::reader(message);
  for (size_t begin = 0; reader.next();) {
    const uint32_t field = reader.tag();
    reader.skip();
    const size_t end = message.size() - reader.length();
    if (keep(field)) kept.append(message.substr(begin, end - begin));
    begin = end;
  }
  return kept;
}

std::string_view inner(std::string_view outer, uint32_t field) {
  std::string_view found;
  proto::Reader reader = proto::reader(outer);
  while (reader.next(field, protozero::pbf_wire_type::length_delimited)) found = proto::text(reader.get_view());
  return found;
}

// The first value that a GraphProto reads and that is neither its own nor in `known`; nothing for none.
Result<std::optional<std::string_view>> find_captured(std::string_view message, std::vector<std::string_view> known,
                                                      size_t levels) {
  if (levels == 0) return resource_exhausted("Graphs of an attribute are nested too deeply.");
  TENON_TRY_ASSIGN(const GraphFields graph, split_graph(message));
  known.emplace_back();  // an absent input
  for (std::string_view input : graph.inputs) known.push_back(value_info_name(input));
  for (std::string_view tensor : graph.initializers) known.push_back(inner(tensor, proto::TensorProto::kName));
  for (std::string_view tensor : graph.sparse_initializers)
    known.push_back(inner(inner(tensor, proto::SparseTensorProto::kValues), proto::TensorProto::kName));
  std::vector<NodeFields> nodes;
  nodes.reserve(graph.nodes.size());
  for (std::string_view node : graph.nodes) nodes.push_back(split_node(node));
  for (const NodeFields& node : nodes) known.insert(known.end(), node.outputs.begin(), node.outputs.end());
  std::sort(known.begin(), known.end());
  const auto is_unknown = [&](std::string_view name) { return !std::binary_search(known.begin(), known.end(), name); };
  for (std::string_view output : graph.outputs)
    if (is_unknown(value_info_name(output))) return std::optional(value_info_name(output));
  for (const NodeFields& node : nodes) {
    const auto input = std::find_if(node.inputs.begin(), node.inputs.end(), is_unknown);
    if (input != node.inputs.end()) return std::optional(*input);
    for (std::string_view attribute : node.attributes) {
      proto::Reader reader = proto::reader(attribute);
      while (reader.next()) {
        const uint32_t field = reader.tag_and_type();
        if (field != proto::bytes(proto::AttributeProto::kG) && field != proto::bytes(proto::AttributeProto::kGraphs)) {
          reader.skip();
          continue;
        }
        TENON_TRY_ASSIGN(const auto captured, find_captured(proto::text(reader.get_view()), known, levels - 1));
        if (captured) return captured;
      }
    }
  }
  return std::optional<std::string_view>();
}

// Keeps the message of an attribute that means nothing here, without its name: a call of a function may give it
// another. Of graphs that read values of the graph around them, whose names may change, it keeps such a value's name.
Status keep_unread(const ReadContext& context, std::string_view message, int64_t type, Attribute& attribute) {
  using P = proto::AttributeProto;
  if (type == kGraphs) {
    proto::Reader reader = proto::reader(message);
    while (reader.next(P::kGraphs, protozero::pbf_wire_type::length_delimited)) {
      TENON_TRY_ASSIGN(const auto captured,
                       find_captured(proto::text(reader.get_view()), {}, context.limits.max_nesting));
      if (!captured) continue;
      attribute.strings = {std::string(*captured)};
      return Status();
    }
  }
  attribute.s = fields_of(
      message, [](uint32_t field) { return field != P::kName && field != P::kRefAttrName && field != P::kType; });
  protozero::pbf_writer(attribute.s).add_int32(P::kType, static_cast<int32_t>(type));
  return Status();
}

Status check_string_length(const ReadContext& context, const std::string& attribute, const std::string& text) {
  if (text.size() <= context.limits.max_string_bytes) return Status();
  return resource_exhausted("A string of attribute \"{}\" has {} bytes; the limit is {}.", attribute, text.size(),
                            context.limits.max_string_bytes);
}

}  // namespace

Status read_type(const ReadContext& context, std::string_view message, Value& value) {
  using P = proto::TypeProto;
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::bytes(P::kTensor):
        value.is_tensor = true;
        TENON_TRY(read_tensor_type(context, proto::text(reader.get_view()), value));
        break;
      case proto::bytes(P::kSequence):
      case proto::bytes(P::kMap):
      case proto::bytes(P::kOptional): {
        TENON_TRY_ASSIGN(ObjectTypeRef object, read_object_type(context, message, kMostNestedTypes));
        value.set_object(std::move(object));
        return Status();
      }
      case proto::bytes(P::kOpaque):
      case proto::bytes(P::kSparseTensor):
        value.is_tensor = false;
        reader.skip();
        break;
      default:
        reader.skip();
    }
  }
  if (!value.is_tensor) {
    value.type = DataType::kUndefined;
    value.has_rank = false;
    value.dims.clear();
  }
  return Status();
}

std::string_view value_info_name(std::string_view message) {
  std::string_view name;
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    if (reader.tag_and_type() == proto::bytes(proto::ValueInfoProto::kName)) {
      name = proto::text(reader.get_view());
    } else {
      reader.skip();
    }
  }
  return name;
}

Result<Value> read_value_info(const ReadContext& context, std::string_view message) {
  Value value;
  proto::Reader reader = proto::reader(message);
  std::string_view type;
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::bytes(proto::ValueInfoProto::kName):
        value.name = proto::text(reader.get_view());
        break;
      case proto::bytes(proto::ValueInfoProto::kType):
        type = proto::text(reader.get_view());
        break;
      default:
        reader.skip();
    }
  }
  TENON_TRY(check_name(context, value.name, "value"));
  TENON_TRY_CONTEXT(read_type(context, type, value), "while reading the type of \"{}\".", value.name);
  return value;
}

Result<ParsedAttribute> read_attribute(ReadContext& context, std::string_view message) {
  AttributeFields fields = split_attribute(message);
  Attribute& attribute = fields.attribute;
  TENON_TRY(check_name(context, attribute.name, "attribute"));
  TENON_INVALID_IF(attribute.name.empty(), "An attribute has no name.");
  if (fields.type == kUndefined && fields.reference.empty()) {
    // Models of the first IR versions leave the type out; then one part is there, and it is the type.
    TENON_INVALID_IF(!std::has_single_bit(fields.present), "Attribute \"{}\" does not say which type it has.",
                     attribute.name);
    fields.type = std::countr_zero(fields.present);
  }
  TENON_INVALID_IF(fields.type < 0 || fields.type > kTypes, "Attribute \"{}\" has the unknown type {}.", attribute.name,
                   fields.type);
  attribute.kind = to_kind(fields.type);
  // The data that an EP compiled (EPContext) is one long string; it is no longer than the file.
  if (attribute.name != "ep_cache_context") TENON_TRY(check_string_length(context, attribute.name, attribute.s));
  for (const std::string& text : attribute.strings) TENON_TRY(check_string_length(context, attribute.name, text));
  ParsedAttribute parsed;
  parsed.reference = fields.reference;
  if (fields.reference.empty() && fields.type == kTensor) {
    TENON_INVALID_IF((fields.present >> kTensor & 1) == 0, "Attribute \"{}\" lacks its tensor.", attribute.name);
    Result<NamedConstant> tensor = read_tensor(context, fields.tensor);
    if (!tensor.ok())
      return std::move(tensor).status().with_context(format("while reading attribute \"{}\".", attribute.name));
    attribute.tensor = std::move(tensor->constant);
  }
  if (fields.reference.empty() && fields.type == kSparse) {
    Result<NamedConstant> tensor = read_sparse_tensor(context, fields.sparse);
    if (!tensor.ok())
      return std::move(tensor).status().with_context(format("while reading attribute \"{}\".", attribute.name));
    attribute.tensor = std::move(tensor->constant);
  }
  if (fields.reference.empty() && fields.type == kType) {
    TENON_TRY_ASSIGN(attribute.type, read_object_type(context, fields.type_proto, kMostNestedTypes));
  }
  if (fields.reference.empty() && fields.type == kGraph) {
    TENON_INVALID_IF((fields.present >> kGraph & 1) == 0, "Attribute \"{}\" lacks its graph.", attribute.name);
    parsed.graph = fields.graph;
  }
  if (fields.reference.empty() && attribute.kind == AttributeKind::kOther) {
    attribute.s.clear();
    attribute.strings.clear();
    if (context.replacements.for_writing) TENON_TRY(keep_unread(context, message, fields.type, attribute));
  }
  parsed.attribute = std::move(attribute);
  return parsed;
}

std::shared_ptr<const std::string> read_node_notes(std::string_view message) {
  using P = proto::NodeProto;
  std::string kept = fields_of(message, [](uint32_t field) { return field == P::kDocString || field == P::kMetadata; });
  return kept.empty() ? nullptr : std::make_shared<const std::string>(std::move(kept));
}

void keep_tensor_notes(ReadContext& context, std::string_view message, const ConstantRef& constant) {
  using P = proto::TensorProto;
  if (!context.replacements.for_writing) return;
  std::string kept = fields_of(message, [](uint32_t field) { return field == P::kDocString || field == P::kMetadata; });
  if (!kept.empty()) context.notes.constants[constant.get()] = {constant, std::move(kept)};
}

void keep_constant_node_notes(ReadContext& context, std::string_view message, const ConstantRef& constant) {
  using P = proto::NodeProto;
  if (!context.replacements.for_writing) return;
  std::string own, metadata;
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    if (reader.tag_and_type() == proto::bytes(P::kDocString)) {
      own = proto::text(reader.get_view());
    } else if (reader.tag_and_type() == proto::bytes(P::kMetadata)) {
      protozero::pbf_writer(metadata).add_bytes(proto::TensorProto::kMetadata, reader.get_view());
    } else {
      reader.skip();
    }
  }
  if (own.empty() && metadata.empty()) return;
  ConstantNotes& notes = context.notes.constants[constant.get()];
  if (notes.constant.lock() != constant) notes = {.constant = constant, .fields = {}};
  if (!own.empty() && inner(notes.fields, proto::TensorProto::kDocString).empty())
    protozero::pbf_writer(notes.fields).add_string(proto::TensorProto::kDocString, own);
  if (!notes.fields.ends_with(metadata)) notes.fields += metadata;  // a function's body comes here at each call
}

Result<ConstantRef> read_constant_node(const ParsedAttribute& parsed) {
  const Attribute& attribute = parsed.attribute;
  std::byte* data = nullptr;
  const auto filled = [&](DataType type, const Shape& shape, const void* from, size_t size) -> Result<ConstantRef> {
    TENON_TRY_ASSIGN(ConstantRef constant, make_constant(type, shape, &data));
    if (size > 0) std::memcpy(data, from, size);
    return constant;
  };
  const auto strings = [](const Shape& shape, std::vector<std::string> texts) -> Result<ConstantRef> {
    return make_string_constant(shape, std::move(texts));
  };
  const auto vector_of = [](const auto& items) { return Shape{static_cast<int64_t>(items.size())}; };
  const std::string_view name = attribute.name;
  const AttributeKind kind = attribute.kind;
  if (name == "value" && kind == AttributeKind::kTensor) return attribute.tensor;
  if (name == "sparse_value" && attribute.tensor != nullptr) return attribute.tensor;
  if (name == "value_float" && kind == AttributeKind::kFloat)
    return filled(DataType::kFloat, {}, &attribute.f, sizeof(float));
  if (name == "value_int" && kind == AttributeKind::kInt)
    return filled(DataType::kInt64, {}, &attribute.i, sizeof(int64_t));
  if (name == "value_floats" && kind == AttributeKind::kFloats)
    return filled(DataType::kFloat, vector_of(attribute.floats), attribute.floats.data(), attribute.floats.size() * 4);
  if (name == "value_ints" && kind == AttributeKind::kInts)
    return filled(DataType::kInt64, vector_of(attribute.ints), attribute.ints.data(), attribute.ints.size() * 8);
  if (name == "value_string" && kind == AttributeKind::kString) return strings({}, {attribute.s});
  if (name == "value_strings" && kind == AttributeKind::kStrings)
    return strings(vector_of(attribute.strings), attribute.strings);
  return invalid_argument("A Constant's attribute \"{}\" has a name or a kind that gives no value.", name);
}

NodeFields split_node(std::string_view message) {
  using P = proto::NodeProto;
  NodeFields node;
  node.message = message;
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::bytes(P::kInput):
        node.inputs.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kOutput):
        node.outputs.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kName):
        node.name = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kOpType):
        node.op_type = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kAttribute):
        node.attributes.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kDomain):
        node.domain = plain_domain(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kOverload):
        node.overload = proto::text(reader.get_view());
        break;
      default:
        reader.skip();
    }
  }
  return node;
}

void read_denotations(std::string_view message, ValueId id, std::vector<DimDenotation>& denotations) {
  const std::string_view type = inner(message, proto::ValueInfoProto::kType);
  const std::string_view shape = inner(inner(type, proto::TypeProto::kTensor), proto::TypeProto::kShape);
  proto::Reader dims = proto::reader(shape);
  for (size_t axis = 0; dims.next(proto::TypeProto::kDim, protozero::pbf_wire_type::length_delimited); ++axis) {
    const std::string_view text = inner(proto::text(dims.get_view()), proto::TypeProto::kDimDenotation);
    if (!text.empty()) denotations.push_back({id, axis, std::string(text)});
  }
}

Result<GraphFields> split_graph(std::string_view message) {
  using P = proto::GraphProto;
  GraphFields graph;
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::bytes(P::kNode):
        graph.nodes.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kName):
        graph.name = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kDocString):
        graph.doc_string = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kInitializer):
        graph.initializers.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kInput):
        graph.inputs.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kOutput):
        graph.outputs.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kValueInfo):
        graph.value_infos.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kSparseInitializer):
        graph.sparse_initializers.push_back(proto::text(reader.get_view()));
        break;
      default:
        reader.skip();
    }
  }
  return graph;
}

std::string Function::label() const {
  std::string text = domain.empty() ? std::string(name) : format("{}.{}", domain, name);
  return overload.empty() ? text : format("{}:{}", text, overload);
}

Result<Function> read_function(ReadContext& context, std::string_view message) {
  using P = proto::FunctionProto;
  Function function;
  std::vector<std::string_view> imports;
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::bytes(P::kName):
        function.name = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kDomain):
        function.domain = plain_domain(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kOverload):
        function.overload = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kInput):
        function.inputs.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kOutput):
        function.outputs.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kAttribute):
        function.attributes.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kAttributeProto):
        function.defaults.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kNode):
        function.nodes.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kOpsetImport):
        imports.push_back(proto::text(reader.get_view()));
        break;
      default:
        reader.skip();
    }
  }
  TENON_TRY(check_name(context, function.name, "function"));
  TENON_TRY(check_name(context, function.domain, "function's domain"));
  TENON_TRY(check_name(context, function.overload, "function's overload"));
  TENON_INVALID_IF(function.domain == "tenon",
                   "Function \"{}\" is in the domain \"tenon\", which is for Tenon's own operators.", function.name);
  for (std::string_view import : imports)
    TENON_TRY_CONTEXT(add_opset_import(function.opsets, import), "while reading function \"{}\".", function.label());
  return function;
}

}  // namespace tenon::reader
