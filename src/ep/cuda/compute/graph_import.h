// A host's graph as one of ours, for claiming and for compiling.
#pragma once

#include <vector>

#include "ep/sdk/plugin_graph.h"
#include "graph/graph.h"

namespace tenon::cuda {

struct ImportedGraph {
  Graph graph;
  PerNode<plugin::GraphNode> nodes;  // the host's
};

// Nodes with their attributes, values and constants. The bytes of initializers are the host's and valid as long as its
// graph: such constants have no owner. The graph's inputs and outputs are left empty: whoever asks knows
// which values count. Nodes with subgraphs keep none of them. Errors: what the host says.
Result<ImportedGraph> import_graph(const plugin::HostApi& host, const OrtGraph* graph);

// The value of this name; kNoValue when the graph has none.
ValueId find_value(const Graph& graph, const std::string& name);

}  // namespace tenon::cuda
