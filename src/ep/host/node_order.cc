#include "ep/host/node_order.h"

#include <algorithm>
#include <utility>

namespace tenon::abi {

namespace {

// The nodes that make what a node reads, ascending.
std::vector<NodeId> producers_of(const Node& node, const PerValue<NodeId>& producers) {
  std::vector<NodeId> found;
  const auto add = [&](ValueId id) {
    if (id == kNoValue) return;
    const NodeId producer = producers[id];
    if (producer.valid()) found.push_back(producer);
  };
  for (ValueId id : node.inputs) add(id);
  for (const Attribute& attribute : node.attributes) {
    if (attribute.kind != AttributeKind::kGraph || !attribute.graph) continue;
    for (const auto& [outer, inner] : attribute.graph->captures) add(outer);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace

std::vector<NodeId> reference_order(const Graph& graph) {
  const PerValue<NodeId> producers = graph.producers();
  PerNode<std::vector<NodeId>> before(graph.nodes.size());
  PerNode<bool> is_read(graph.nodes.size()), visited(graph.nodes.size());
  for (NodeId n : graph.nodes.ids()) {
    before[n] = producers_of(graph.nodes[n], producers);
    for (NodeId producer : before[n]) is_read[producer] = true;
  }
  std::vector<NodeId> order;
  order.reserve(graph.nodes.size());
  std::vector<std::pair<NodeId, bool>> stack;  // a node, and whether what comes before it is listed
  for (NodeId n : graph.nodes.ids())
    if (!is_read[n]) stack.emplace_back(n, false);
  while (!stack.empty()) {
    const auto [n, listed] = stack.back();
    stack.pop_back();
    if (listed) {
      order.push_back(n);
      continue;
    }
    if (visited[n]) continue;
    visited[n] = true;
    stack.emplace_back(n, true);
    for (NodeId producer : before[n])
      if (!visited[producer]) stack.emplace_back(producer, false);
  }
  return order;
}

}  // namespace tenon::abi
