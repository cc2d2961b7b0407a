// The passes: small functions that rewrite a graph, in one ordered table.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "plan/fold.h"

namespace tenon {

class NodeTrail;

// kLoad: once a model, dimensions may be symbols. kPlan: on the planner's copy, once a signature, after the numbers of
// the inputs' shapes have been set; new weights are not made there, so that kernels can pack each weight once.
enum class PassPhase : uint8_t { kLoad, kPlan };

struct PassOptions {
  EvaluateNode evaluate;
  // Names of passes to leave out (tests, debugging).
  std::vector<std::string> skip;
  // Called before the first pass with name "input", and after each pass with its name.
  std::function<void(std::string_view pass, const Graph& graph)> observe;
  NodeTrail* trail = nullptr;     // of the graph's nodes; may be null
  bool only_known_sizes = false;  // see FoldOptions: the graph is cut behind the first pass
};

struct Pass {
  std::string_view name;
  PassPhase phase;
  Status (*run)(Graph& graph, const PassOptions& options);
};

// All passes in their order.
std::span<const Pass> pass_table();

// A part of a phase: its first pass, which finds the shapes, or those behind it.
enum class PassRange : uint8_t { kAll, kFirst, kBehindFirst };

// Runs the passes of one phase. The graph is inferred and free of dead nodes afterwards.
Status run_passes(Graph& graph, PassPhase phase, const PassOptions& options, PassRange range = PassRange::kAll);
// The same for each subgraph of `node`. Captures that nothing reads afterwards are gone.
Status run_subgraph_passes(Node& node, PassPhase phase, const PassOptions& options);

}  // namespace tenon
