// If, Loop and Scan in a plan: their bodies are graphs of their own, which read values around them (captures).
#pragma once

#include <cstddef>
#include <string_view>

#include "graph/graph.h"

namespace tenon {

// An If, Loop or Scan of ONNX.
bool is_control_flow(const Node& node);

// The captures of every If, Loop and Scan become inputs, so that what follows sees them as such: those that are
// constants are put into the bodies, the others are appended to the node's inputs, and each body has them as inputs
// after its own. Outputs that nobody reads become absent. The rest of the planner then treats such a node as any other.
void lower_control_flow(Graph& graph);

// Of a lowered node: how many inputs are the operator's own.
size_t own_inputs(const Node& node);
// Which of a lowered node's inputs the body in `attribute` gets after its own ones.
struct CapturedInputs {
  size_t first = 0;
  size_t count = 0;
};
CapturedInputs captured_inputs(const Node& node, std::string_view attribute);

}  // namespace tenon
