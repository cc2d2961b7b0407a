// Takes out of Loops what no iteration changes: carried values that the body hands on as they are become captures (or
// constants of the body, so that its weights are packed once), and nodes that read nothing else run once, before the
// loop.
#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/shape_inference.h"
#include "ops/unary.h"
#include "plan/passes.h"

namespace tenon {
namespace {

constexpr size_t kFirstCarried = 2;  // of a Loop's and its body's inputs: after trip count and condition

// Outer values by the body's values that stand for them; kNoValue for the body's constants.
using Invariants = std::unordered_map<ValueId, ValueId>;

// What a value is before any Identity.
ValueId behind_identities(const Graph& graph, const PerValue<NodeId>& producers, ValueId id) {
  while (producers[id].valid()) {
    const Node& node = graph.nodes[producers[id]];
    if (node.op_type != "Identity" || !node.domain.empty() || node.input(0) == kNoValue) break;
    id = node.inputs[0];
  }
  return id;
}

// A node whose result only depends on its inputs, that fails for no data, and that is worth a value between the loop
// and it. It runs even if the loop then has no iteration.
bool may_move(const Node& node) {
  constexpr std::string_view kProducts[] = {"MatMul", "Gemm", "Conv"};
  constexpr std::string_view kWithThem[] = {"Transpose", "Add", "Sub", "Mul", "Identity", "Softmax"};
  if (!node.domain.empty()) return false;
  const auto is = [&](std::string_view name) { return node.op_type == name; };
  return std::any_of(std::begin(kProducts), std::end(kProducts), is) ||
         std::any_of(std::begin(kWithThem), std::end(kWithThem), is) || is_unary(node);
}

class LoopInvariants {
 public:
  LoopInvariants(Graph& graph, Node& node, Graph& body) : graph_(graph), node_(node), body_(body) {}

  // Outputs of the loop that are values from before it: {output, value}.
  std::vector<std::pair<ValueId, ValueId>> release_carried() {
    std::vector<std::pair<ValueId, ValueId>> released;
    if (node_.inputs.size() < kFirstCarried) return released;
    const size_t carried = node_.inputs.size() - kFirstCarried;
    if (body_.inputs.size() != kFirstCarried + carried || body_.outputs.size() < 1 + carried) return released;
    const PerValue<NodeId> producers = body_.producers();
    for (size_t i = carried; i-- > 0;) {
      const ValueId inner = body_.inputs[kFirstCarried + i], outer = node_.inputs[kFirstCarried + i];
      if (outer == kNoValue || !graph_.value(outer).is_tensor) continue;
      if (behind_identities(body_, producers, body_.outputs[1 + i]) != inner) continue;
      capture(outer, inner);
      body_.inputs.erase(body_.inputs.begin() + static_cast<std::ptrdiff_t>(kFirstCarried + i));
      body_.outputs.erase(body_.outputs.begin() + static_cast<std::ptrdiff_t>(1 + i));
      node_.inputs.erase(node_.inputs.begin() + static_cast<std::ptrdiff_t>(kFirstCarried + i));
      if (i >= node_.outputs.size()) continue;
      if (node_.outputs[i] != kNoValue) released.emplace_back(node_.outputs[i], outer);
      node_.outputs.erase(node_.outputs.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return released;
  }

  // Nodes of the body that are to run before the loop, with the outer graph's values.
  std::vector<Node> take_nodes() {
    Invariants invariants;
    for (const auto& [outer, inner] : body_.captures) invariants[inner] = outer;
    std::vector<Node> taken;
    PerNode<Node> kept;
    for (Node& node : body_.nodes) {
      if (moves(node, invariants)) {
        taken.push_back(moved(std::move(node), invariants));
      } else {
        kept.push_back(std::move(node));
      }
    }
    body_.nodes = std::move(kept);
    return taken;
  }

 private:
  void capture(ValueId outer, ValueId inner) {
    const ConstantRef& constant = graph_.value(outer).constant;
    if (constant == nullptr) {
      body_.captures.emplace_back(outer, inner);
      return;
    }
    Value& value = body_.value(inner);
    value.constant = constant;
    value.type = constant->type;
    value.set_shape(constant->shape);
  }

  bool moves(const Node& node, const Invariants& invariants) const {
    if (!may_move(node)) return false;
    bool reads_capture = false;
    for (ValueId id : node.inputs) {
      if (id == kNoValue || body_.value(id).constant != nullptr) continue;
      if (!invariants.contains(id)) return false;
      reads_capture = true;
    }
    return reads_capture;
  }

  Node moved(Node node, Invariants& invariants) {
    for (ValueId& id : node.inputs) {
      if (id == kNoValue) continue;
      const Value& value = body_.value(id);
      id = value.constant != nullptr ? graph_.add_constant(value.name, value.constant) : invariants.at(id);
    }
    for (ValueId& id : node.outputs) {
      if (id == kNoValue) continue;
      const ValueId outer = graph_.add_value(body_.value(id));
      body_.captures.emplace_back(outer, id);
      invariants[id] = outer;
      id = outer;
    }
    return node;
  }

  Graph& graph_;
  Node& node_;
  Graph& body_;
};

// Everything that reads `from` reads `to`, also in subgraphs.
void read_instead(Graph& graph, ValueId from, ValueId to) {
  for (Node& node : graph.nodes) {
    std::replace(node.inputs.begin(), node.inputs.end(), from, to);
    for (Attribute& attribute : node.attributes.edit_bodies()) {
      if (!attribute.graph) continue;
      auto& captures = attribute.graph->captures;
      if (std::none_of(captures.begin(), captures.end(), [&](const auto& one) { return one.first == from; })) continue;
      if (attribute.graph.use_count() > 1) attribute.graph = std::make_shared<Graph>(*attribute.graph);
      for (auto& [outer, inner] : attribute.graph->captures)
        if (outer == from) outer = to;
    }
  }
}

Attribute* body_of(Node& node) {
  if (node.op_type != "Loop" || !node.domain.empty()) return nullptr;
  for (Attribute& attribute : node.attributes.edit_bodies())
    if (attribute.name == "body" && attribute.graph) return &attribute;
  return nullptr;
}

}  // namespace

Status pass_loop_invariants(Graph& graph, const PassOptions&) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.op_type == "Loop"; }))
    return {};
  PerNode<Node> nodes;
  std::vector<std::pair<ValueId, ValueId>> released;
  bool changed = false;
  for (Node& node : graph.nodes) {
    if (Attribute* body = body_of(node)) {
      if (body->graph.use_count() > 1) body->graph = std::make_shared<Graph>(*body->graph);
      LoopInvariants loop(graph, node, *body->graph);
      const auto outputs = loop.release_carried();
      std::vector<Node> before = loop.take_nodes();
      changed |= !outputs.empty() || !before.empty();
      for (Node& one : before) nodes.push_back(std::move(one));
      for (const auto& [output, value] : outputs) {
        // An output of the graph keeps its value.
        if (std::find(graph.outputs.begin(), graph.outputs.end(), output) == graph.outputs.end()) {
          released.emplace_back(output, value);
          continue;
        }
        Node copy{.op_type = "Identity", .since_version = 1};
        copy.inputs = {value};
        copy.outputs = {output};
        nodes.push_back(std::move(copy));
      }
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  // In the order of the nodes, so that a value which one loop hands to the next one is followed to its beginning.
  for (auto it = released.rbegin(); it != released.rend(); ++it) read_instead(graph, it->first, it->second);
  if (!changed) return {};
  graph.remove_dead_nodes();
  return infer_shapes(graph);
}

}  // namespace tenon
