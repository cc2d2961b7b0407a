// Chooses the nodes of a host's graph that the CUDA EP claims, and groups them into regions. Shapes may be symbols.
#pragma once

#include "graph/graph.h"

namespace tenon::cuda {

// For each node, whether a region on this device can have it. Nodes that only compute shapes are taken too, where
// everything that reads them is.
PerNode<bool> claim_nodes(const Graph& graph);

// The region of each node, counted from 0; -1 for nodes that are not claimed. Regions are convex, and each follows
// those of smaller numbers only. The nodes are in topological order. What needs a size from outside of its region loses
// its claim: it could not be planned. `barriers` (one a node): reads or makes more than the node says (nodes with
// subgraphs), so nothing passes it.
PerNode<int> group_nodes(const Graph& graph, PerNode<bool> claimed, const PerNode<bool>& barriers);

}  // namespace tenon::cuda
