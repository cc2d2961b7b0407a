// A node as EPs see it, with types, shapes and constants in one object that owns them.
#pragma once

#include <vector>

#include "ep/api/kernel.h"
#include "graph/graph.h"

namespace tenon {

// Lifetime: `view` points into this object, the graph and the node; do not move it while an EP looks at it.
struct KernelNodeData {
  KernelNodeData(const Graph& graph, const Node& node, const KernelNode& base);
  KernelNodeData(const KernelNodeData&) = delete;
  KernelNodeData& operator=(const KernelNodeData&) = delete;

  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<ConstantRef> constants;
  KernelNode view;
};

}  // namespace tenon
