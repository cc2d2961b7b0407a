// Makes the plan of one signature from the graph as it was loaded.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include <tenon/thread_pool.h>

#include "ep/kit/kernel.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace tenon {

// Lifetime: everything pointed to outlives the planner and its plans.
struct PlannerOptions {
  const ExecutionProvider* provider = nullptr;
  ThreadPool* pool = nullptr;       // for packing, and the number of threads
  ThreadPool* fold_pool = nullptr;  // one thread
  WeightCache* weights = nullptr;   // may be null
  bool winograd = true;
  // Sees the graph before and after each pass; may be empty.
  std::function<void(std::string_view pass, const Graph& graph)> observe;
};

// Plans `graph` for inputs of `shapes` (one a graph input, checked by check_input_shapes). `output_slots[i]` is the
// session's number of graph.outputs[i].
Result<std::shared_ptr<Plan>> build_plan(Graph graph, std::span<const Shape> shapes,
                                         std::span<const int32_t> output_slots, const PlannerOptions& options);

// Plans what comes after a cut. `shapes` and `constants` have one entry for each of cut.values; a constant for those
// with as_constant, null for the others.
Result<std::shared_ptr<Plan>> build_rest(const PlanCut& cut, std::span<const Shape> shapes,
                                         std::span<const ConstantRef> constants, const PlannerOptions& options);

}  // namespace tenon
