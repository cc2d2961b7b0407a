// A Plan holds the steps, kernels and memory of one signature. It is immutable and can be printed.
//
// Ownership: owns its kernels and its graph (and through it the constants that kernels read). Memory to run in is the
// runtime's: an arena in each memory space for each concurrent run.
// Threads: const access from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tenon/plan_report.h>
#include <tenon/tensor.h>

#include "ep/api/kernel.h"
#include "graph/graph.h"
#include "plan/plan_budget.h"
#include "plan/storage.h"

namespace tenon {

class NodeTrail;

// A step that only moves a value to other memory.
struct StepCopy {
  CopyReason reason = CopyReason::kNotCompatible;
  const char* what = "";  // lives as long as the session
  TensorSpec spec;
  SpaceId source = kHostSpace;
  SpaceId target = kHostSpace;
  EpId mover = kCpuEp;  // SpaceTable::mover
};

// A point of a stream that has to be passed first: on the host by a step of the host and where `on_host` says so, on
// the device otherwise.
struct StepWait {
  EpId stream;
  PointId point;
  bool on_host = false;
};

struct PlanStep {
  std::unique_ptr<Kernel> kernel;  // null for a copy
  std::unique_ptr<StepCopy> copy;  // null for a kernel
  EpId ep = kCpuEp;                // whose kernel it is
  EpId executor = kCpuEp;          // whose stream it runs on; kCpuEp: done by the host when the step returns
  std::vector<StepWait> waits;
  PointId notify;                                        // the point that is reached after the step; none for most
  std::vector<MemorySpace> input_spaces, output_spaces;  // of other EPs' kernels
  NodeId node;                                           // in Plan::graph
  std::vector<Location> inputs;
  std::vector<Location> outputs;
  Location scratch;
  std::pair<int32_t, int32_t> in_place{-1, -1};
  std::vector<DynamicId> dynamic_outputs;  // by output; none for those of known sizes
};

// A node without a step: its outputs are parts of its first input, or its inputs are parts of its output.
struct PlanView {
  NodeId node;  // in Plan::graph
  std::vector<Location> outputs;
  bool joins_inputs = false;          // the latter
  ValueId value = kNoValue;           // the whole
  std::vector<size_t> offsets_bytes;  // of the parts in it
};

struct PlanInput {
  std::string name;
  TensorSpec spec;
  SpaceId space = kHostSpace;
  StepId last_read = kNever<StepId>;  // the last step; kAtEnd when it is read after the steps
};

// How an output that a step writes stands to an input: what the two bound tensors may have in common.
struct SharedMemory {
  enum class Kind : uint8_t {
    kNothing,   // the input is, or may be, read after the output is first written
    kExactly,   // the same bytes, if the kernel of the step runs in place on them
    kAnything,  // all that reads the input is over when the output is first written
  };
  Kind kind = Kind::kNothing;
  std::vector<std::pair<int32_t, int32_t>> in_place;  // {input, output} of the step that would run in place
};

// A caller's output that this plan writes.
struct PlanOutput {
  std::string name;
  OutputSlot slot;
  SpaceId space = kHostSpace;
  TensorSpec spec;  // spec.dynamic: the shape is known only after the run
  StepId first_write = kAtEnd<StepId>;
  std::vector<SharedMemory> shared;  // by input of the plan; empty: everything with every input
};

// A value that the rest of the graph needs after a cut.
struct CutValue {
  std::string name;
  Location location;
  TensorSpec spec;
  SpaceId space = kHostSpace;
  bool as_constant = false;  // the rest is planned for its contents
};

// Why planning stops at a node.
struct CutReason {
  std::string node;   // Node::label
  std::string value;  // on whose contents its output shapes depend; empty: on its own data
};

// Where shapes depend on data, planning stops: the rest is planned when the values are there.
struct PlanCut {
  Graph rest;  // its inputs are `values`, in this order
  std::vector<CutValue> values;
  std::vector<OutputSlot> output_slots;  // of rest.outputs
  std::vector<CutReason> reasons;        // one a node that made the cut necessary
};

// A number that no other plan of the process has, from 1 on. Threads: any.
uint64_t next_plan_id();

struct Plan {
  uint64_t id = next_plan_id();
  Graph graph;
  std::string provider;
  IdVector<StepId, PlanStep> steps;
  std::vector<PlanInput> inputs;
  std::vector<PlanOutput> outputs;
  std::vector<PlanCopy> copies;  // after the last step
  IdVector<DynamicId, SpaceId> dynamic_spaces;
  std::vector<Tensor> placed_constants;  // constants that an EP wants in its own memory
  PerDeviceEp<size_t> points;            // how many the steps need on each stream
  PerDeviceEp<bool> uses_stream;
  bool asynchronous = false;             // some step runs on a stream
  PerSpace<MemorySpace> spaces;          // that the session knows; 0 is plain host memory
  IdVector<EpId, std::string> ep_names;  // empty when there is only the CPU EP
  PerSpace<size_t> arenas;               // bytes
  std::vector<HandleBuffer> handle_buffers;
  size_t arena_bytes = 0;  // of plain host memory
  size_t unshared_bytes = 0;
  std::vector<PlanView> views;
  std::unique_ptr<PlanCut> cut;
  PlanShare share;  // of the session's budget

  // PlanReport::to_text() of it.
  std::string to_text() const;
};

// `plan` as data. `outputs`: by slot, where the caller's outputs are (none: where they are made). `copies` begins with
// the copies that come before those of a run's steps; those follow, in their order, as far as no data and no address
// decides about them. `keep_text` makes the names of copies live as long as the session. `trail` has followed the
// passes of the plan; null: the report has no nodes of the model.
PlanReport report_plan(const Plan& plan, std::span<const std::optional<MemorySpace>> outputs,
                       const std::function<const char*(const std::string&)>& keep_text, ExplainedCopies copies,
                       const NodeTrail* trail = nullptr);

}  // namespace tenon
