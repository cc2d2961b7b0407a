// The work that a node's results take at least, from its operator and shapes alone.
#pragma once

#include "runtime/node_observer.h"

namespace tenon {

struct NodeCost {
  // Float or integer operations: of products their multiplications and additions, of anything else one for each element
  // of the larger of first input and outputs.
  double flops = 0;
  double bytes = 0;  // each input that is read and each output once
};

NodeCost node_cost(const NodeRun& node);

}  // namespace tenon
