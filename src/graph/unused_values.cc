#include "graph/unused_values.h"

#include <algorithm>
#include <utility>

namespace tenon {

namespace {

// Sizes and other small constants stay: a ValueObserver is given what passes have computed.
constexpr size_t kSmallBytes = 4096;

bool is_shown(const Value& value) {
  return value.constant && value.constant->size_bytes <= kSmallBytes && !value.name.empty();
}

struct Uses {
  PerValue<bool> used;
  int64_t count = 0;
  bool captured = false;

  explicit Uses(const Graph& graph) : used(graph.values.size(), false), captured(!graph.captures.empty()) {
    for (const auto& [outer, inner] : graph.captures) add(inner);
    add(graph.inputs);
    add(graph.outputs);
    for (const Node& node : graph.nodes) {
      add(node.inputs);
      add(node.outputs);
      for (const Attribute& attribute : node.attributes) {
        if (!attribute.graph) continue;
        captured |= !attribute.graph->captures.empty();
        for (const auto& [outer, inner] : attribute.graph->captures) add(outer);
      }
    }
  }
  void add(std::span<const ValueId> ids) {
    for (ValueId id : ids)
      if (id != kNoValue) add(id);
  }
  void add(ValueId id) {
    count += used[id] ? 0 : 1;
    used[id] = true;
  }
};

void rename(std::vector<ValueId>& ids, const PerValue<ValueId>& moved) {
  for (ValueId& id : ids)
    if (id != kNoValue) id = moved[id];
}

}  // namespace

PerValue<ValueId> drop_unused_values(Graph& graph, FoldedValues folded) {
  Uses uses(graph);
  if (folded == FoldedValues::kStay)
    for (ValueId id : graph.values.ids())
      if (is_shown(graph.value(id))) uses.add(id);
  PerValue<ValueId> moved(graph.values.size(), kNoValue);
  if (uses.captured) {
    for (ValueId id : graph.values.ids()) {
      moved[id] = id;
      if (!uses.used[id]) graph.value(id) = Value();
    }
    return moved;
  }
  PerValue<Value> kept;
  kept.reserve(static_cast<size_t>(uses.count));
  for (ValueId id : graph.values.ids())
    if (uses.used[id]) moved[id] = kept.push_back(std::move(graph.value(id)));
  graph.values = std::move(kept);
  rename(graph.inputs, moved);
  rename(graph.outputs, moved);
  for (Node& node : graph.nodes) {
    rename(node.inputs, moved);
    rename(node.outputs, moved);
  }
  return moved;
}

std::vector<Value> clear_unused_values(Graph& graph) {
  const Uses uses(graph);
  std::vector<Value> shown;
  for (ValueId id : graph.values.ids()) {
    if (uses.used[id]) continue;
    Value value = std::exchange(graph.value(id), Value());
    if (is_shown(value)) shown.push_back(std::move(value));
  }
  return shown;
}

void clear_unused_but_shown_values(Graph& graph) {
  const Uses uses(graph);
  for (ValueId id : graph.values.ids())
    if (!uses.used[id] && !is_shown(graph.value(id))) graph.value(id) = Value();
}

}  // namespace tenon
