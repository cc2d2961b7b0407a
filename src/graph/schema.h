// Schemas of ONNX operators and of ONNX Runtime's own: rows that tools/generate_schemas.py makes from the pinned onnx
// and onnxruntime packages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
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
  int8_t option;          // 0 single, 1 optional, 2 variadic, 3 variadic with a type for each entry
};

struct SchemaConstraint {
  std::string_view name;
  uint64_t tensor_types;         // bit i: DataType i is allowed as a tensor
  bool allows_other;             // sequences, optionals or maps too
  std::string_view other_types;  // those, with '|' between them: "seq(tensor(float))|..."
};

// A list of rows, which are read out of the library's packed table one by one: an element is a value.
template <typename T>
class SchemaList {
 public:
  struct Iterator {
    using iterator_concept = std::forward_iterator_tag;
    using iterator_category = std::input_iterator_tag;  // it gives values, not references
    using difference_type = std::ptrdiff_t;
    using value_type = T;
    using reference = T;
    using pointer = void;
    T operator*() const { return read(index); }
    Iterator& operator++() { return ++index, *this; }
    Iterator operator++(int) { return {index++}; }
    bool operator==(const Iterator&) const = default;
    size_t index = 0;
  };

  SchemaList(size_t first, size_t count) : first_(first), count_(count) {}
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  T operator[](size_t index) const { return read(first_ + index); }
  Iterator begin() const { return {first_}; }
  Iterator end() const { return {first_ + count_}; }

 private:
  static T read(size_t index);

  size_t first_, count_;
};

struct Schema {
  std::string_view domain;  // "" is ai.onnx
  std::string_view name;
  int since_version;
  int min_inputs, max_inputs;  // max INT_MAX for variadic
  int min_outputs, max_outputs;
  bool deprecated;
  bool is_function;  // has a body (context dependent or not); Tenon does not expand them
  SchemaList<SchemaParameter> inputs;
  SchemaList<SchemaParameter> outputs;
  SchemaList<SchemaAttribute> attributes;
  SchemaList<SchemaConstraint> constraints;  // one for each `type` that a parameter names

  std::optional<SchemaConstraint> find_constraint(std::string_view type) const;
  std::optional<SchemaAttribute> find_attribute(std::string_view attribute) const;
  // The row of input or output `index`; the last one again for the rest of a variadic list. Nothing past the end.
  std::optional<SchemaParameter> input(size_t index) const;
  std::optional<SchemaParameter> output(size_t index) const;
};

inline constexpr int kUnbounded = 2147483647;  // max_inputs and max_outputs of variadic operators

// The schema of `name` in force at `opset`, or nothing. The domain "ai.onnx" is the same as "".
std::optional<Schema> find_schema(std::string_view domain, std::string_view name, int opset);
// The domain of ONNX Runtime's own operators.
inline constexpr std::string_view kContribDomain = "com.microsoft";

// The newest opset of a domain that the table knows (28 for ai.onnx); 0 for an unknown domain.
int newest_opset(std::string_view domain);
// The newest opset of a known domain that a model may import. Com.microsoft has no released versions: any is taken, as
// in ONNX Runtime.
int newest_readable_opset(std::string_view domain);
// Names of the domain that are close to `name` (edit distance), best first, at most 3; for messages.
std::vector<std::string> close_operator_names(std::string_view domain, std::string_view name);

// The refusal of a node whose operator no schema and no kernel knows: names node, operator, domain, opset, and what is
// close (a newer opset that has it, or similar names).
Status unknown_operator(const Graph& graph, const Node& node);
// Numbers of inputs and outputs, required inputs and attributes, attribute kinds, and those element types that are
// known.
Status check_node(const Graph& graph, const Node& node, const Schema& schema);
// The element types that shape inference has found, in the graph and its nodes' bodies: each is allowed by its
// parameter, and the parameters that name one constraint have one type.
Status check_element_types(const Graph& graph);

}  // namespace tenon
