// A Plan: everything that one signature needs to run, found once; immutable and printable.
//
// Ownership: owns its kernels and its graph (and through it the constants that kernels read). Memory to run in is the
// runtime's: an arena of arena_bytes for each concurrent run.
// Threads: const access from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ep/kit/kernel.h"
#include "graph/graph.h"
#include "plan/storage.h"

namespace tenon {

struct PlanStep {
  std::unique_ptr<Kernel> kernel;
  int32_t node = 0;  // in Plan::graph
  std::vector<Location> inputs;
  std::vector<Location> outputs;
  Location scratch;
  std::pair<int32_t, int32_t> in_place{-1, -1};
  std::vector<int32_t> dynamic_outputs;  // by output: which dynamic value it is, -1 otherwise
};

struct PlanInput {
  std::string name;
  TensorSpec spec;
  int32_t last_read = kNever;  // the last step; kAtEnd when it is read after the steps
};

// A caller's output that this plan writes.
struct PlanOutput {
  std::string name;
  int32_t slot = 0;  // which of the session's outputs
  TensorSpec spec;   // spec.dynamic: the shape is known only after the run
  int32_t first_write = kAtEnd;
  std::pair<int32_t, int32_t> overlap_safe{-1, -1};  // {input, step}: may be exactly that input's memory
};

// A value that the rest of the graph needs after a cut.
struct CutValue {
  std::string name;
  Location location;
  TensorSpec spec;
  bool as_constant = false;  // the rest is planned for its contents
};

// Where shapes depend on data, planning stops: the rest is planned when the values are there.
struct PlanCut {
  Graph rest;  // its inputs are `values`, in this order
  std::vector<CutValue> values;
  std::vector<int32_t> output_slots;  // of rest.outputs
  std::vector<std::string> reasons;   // one a node that made the cut necessary
};

struct Plan {
  Graph graph;
  std::string provider;
  std::vector<PlanStep> steps;
  std::vector<PlanInput> inputs;
  std::vector<PlanOutput> outputs;
  std::vector<PlanCopy> copies;  // after the last step
  int32_t dynamic_values = 0;
  size_t arena_bytes = 0;
  size_t unshared_bytes = 0;
  std::vector<std::string> aliases;  // one line for each node without a step
  std::unique_ptr<PlanCut> cut;

  std::string to_text() const;
};

}  // namespace tenon
