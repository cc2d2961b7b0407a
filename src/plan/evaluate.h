// Runs one node whose inputs are constants, at load or plan time.
#pragma once

#include <vector>

#include "ep/api/kernel.h"
#include "graph/graph.h"
#include "plan/fold.h"

namespace tenon {

// The outputs of `node`, in order (null where absent). The input values must have constants, the output values types.
// Runs on `pool`. Errors: no kernel, or what the kernel says; kResourceExhausted when the outputs together would take
// more than `max_bytes`.
Result<std::vector<ConstantRef>> evaluate_node(const Graph& graph, const Node& node, const ExecutionProvider& provider,
                                               ThreadPool& pool, size_t max_bytes);

// evaluate_node for fold_constants: outputs take at most 16 MiB, or what the inputs take. Both outlive the function.
EvaluateNode make_evaluator(const ExecutionProvider& provider, ThreadPool& pool);

}  // namespace tenon
