// Runs a graph node by node, so that results before and after passes can be compared.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph_maker.h"
#include "plan/pass_table.h"

namespace tenon {

// The CPU EP's kernels, on this thread.
EvaluateNode cpu_evaluate();

// Numbers for the inputs: float32 in -2 to 2, integers in 0 to 8. Symbols become `symbol`.
std::vector<ConstantRef> make_inputs(const Graph& graph, int64_t symbol);
// The outputs; an error names the node.
Result<std::vector<ConstantRef>> interpret(Graph graph, const std::vector<ConstantRef>& inputs);
// A copy whose inputs have the shapes of `inputs`.
Graph with_shapes(Graph graph, const std::vector<ConstantRef>& inputs);

// Runs the passes of `phase` whose names are in `names` (all when empty) after inferring shapes.
Status run_named(Graph& graph, PassPhase phase, const std::vector<std::string>& names);

// The largest difference of two float32 tensors over the largest magnitude; infinity when types or shapes differ.
double relative_difference(const Constant& a, const Constant& b);

// The operators left after both phases, in order, "tenon." before internal ones, with their activation and whether they
// have a residual. Symbols are `symbol` in the second one. Text of an error where results have changed.
std::string operators_after(GraphMaker& maker, int64_t symbol = 3);

}  // namespace tenon
