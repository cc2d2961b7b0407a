// Makes the plan of one signature from the graph as it was loaded.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <tenon/thread_pool.h>

#include "ep/api/kernel.h"
#include "ep/api/subgraphs.h"
#include "graph/graph.h"
#include "plan/placement.h"
#include "plan/plan.h"
#include "plan/regions.h"
#include "plan/space_table.h"

namespace tenon {

class NodeTrail;

// Lifetime: everything pointed to outlives the planner and its plans.
struct PlannerOptions {
  const ExecutionProvider* provider = nullptr;  // the CPU EP
  PerDeviceEp<DeviceProvider*> devices = {};    // the other EPs
  ThreadPool* pool = nullptr;                   // for packing, and the number of threads
  ThreadPool* fold_pool = nullptr;              // one thread
  WeightCache* weights = nullptr;               // may be null
  bool winograd = true;
  std::span<const std::string> disabled_passes = {};  // see PassOptions::skip
  bool values_vary = false;                           // see cut_graph: bodies of loops
  const SubgraphKernels* subgraphs = nullptr;         // makes If, Loop and Scan; null: none can be planned
  // Sees the graph before and after each pass; may be empty.
  std::function<void(std::string_view pass, const Graph& graph)> observe;

  // Follows the model's nodes for a report; null for plans that run.
  NodeTrail* trail = nullptr;
  // Counts the bytes of the plans that are made; null: nobody counts them.
  std::shared_ptr<PlanBudget> budget = nullptr;

  // Only for sessions with other EPs.
  const SpaceTable* spaces = nullptr;
  IdVector<EpId, std::string> ep_names = {};  // "cpu" first
  // A constant in a memory space, copied there once. For a plan that is only explained: some tensor
  // there.
  std::function<Result<Tensor>(const ConstantRef& constant, const std::string& name, SpaceId space)> place_constant =
      {};
  // The same text, living as long as the session.
  std::function<const char*(const std::string& text)> keep_text = {};

  Providers providers() const { return {provider, devices}; }
};

// Plans `graph` for inputs of `shapes` (one a graph input, checked by check_input_shapes). `output_slots[i]` is the
// session's number of graph.outputs[i]. `bound` says where the caller's tensors are.
Result<std::shared_ptr<Plan>> build_plan(const Graph& graph, std::span<const Shape> shapes,
                                         std::span<const OutputSlot> output_slots, const PlannerOptions& options,
                                         const BoundSpaces& bound = {});

// Plans what comes after a cut. `shapes` and `constants` have one entry for each of cut.values; a constant for those
// with as_constant, null for the others. `bound.inputs` has one entry for each value that is no constant.
Result<std::shared_ptr<Plan>> build_rest(const PlanCut& cut, std::span<const Shape> shapes,
                                         std::span<const ConstantRef> constants, const PlannerOptions& options,
                                         const BoundSpaces& bound = {});

}  // namespace tenon
