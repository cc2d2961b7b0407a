// The order in which views list nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tenon::abi {

// Every input before its use, as the reference orders them: depth first from the nodes whose outputs no node reads, in
// the order of the graph, and at each node to the latest of its producers first. EPs that cut a graph at what they see
// in a row find the same parts so.
std::vector<NodeId> reference_order(const Graph& graph);

}  // namespace tenon::abi
