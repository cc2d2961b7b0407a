// Schemas of ONNX operators: rows that tools/generate_schemas.py makes from the pinned onnx package.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon {

class Graph;
struct Node;

struct SchemaAttribute {
  std::string_view name;
  int8_t kind;  // AttributeProto.AttributeType
  bool required;
  // As text, entries of a list with '|' between them; data() is null when there is no default.
  std::string_view default_value;
};

struct SchemaParameter {
  std::string_view name;
  std::string_view type;  // a constraint's name, or a type such as "tensor(int64)"
  int8_t option;          // 0 single, 1 optional, 2 variadic
};

struct SchemaConstraint {
  std::string_view name;
  uint64_t tensor_types;         // bit i: DataType i is allowed as a tensor
  bool allows_other;             // sequences, optionals or maps too
  std::string_view other_types;  // those, with '|' between them: "seq(tensor(float))|..."
};

struct Schema {
  std::string_view domain;  // "" is ai.onnx
  std::string_view name;
  int since_version;
  int min_inputs, max_inputs;  // max INT_MAX for variadic
  int min_outputs, max_outputs;
  bool deprecated;
  bool is_function;  // has a body (context dependent or not); Tenon does not expand them
  std::span<const SchemaParameter> inputs;
  std::span<const SchemaParameter> outputs;
  std::span<const SchemaAttribute> attributes;
  std::span<const SchemaConstraint> constraints;  // one for each `type` that a parameter names

  const SchemaConstraint* find_constraint(std::string_view type) const;
  const SchemaAttribute* find_attribute(std::string_view attribute) const;
  // The row of input or output `index`; the last one again for the rest of a variadic list. Null past the end.
  const SchemaParameter* input(size_t index) const;
  const SchemaParameter* output(size_t index) const;
};

inline constexpr int kUnbounded = 2147483647;  // max_inputs and max_outputs of variadic operators

// The schema of `name` in force at `opset`, or null. The domain "ai.onnx" is the same as "".
const Schema* find_schema(std::string_view domain, std::string_view name, int opset);
// The newest opset of a domain that the table knows (28 for ai.onnx); 0 for an unknown domain.
int newest_opset(std::string_view domain);
// Names of the domain that are close to `name` (edit distance), best first, at most 3; for messages.
std::vector<std::string> close_operator_names(std::string_view domain, std::string_view name);

// The refusal of a node whose operator no schema and no kernel knows: names node, operator, domain, opset, and what is
// close (a newer opset that has it, or similar names).
Status unknown_operator(const Graph& graph, const Node& node);
// Numbers of inputs and outputs, required inputs and attributes, attribute kinds, and those element types that are
// known.
Status check_node(const Graph& graph, const Node& node, const Schema& schema);

}  // namespace tenon
