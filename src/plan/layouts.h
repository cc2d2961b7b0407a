// Chooses the layout of each value, and inserts the reorders that the choice needs.
#pragma once

#include "ep/api/kernel.h"
#include "graph/graph.h"
#include "plan/regions.h"

namespace tenon {

// Asks each node's provider, node by node, in order. A value that is needed in another layout is reordered once, by a
// tenon.Reorder node before its first use. Graph inputs and outputs and constants stay plain. Shapes must be known.
// `base` carries what every KernelNode shares (pool, weights, winograd).
Status assign_layouts(Graph& graph, const Providers& providers, const KernelNode& base);

}  // namespace tenon
