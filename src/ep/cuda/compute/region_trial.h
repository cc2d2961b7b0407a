// Tries the regions that claims would make, before a host is told of them: a claim is a promise, and a stock host ends
// a session whose region does not compile.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace tenon::cuda {

struct SettledClaims {
  PerNode<int> groups;                // as group_nodes() gives them; all of their regions have been lowered
  std::vector<std::string> refusals;  // a sentence for each node or region that was given back
};

// Groups the claimed nodes; where a region cannot be lowered, the node that is the reason loses its claim, or all nodes
// of that region where none can be named, and the rest is grouped anew. Sizes that are symbols are tried with numbers:
// those that contradict each other say nothing.
SettledClaims settle_claims(const Graph& graph, PerNode<bool> claimed, const PerNode<bool>& barriers, bool tf32);

// The nodes of a group as a graph of their own, in order.
Graph region_graph(const Graph& graph, const PerNode<int>& groups, int group);

// OK where the region can be lowered, for each rank that fits where ranks are not known. `culprit` gets the name of the
// value whose node cannot; "" where that is not known.
Status try_region(Graph region, bool tf32, std::string& culprit);

}  // namespace tenon::cuda
