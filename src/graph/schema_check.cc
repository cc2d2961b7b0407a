// Checks a node against its schema. Unknown types pass: shape inference and kernels check them later.
#include <algorithm>

#include "graph/graph.h"
#include "graph/schema.h"

namespace tenon {

namespace {

constexpr int8_t kOptional = 1;  // SchemaParameter::option

constexpr std::string_view kKindNames[] = {"undefined",      "float", "int",     "string",  "tensor", "graph",
                                           "floats",         "ints",  "strings", "tensors", "graphs", "sparse tensor",
                                           "sparse tensors", "type",  "types"};

// AttributeProto.AttributeType of what the reader keeps; 0 for what it does not.
int proto_kind(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kFloat:
      return 1;
    case AttributeKind::kInt:
      return 2;
    case AttributeKind::kString:
      return 3;
    case AttributeKind::kTensor:
      return 4;
    case AttributeKind::kGraph:
      return 5;
    case AttributeKind::kFloats:
      return 6;
    case AttributeKind::kInts:
      return 7;
    case AttributeKind::kStrings:
      return 8;
    case AttributeKind::kOther:
      break;
  }
  return 0;
}

std::string_view kind_name(int kind) {
  return kind >= 0 && kind < static_cast<int>(std::size(kKindNames)) ? kKindNames[kind] : kKindNames[0];
}

std::string range_text(int low, int high) {
  if (low == high) return std::to_string(low);
  return high == kUnbounded ? format("{} or more", low) : format("{} to {}", low, high);
}

std::string types_text(const SchemaConstraint& constraint) {
  std::string text;
  for (int i = 1; i < 64; ++i) {
    if ((constraint.tensor_types >> i & 1) == 0) continue;
    if (!text.empty()) text += ", ";
    text += data_type_name(static_cast<DataType>(i));
  }
  return text;
}

// Whether `type` is one of those in `listed`, which have '|' between them.
bool names_type(std::string_view listed, std::string_view type) {
  while (!listed.empty()) {
    const size_t end = std::min(listed.find('|'), listed.size());
    if (listed.substr(0, end) == type) return true;
    listed.remove_prefix(std::min(end + 1, listed.size()));
  }
  return false;
}

// Attributes of kind kOther (type protos, lists of tensors) are not kept: their presence is all that is known.
Status check_attributes(const Graph& graph, const Node& node, const Schema& schema) {
  for (const SchemaAttribute& wanted : schema.attributes) {
    const Attribute* found = node.find(wanted.name);
    if (found == nullptr) {
      TENON_INVALID_IF(wanted.required, "Node {} lacks the attribute \"{}\", which {}@{} requires.", node.label(graph),
                       wanted.name, schema.name, schema.since_version);
      continue;
    }
    if (found->kind == AttributeKind::kOther && (wanted.kind > 8 || wanted.kind == 0)) continue;
    TENON_INVALID_IF(proto_kind(found->kind) != wanted.kind, "Attribute \"{}\" of node {} is of kind {}, not {}.",
                     wanted.name, node.label(graph), kind_name(proto_kind(found->kind)), kind_name(wanted.kind));
  }
  for (const Attribute& attribute : node.attributes) {
    if (attribute.name.starts_with("__")) continue;  // a note of the tool that made the model
    TENON_INVALID_IF(!schema.find_attribute(attribute.name),
                     "Node {} has the attribute \"{}\", which {}@{} does not have.", node.label(graph), attribute.name,
                     schema.name, schema.since_version);
  }
  return Status();
}

Status check_count(const Graph& graph, const Node& node, const Schema& schema, std::string_view what, size_t count,
                   int low, int high) {
  TENON_INVALID_IF(count < static_cast<size_t>(low) || count > static_cast<size_t>(high),
                   "Node {} has {} {}, and {}@{} has {}.", node.label(graph), count, what, schema.name,
                   schema.since_version, range_text(low, high));
  return Status();
}

Status check_type(const Graph& graph, const Node& node, size_t input, const SchemaParameter& parameter,
                  const SchemaConstraint& constraint) {
  const Value& value = graph.value(node.inputs[input]);
  if (!value.is_tensor || value.type == DataType::kUndefined) return Status();
  // Sparse initializers are dense here.
  if (constraint.other_types.starts_with("sparse_tensor(")) return Status();
  TENON_INVALID_IF((constraint.tensor_types >> static_cast<int>(value.type) & 1) == 0,
                   "Input {} (\"{}\") of node {} is the {} tensor \"{}\"; allowed are {}.", input, parameter.name,
                   node.label(graph), data_type_name(value.type), value.name, types_text(constraint));
  return Status();
}

Status check_inputs(const Graph& graph, const Node& node, const Schema& schema) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const std::optional<SchemaParameter> parameter = schema.input(i);
    if (!parameter) continue;
    const ValueId id = node.inputs[i];
    if (id == kNoValue) {
      TENON_INVALID_IF(parameter->option != kOptional,
                       "Node {} leaves out its input {} (\"{}\"), which is not optional.", node.label(graph), i,
                       parameter->name);
      continue;
    }
    const Value& value = graph.value(id);
    const std::optional<SchemaConstraint> constraint = schema.find_constraint(parameter->type);
    if (constraint && value.object != nullptr) {
      const std::string object = value.object->to_string();
      TENON_INVALID_IF(!names_type(constraint->other_types, object),
                       "Input {} (\"{}\") of node {} is \"{}\" of type {}; allowed are {}{}{}.", i, parameter->name,
                       node.label(graph), value.name, object, types_text(*constraint),
                       constraint->tensor_types != 0 && constraint->allows_other ? ", " : "", constraint->other_types);
    }
    if (constraint) TENON_TRY(check_type(graph, node, i, *parameter, *constraint));
  }
  return Status();
}

// The parameters that name a constraint have one type: which one, and who has it first.
struct BoundType {
  std::string_view constraint, parameter;
  ValueId id;
};

Status bind_type(const Graph& graph, const Node& node, const Schema& schema, const SchemaParameter& parameter,
                 ValueId id, std::vector<BoundType>& bound) {
  const auto is_same = [&](const BoundType& one) { return one.constraint == parameter.type; };
  const auto first = std::find_if(bound.begin(), bound.end(), is_same);
  if (first == bound.end()) {
    bound.push_back({parameter.type, parameter.name, id});
    return Status();
  }
  const Value &value = graph.value(id), &other = graph.value(first->id);
  TENON_INVALID_IF(
      value.type != other.type,
      "\"{}\" (\"{}\") and \"{}\" (\"{}\") of node {} differ in type: {} and {}; {}@{} has one ({}) for both.",
      other.name, first->parameter, value.name, parameter.name, node.label(graph), data_type_name(other.type),
      data_type_name(value.type), schema.name, schema.since_version, parameter.type);
  return Status();
}

Status check_node_types(const Graph& graph, const Node& node, const Schema& schema) {
  std::vector<BoundType> bound;
  for (size_t i = 0; i < node.inputs.size() + node.outputs.size(); ++i) {
    const bool is_input = i < node.inputs.size();
    const size_t index = is_input ? i : i - node.inputs.size();
    const ValueId id = is_input ? node.inputs[index] : node.outputs[index];
    const std::optional<SchemaParameter> parameter = is_input ? schema.input(index) : schema.output(index);
    if (id == kNoValue || !parameter || parameter->option == 3) continue;  // a list of types of their own
    const Value& value = graph.value(id);
    if (!value.is_tensor || value.type == DataType::kUndefined) continue;
    const std::optional<SchemaConstraint> constraint = schema.find_constraint(parameter->type);
    if (!constraint) continue;
    if (is_input) TENON_TRY(check_type(graph, node, index, *parameter, *constraint));
    // A sequence's tensors, and sparse ones, are named by types of their own.
    if (!constraint->allows_other) TENON_TRY(bind_type(graph, node, schema, *parameter, id, bound));
  }
  return Status();
}

}  // namespace

Status check_node(const Graph& graph, const Node& node, const Schema& schema) {
  // A deprecated operator that ONNX writes as a function still has a meaning (GroupNormalization 18); ONNX Runtime runs
  // those too, and refuses the others.
  TENON_UNSUPPORTED_IF(schema.deprecated && !schema.is_function, "Node {} uses {}, which is deprecated since opset {}.",
                       node.label(graph), schema.name, schema.since_version);
  TENON_TRY(check_count(graph, node, schema, "inputs", node.inputs.size(), schema.min_inputs, schema.max_inputs));
  TENON_TRY(check_count(graph, node, schema, "outputs", node.outputs.size(), schema.min_outputs, schema.max_outputs));
  TENON_TRY(check_attributes(graph, node, schema));
  return check_inputs(graph, node, schema);
}

Status check_element_types(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    const std::optional<Schema> schema = find_schema(node.domain, node.op_type, node.since_version);
    if (schema) TENON_TRY(check_node_types(graph, node, *schema));
    for (const Attribute& attribute : node.attributes)
      if (attribute.graph != nullptr) TENON_TRY(check_element_types(*attribute.graph));
  }
  return Status();
}

}  // namespace tenon
