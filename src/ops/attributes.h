// Reads the attributes of a node. An attribute that the node leaves out has the default of its operator's schema, so
// that no reader states a default of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "graph/graph.h"
#include "graph/schema.h"

namespace tenon {

// The row of `attribute` for this node: of the schema in force for it; of the newest schema of the operator where that
// version did not have the attribute yet (operators get attributes whose default is what they did before); of an
// internal operator (docs/reference/internal-operators.md). Nothing if no version has it.
std::optional<SchemaAttribute> find_schema_attribute(const Node& node, std::string_view attribute);

// Asking for the default of an attribute that has none, or that no version of the operator has, is a defect of the
// caller and ends in TENON_CHECK: the find_ functions are for those. check_node (graph/schema.h) has refused nodes
// without a required attribute. An attribute whose kind is not the one asked for counts as left out.
//
// Borrows the node. Threads: as const access to the node.
class Attributes {
 public:
  explicit Attributes(const Node& node) : node_(node) {}

  // True if the node states it.
  bool has(std::string_view name) const { return node_.has(name); }

  int64_t integer(std::string_view name) const;
  bool flag(std::string_view name) const { return integer(name) != 0; }
  float number(std::string_view name) const;
  std::string_view text(std::string_view name) const;

  // For attributes without a default: nullopt, or an empty list, where they are left out.
  std::optional<int64_t> find_integer(std::string_view name) const;
  std::optional<float> find_number(std::string_view name) const;
  std::optional<std::string_view> find_text(std::string_view name) const;
  std::span<const int64_t> integers(std::string_view name) const;
  std::span<const float> numbers(std::string_view name) const;
  std::span<const std::string> texts(std::string_view name) const;
  // Null where it is left out.
  ConstantRef tensor(std::string_view name) const;
  const Graph* graph(std::string_view name) const;

 private:
  const Attribute* find(std::string_view name, AttributeKind kind) const;
  // The default's text. Ends in TENON_CHECK without one.
  std::string_view default_text(std::string_view name) const;

  const Node& node_;
};

}  // namespace tenon
