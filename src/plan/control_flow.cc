#include "plan/control_flow.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/attributes.h"

namespace tenon {

namespace {

constexpr std::string_view kOwnInputs = "tenon.own_inputs";

std::string captured_name(std::string_view attribute) { return "tenon.captured." + std::string(attribute); }

void lower(Graph& graph, Node& node) {
  node.set_int(kOwnInputs, static_cast<int64_t>(node.inputs.size()));
  std::vector<Attribute>& attributes = node.attributes.edit();
  const size_t count = attributes.size();
  for (size_t a = 0; a < count; ++a) {
    if (!attributes[a].graph) continue;
    std::shared_ptr<Graph> body = std::move(attributes[a].graph);
    if (body.use_count() > 1) body = std::make_shared<Graph>(*body);
    const PerValue<int32_t> uses = body->use_counts();
    const auto first = static_cast<int64_t>(node.inputs.size());
    for (const auto& [outer, inner] : body->captures) {
      if (uses[inner] == 0) continue;
      Value& value = body->value(inner);
      value.constant = graph.value(outer).constant;
      if (value.constant) continue;
      node.inputs.push_back(outer);
      body->inputs.push_back(inner);
    }
    body->captures.clear();
    attributes[a].graph = std::move(body);
    node.set_ints(captured_name(attributes[a].name), {first, static_cast<int64_t>(node.inputs.size()) - first});
  }
}

}  // namespace

bool is_control_flow(const Node& node) {
  return node.domain.empty() && (node.op_type == "If" || node.op_type == "Loop" || node.op_type == "Scan");
}

void lower_control_flow(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (is_control_flow(node)) lower(graph, node);
  }
  // An output that nobody reads is none: its value is not brought anywhere.
  const PerValue<int32_t> uses = graph.use_counts();
  for (Node& node : graph.nodes) {
    if (!is_control_flow(node)) continue;
    for (ValueId& id : node.outputs) {
      if (id != kNoValue && uses[id] == 0) id = kNoValue;
    }
  }
}

size_t own_inputs(const Node& node) {
  return static_cast<size_t>(
      Attributes(node).find_integer(kOwnInputs).value_or(static_cast<int64_t>(node.inputs.size())));
}

CapturedInputs captured_inputs(const Node& node, std::string_view attribute) {
  const std::span<const int64_t> range = Attributes(node).integers(captured_name(attribute));
  if (range.size() != 2) return {};
  return {static_cast<size_t>(range[0]), static_cast<size_t>(range[1])};
}

}  // namespace tenon
