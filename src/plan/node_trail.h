// Where each node of the model's main graph went: which step computes it, or which pass it left in.
//
// The passes run as always: the trail compares the numbers that nodes stand for before and after each (node_origins.h),
// and makes texts only for a report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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

  // Before mark(): nodes all whose outputs are constants now have left in `pass`, whose name lives as long as the
  // process.
  void folded(std::string_view pass, const Graph& graph);
  // Gives each node that stands for some of the model's its numbers, regions and the nodes of bodies too. Once, before
  // the passes.
  void mark(Graph& graph);
  // `pass`, whose name lives as long as the process, has changed the graph; "" is the removal of what nobody reads.
  void after(std::string_view pass, const Graph& graph);
  // The graph's values have other ids now: `moved[id]`, kNoValue for those that are gone.
  void renumber(const PerValue<ValueId>& moved);
  // One for each of the model's nodes, in its order.
  std::vector<PlanReport::ModelNode> report(const Plan& plan) const;

 private:
  using Fate = PlanReport::ModelNode::Fate;
  struct Entry {
    std::string op_type, domain;
    std::vector<int64_t> together;  // the numbers of the nodes that one node stands for now; empty: this one alone
    Fate fate = Fate::kStep;
    bool is_gone = false;
    bool has_name = false;
  };
  struct Change {
    int64_t number;
    std::string_view pass;
  };
  // The values of each node, one node after the other.
  struct Values {
    std::vector<ValueId> ids;
    std::vector<size_t> ends;
    std::span<const ValueId> of(int64_t number) const;
  };

  // Whether each node stands for the same numbers as after the last pass; remembers those of this one.
  bool is_as_before(const Graph& graph);
  void mark_bodies(Graph& graph, std::vector<std::string>& names) const;
  // Of a graph with so many values, as the model's nodes read them.
  void find_readers(size_t values);
  bool stays_together(int64_t number, std::span<const int64_t> numbers) const;
  void leave(std::span<const int64_t> gone, const Graph& graph);
  bool still_read(int64_t number) const;
  // Without the numbers of bodies' nodes, which come last.
  std::span<const int64_t> main_only(std::span<const int64_t> numbers) const;

  std::vector<Entry> entries_;
  std::vector<std::string> shown_;  // the names, or labels, of the model's nodes; with those of bodies in `names_` then
  ConstantRef names_;
  Values reads_, outputs_;
  std::vector<int64_t> held_;    // after the last pass, what each node stands for: a number, or a hash of several
  std::vector<Change> changes_;  // in order; the last one of a node that has gone is where it left
  std::vector<std::vector<int64_t>> readers_;  // by node, once one has gone
};

}  // namespace tenon
