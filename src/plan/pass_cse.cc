// Merges equal constants and common subexpressions.
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "plan/node_origins.h"
#include "plan/passes.h"

namespace tenon {
namespace {

// Larger constants are weights: equal ones are rare, and reading them costs load time.
constexpr size_t kMaxUnifiedBytes = 4096;

void append(std::string& key, const void* data, size_t bytes) { key.append(static_cast<const char*>(data), bytes); }

template <typename T>
void append_number(std::string& key, T number) {
  append(key, &number, sizeof(number));
}

void append_text(std::string& key, std::string_view text) {
  append_number(key, text.size());
  key += text;
}

// Same key, same result; empty when the node cannot be compared.
std::string node_key(const Node& node) {
  std::string key;
  append_text(key, node.domain);
  append_text(key, node.op_type);
  append_number(key, node.since_version);
  append_number(key, node.outputs.size());
  for (ValueId id : node.outputs) append_number(key, id != kNoValue);
  append_number(key, node.inputs.size());
  for (ValueId id : node.inputs) append_number(key, id);
  for (const Attribute& attribute : node.attributes) {
    append_text(key, attribute.name);
    append_number(key, attribute.kind);
    switch (attribute.kind) {
      case AttributeKind::kFloat:
        append_number(key, attribute.f);
        break;
      case AttributeKind::kInt:
        append_number(key, attribute.i);
        break;
      case AttributeKind::kString:
        append_text(key, attribute.s);
        break;
      case AttributeKind::kFloats:
        append_number(key, attribute.floats.size());
        append(key, attribute.floats.data(), attribute.floats.size() * sizeof(float));
        break;
      case AttributeKind::kInts:
        append_number(key, attribute.ints.size());
        append(key, attribute.ints.data(), attribute.ints.size() * sizeof(int64_t));
        break;
      default:
        return {};
    }
  }
  return key;
}

bool is_random(std::string_view op) {
  return op.starts_with("Random") || op == "Bernoulli" || op == "Multinomial" || op == "Dropout";
}

void redirect(Graph& graph, const PerValue<ValueId>& same_as) {
  auto resolve = [&](ValueId id) { return id == kNoValue ? id : same_as[id]; };
  for (Node& node : graph.nodes) {
    for (ValueId& id : node.inputs) id = resolve(id);
    for (Attribute& attribute : node.attributes.edit_bodies()) {
      if (!attribute.graph) continue;
      if (attribute.graph.use_count() > 1) attribute.graph = std::make_shared<Graph>(*attribute.graph);
      for (auto& capture : attribute.graph->captures) capture.first = resolve(capture.first);
    }
  }
}

PerValue<ValueId> identity(const Graph& graph) {
  PerValue<ValueId> same_as(graph.values.size());
  for (ValueId id : same_as.ids()) same_as[id] = id;
  return same_as;
}

}  // namespace

Status pass_unify_constants(Graph& graph, const PassOptions&) {
  PerValue<ValueId> same_as = identity(graph);
  std::unordered_map<std::string, ValueId> first;
  for (ValueId id : graph.values.ids()) {
    const ConstantRef& constant = graph.value(id).constant;
    if (!constant || constant->size_bytes > kMaxUnifiedBytes || !constant->strings.empty()) continue;
    std::string key;
    append_number(key, constant->type);
    append_number(key, constant->shape.rank());
    append(key, constant->shape.begin(), constant->shape.dims().size() * sizeof(int64_t));
    append(key, constant->data, constant->size_bytes);
    auto [slot, fresh] = first.emplace(std::move(key), id);
    if (!fresh) same_as[id] = slot->second;
  }
  redirect(graph, same_as);
  return {};
}

Status pass_common_subexpressions(Graph& graph, const PassOptions&) {
  PerValue<ValueId> same_as = identity(graph);
  PerValue<bool> is_output(graph.values.size(), false);
  for (ValueId id : graph.outputs) is_output[id] = true;
  std::unordered_map<std::string, NodeId> first;
  for (NodeId n : graph.nodes.ids()) {
    Node& node = graph.nodes[n];
    for (ValueId& id : node.inputs)
      if (id != kNoValue) id = same_as[id];
    if (is_random(node.op_type) || node.inputs.empty()) continue;
    bool keeps_name = false;
    for (ValueId id : node.outputs) keeps_name = keeps_name || (id != kNoValue && is_output[id]);
    std::string key = node_key(node);
    if (key.empty()) continue;
    auto [slot, fresh] = first.emplace(std::move(key), n);
    // A graph output stays with its own node.
    if (fresh || keeps_name) continue;
    Node& earlier = graph.nodes[slot->second];
    take_origins(earlier, node);
    for (size_t o = 0; o < node.outputs.size(); ++o)
      if (node.outputs[o] != kNoValue) same_as[node.outputs[o]] = earlier.outputs[o];
  }
  redirect(graph, same_as);
  graph.remove_dead_nodes();
  return {};
}

}  // namespace tenon
