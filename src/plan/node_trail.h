// Where each node of the model's main graph went: which step computes it, or which pass it left in.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <tenon/plan_report.h>

#include "graph/graph.h"
#include "plan/plan.h"

namespace tenon {

// Lifetime: a copy follows the passes of one plan. Threads: one at a time.
class NodeTrail {
 public:
  NodeTrail() = default;
  // The model as it was read, before any EP takes nodes.
  explicit NodeTrail(const Graph& model);

  // Puts the numbers of the model's nodes into kModelNodes of each node that stands for some, regions too. Once, before
  // the passes; the Rewriter keeps the attribute.
  void mark(Graph& graph) const;
  // `pass` has changed the graph; "" is the removal of what nobody reads.
  void after(std::string_view pass, const Graph& graph);
  // One for each of the model's nodes, in its order.
  std::vector<PlanReport::ModelNode> report(const Plan& plan) const;

 private:
  struct Entry {
    PlanReport::ModelNode node;
    std::vector<ValueId> outputs;
    std::vector<int32_t> readers;
    std::vector<int64_t> together;  // the numbers of the nodes that one node stands for now
    bool is_gone = false;
  };
  bool still_read(const Entry& entry) const;

  std::vector<Entry> entries_;
};

// The numbers that a node stands for; empty where the trail does not know it.
std::vector<int64_t> origins_of(const Node& node);

}  // namespace tenon
