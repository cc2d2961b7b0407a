#include "plan/kernel_node.h"

#include "plan/views.h"

namespace tenon {

KernelNodeData::KernelNodeData(const Graph& graph, const Node& node, const KernelNode& base) : view(base) {
  inputs.reserve(node.inputs.size());
  outputs.reserve(node.outputs.size());
  constants.reserve(node.inputs.size());
  for (ValueId id : node.inputs) {
    inputs.push_back(id == kNoValue ? TensorSpec{} : spec_of(graph.value(id)));
    constants.push_back(id == kNoValue ? nullptr : graph.value(id).constant);
  }
  for (ValueId id : node.outputs) outputs.push_back(id == kNoValue ? TensorSpec{} : spec_of(graph.value(id)));
  view.graph = &graph;
  view.node = &node;
  view.inputs = inputs;
  view.outputs = outputs;
  view.constants = constants;
}

}  // namespace tenon
