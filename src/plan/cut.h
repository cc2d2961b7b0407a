// Cuts a graph where shapes depend on data: a part that can be planned now, and the rest.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"

namespace tenon {

// True for operators whose output shapes follow from the data itself (NonZero), so that only running them tells.
bool is_dynamic_operator(const Node& node);

struct CutGraph {
  Graph now;
  std::vector<OutputSlot> output_slots;  // of now.outputs; none: a value for the rest
  std::unique_ptr<PlanCut> cut;          // null when everything can be planned now; locations are not yet set
  std::vector<ValueId> cut_values;       // of `now`, one for each of cut->values
};

// `graph` must be inferred with concrete input shapes. `values_vary`: values that set shapes are others in each run (an
// iteration's number), so that a kernel that reads them is better than a plan for each of them. Errors: kUnsupported
// naming a node whose output shape cannot be found although all its inputs are known.
Result<CutGraph> cut_graph(Graph graph, std::span<const OutputSlot> output_slots, bool values_vary = false);

}  // namespace tenon
