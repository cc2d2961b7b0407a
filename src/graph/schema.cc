#include "graph/schema.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/edit_distance.h"
#include "graph/graph.h"

namespace tenon {

namespace {

// A row as generated: its lists are places in the arrays above it.
struct Row {
  std::string_view domain, name;
  int since_version, min_inputs, max_inputs, min_outputs, max_outputs;
  bool deprecated, is_function;
  int first_input, inputs, first_output, outputs, first_attribute, attributes, first_constraint, constraints;
};

#include "graph/schema_table.inc"

template <typename T>
constexpr std::span<const T> slice(const T* items, int first, int count) {
  return {items + first, static_cast<size_t>(count)};
}

constexpr Schema from_row(const Row& row) {
  return Schema{.domain = row.domain,
                .name = row.name,
                .since_version = row.since_version,
                .min_inputs = row.min_inputs,
                .max_inputs = row.max_inputs,
                .min_outputs = row.min_outputs,
                .max_outputs = row.max_outputs,
                .deprecated = row.deprecated,
                .is_function = row.is_function,
                .inputs = slice(kParameters, row.first_input, row.inputs),
                .outputs = slice(kParameters, row.first_output, row.outputs),
                .attributes = slice(kAttributes, row.first_attribute, row.attributes),
                .constraints = slice(kConstraints, row.first_constraint, row.constraints)};
}

constexpr auto kSchemas = [] {
  std::array<Schema, std::size(kRows)> schemas{};
  for (size_t i = 0; i < schemas.size(); ++i) schemas[i] = from_row(kRows[i]);
  return schemas;
}();

constexpr int kOldestOnnxOpset = 7;  // what the reader takes; the table goes back to 1

std::string_view plain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }
std::string_view shown(std::string_view domain) { return domain.empty() ? "ai.onnx" : domain; }

// The rows of ONNX's own operators by name: passes and shape inference look them up for each node several times.
using OnnxRows = std::unordered_map<std::string_view, std::span<const Schema>>;
const OnnxRows& onnx_rows() {
  static const OnnxRows rows = [] {
    OnnxRows made;
    for (const Schema& schema : kSchemas) {
      if (!schema.domain.empty()) continue;
      std::span<const Schema>& versions = made[schema.name];
      versions = versions.empty() ? std::span(&schema, 1) : std::span(versions.data(), versions.size() + 1);
    }
    return made;
  }();
  return rows;
}

// The rows of one operator, oldest first.
std::span<const Schema> versions(std::string_view domain, std::string_view name) {
  if (plain(domain).empty()) {
    const auto found = onnx_rows().find(name);
    return found == onnx_rows().end() ? std::span<const Schema>() : found->second;
  }
  struct Less {
    using Key = std::pair<std::string_view, std::string_view>;
    bool operator()(const Schema& a, const Key& b) const { return Key(a.domain, a.name) < b; }
    bool operator()(const Key& a, const Schema& b) const { return a < Key(b.domain, b.name); }
  };
  const auto [first, last] =
      std::equal_range(std::begin(kSchemas), std::end(kSchemas), Less::Key(plain(domain), name), Less{});
  return {first, last};
}

const SchemaParameter* parameter_at(std::span<const SchemaParameter> parameters, size_t index) {
  if (index < parameters.size()) return &parameters[index];
  return !parameters.empty() && parameters.back().option == 2 ? &parameters.back() : nullptr;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += (i > 0 ? ", " : "") + names[i];
  return text;
}

}  // namespace

const SchemaConstraint* Schema::find_constraint(std::string_view type) const {
  for (const SchemaConstraint& constraint : constraints)
    if (constraint.name == type) return &constraint;
  return nullptr;
}

const SchemaAttribute* Schema::find_attribute(std::string_view attribute) const {
  for (const SchemaAttribute& candidate : attributes)
    if (candidate.name == attribute) return &candidate;
  return nullptr;
}

const SchemaParameter* Schema::input(size_t index) const { return parameter_at(inputs, index); }
const SchemaParameter* Schema::output(size_t index) const { return parameter_at(outputs, index); }

const Schema* find_schema(std::string_view domain, std::string_view name, int opset) {
  const Schema* found = nullptr;
  for (const Schema& schema : versions(domain, name))
    if (schema.since_version <= opset) found = &schema;
  return found;
}

int newest_opset(std::string_view domain) {
  if (plain(domain).empty()) return kNewestOnnxOpset;
  return domain == "ai.onnx.ml" ? kNewestMlOpset : 0;
}

std::vector<std::string> close_operator_names(std::string_view domain, std::string_view name) {
  constexpr size_t kLongestName = 128;  // distances cost the product of the lengths, and the name is the model's
  constexpr size_t kMostNames = 3;
  if (name.size() > kLongestName) return {};
  std::vector<std::pair<size_t, std::string_view>> close;
  const size_t farthest = std::min(std::max<size_t>(2, name.size() / 3), std::max<size_t>(name.size(), 1) - 1);
  for (const Schema& schema : kSchemas) {
    if (schema.domain != plain(domain) || (!close.empty() && close.back().second == schema.name)) continue;
    const size_t distance = edit_distance(name, schema.name);
    if (distance <= farthest) close.emplace_back(distance, schema.name);
  }
  std::sort(close.begin(), close.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(close.size(), kMostNames); ++i) names.emplace_back(close[i].second);
  return names;
}

Status unknown_operator(const Graph& graph, const Node& node) {
  const int opset = graph.opset(node.domain);
  std::string known;
  if (newest_opset(node.domain) == 0) {
    known = format("No operator of this domain is known; known are ai.onnx (opsets {} to {}) and ai.onnx.ml (1 to {})",
                   kOldestOnnxOpset, kNewestOnnxOpset, kNewestMlOpset);
  } else if (const auto rows = versions(node.domain, node.op_type); !rows.empty()) {
    known = format("It exists from opset {} on", rows.front().since_version);
  } else if (const auto names = close_operator_names(node.domain, node.op_type); !names.empty()) {
    known = format("Close names are {}", joined(names));
  } else {
    known = "No known operator has a name like it";
  }
  return unsupported("Node {} needs the operator \"{}\" of domain {} at opset {}, which is not known. {}.",
                     node.label(graph), node.op_type, shown(node.domain), opset, known);
}

}  // namespace tenon
