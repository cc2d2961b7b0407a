#include "graph/reader_scope.h"

namespace tenon::reader {

namespace {

Value typed_copy(const Value& from, std::string name) {
  Value value;
  value.name = std::move(name);
  value.type = from.type;
  value.is_tensor = from.is_tensor;
  value.object = from.object;
  value.has_rank = from.has_rank;
  value.dims = from.dims;
  value.constant = from.constant;
  return value;
}

// The value of `source` as seen in `target`, a level inside it; every level between captures it.
Result<ValueId> import(Level* target, Level* source, ValueId id, size_t& captures_left) {
  if (target == source) return id;
  if (target == nullptr) return internal_error("A captured value comes from a graph that is not around its reader.");
  TENON_TRY_ASSIGN(const ValueId outer, import(target->parent, source, id, captures_left));
  if (const auto known = target->imported.find(outer); known != target->imported.end()) return known->second;
  if (captures_left == 0) return resource_exhausted("The subgraphs capture more values than the limit allows.");
  --captures_left;
  const Value& from = source->graph.value(id);
  const ValueId inner = target->add(typed_copy(from, from.name), Level::kCaptured);
  target->graph.captures.emplace_back(outer, inner);
  target->imported.emplace(outer, inner);
  return inner;
}

}  // namespace

ValueId Level::add(Value value, int32_t where) {
  defined_at.push_back(where);
  return graph.add_value(std::move(value));
}

ValueId Scope::read(std::string_view name) {
  if (name.empty()) return kNoValue;
  const auto [place, is_new] = names.try_emplace(name, kNoValue);
  if (is_new) {
    Value value;
    value.name = name;
    place->second = level->add(std::move(value), Level::kPending);
    pending.emplace_back(name, place->second);
  }
  return place->second;
}

Result<ValueId> Scope::define(std::string_view name, const char* what) {
  const auto [place, is_new] = names.try_emplace(name, kNoValue);
  ValueId& id = place->second;
  if (!is_new) {
    if (awaited.erase(name) > 0) return id;
    TENON_INVALID_IF(id == kNoValue || level->defined_at[id] != Level::kPending,
                     "The {} \"{}\" has a name that something else in graph \"{}\" has already.", what, name,
                     level->graph.name);
    level->defined_at[id] = level->position;
  } else {
    Value value;
    value.name = name;
    id = level->add(std::move(value), level->position);
  }
  if (call) {
    level->graph.value(id).name = call->prefix + "/" + std::string(name);
    level->generated.push_back(id);
  }
  if (lexical_parent && level->position > 0 && !level->may_hide) TENON_TRY(check_shadowing(name));
  return id;
}

// ONNX forbids that a node's output hides a value of an enclosing graph that its node could have read. Inputs and
// initializers of a subgraph may hide one: exporters write such models, and the meaning is clear.
Status Scope::check_shadowing(std::string_view name) const {
  int32_t seen_from = position;
  for (const Scope* outer = lexical_parent.get(); outer != nullptr; outer = outer->lexical_parent.get()) {
    if (const auto found = outer->names.find(name); found != outer->names.end() && found->second != kNoValue) {
      const int32_t defined = outer->level->defined_at[found->second];
      TENON_INVALID_IF(defined < seen_from,
                       "A node of subgraph \"{}\" makes \"{}\", which hides a value of an enclosing graph.",
                       level->graph.name, name);
    }
    seen_from = outer->position;
  }
  return Status();
}

Status Scope::undefined(std::string_view name, ValueId id) const {
  const char* suffix = call ? " of its function" : "";
  for (const Node& node : level->graph.nodes) {
    for (ValueId input : node.inputs) {
      TENON_INVALID_IF(input == id, "Node {} reads \"{}\", which no node, input or initializer{} makes.",
                       node.label(level->graph), name, suffix);
    }
  }
  return invalid_argument("Graph \"{}\" reads \"{}\", which no node, input or initializer{} makes.", level->graph.name,
                          name, suffix);
}

Status Scope::resolve_pending(size_t& captures_left) {
  for (const auto& [name, id] : pending) {
    if (level->defined_at[id] != Level::kPending) continue;
    const Scope* outer = lexical_parent.get();
    auto found = names.cend();
    for (; outer != nullptr; outer = outer->lexical_parent.get()) {
      found = outer->names.find(name);
      if (found != outer->names.cend()) break;
    }
    if (outer == nullptr || found->second == kNoValue) return undefined(name, id);
    Level* const source = outer->level;
    level->graph.value(id) = typed_copy(source->graph.value(found->second), level->graph.value(id).name);
    level->defined_at[id] = Level::kCaptured;
    if (level->graph.value(id).constant) continue;  // a constant is shared, not captured
    TENON_TRY_ASSIGN(const ValueId in_parent, import(level->parent, source, found->second, captures_left));
    level->graph.captures.emplace_back(in_parent, id);
  }
  pending.clear();
  return Status();
}

}  // namespace tenon::reader
