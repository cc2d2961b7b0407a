#include "ep/host/node_order.h"

#include <algorithm>
#include <utility>

namespace tenon::abi {

namespace {

// The nodes that make what a node reads, ascending.
std::vector<int32_t> producers_of(const Node& node, const PerValue<int32_t>& producers) {
  std::vector<int32_t> found;
  const auto add = [&](ValueId id) {
    if (id == kNoValue) return;
    const int32_t producer = producers[id];
    if (producer >= 0) found.push_back(producer);
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

std::vector<int32_t> reference_order(const Graph& graph) {
  const PerValue<int32_t> producers = graph.producers();
  std::vector<std::vector<int32_t>> before(graph.nodes.size());
  std::vector<bool> is_read(graph.nodes.size()), visited(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    before[n] = producers_of(graph.nodes[n], producers);
    for (int32_t producer : before[n]) is_read[static_cast<size_t>(producer)] = true;
  }
  std::vector<int32_t> order;
  order.reserve(graph.nodes.size());
  std::vector<std::pair<int32_t, bool>> stack;  // a node, and whether what comes before it is listed
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (!is_read[n]) stack.emplace_back(static_cast<int32_t>(n), false);
  while (!stack.empty()) {
    const auto [node, listed] = stack.back();
    stack.pop_back();
    const auto n = static_cast<size_t>(node);
    if (listed) {
      order.push_back(node);
      continue;
    }
    if (visited[n]) continue;
    visited[n] = true;
    stack.emplace_back(node, true);
    for (int32_t producer : before[n])
      if (!visited[static_cast<size_t>(producer)]) stack.emplace_back(producer, false);
  }
  return order;
}

}  // namespace tenon::abi
