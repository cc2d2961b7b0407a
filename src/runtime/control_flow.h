// The kernels of If, Loop and Scan, and the bodies that they run: graphs with plans of their own.
//
// A body is planned for each new set of input shapes; a bounded number of plans is kept. Where shapes inside a body
// depend on data, its plan is cut like that of a model.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tenon/copy_ledger.h>

#include "ep/api/device_provider.h"
#include "ep/api/subgraphs.h"
#include "plan/planner.h"
#include "plan/signature.h"
#include "runtime/idle_pool.h"
#include "runtime/plan_executor.h"

namespace tenon {

// Plans bodies, and has what they run on: the CPU EP, and host memory. Lifetime: outlives bodies.
class BodyHost final : public RestPlanner {
 public:
  // `planner` is the session's; nodes of other EPs do not come into bodies. The rest outlives the host.
  BodyHost(PlannerOptions planner, const SubgraphKernels& subgraphs, ArenaPools& arenas, KeptTexts& texts);
  BodyHost(const BodyHost&) = delete;
  BodyHost& operator=(const BodyHost&) = delete;

  const PlannerOptions& planner() const { return planner_; }
  const RunResources& resources() const { return resources_; }
  const char* keep(const std::string& text) const { return resources_.texts->keep(text); }
  // The name of an output of `node`, as text that lives as long as the session.
  const char* name_of_output(const KernelNode& node, size_t index) const;
  Result<std::shared_ptr<Plan>> plan_rest(const PlanCut& cut, std::span<const Shape> shapes,
                                          std::span<const ConstantRef> constants, const BoundSpaces& bound,
                                          bool disallow_copies) const override;

 private:
  PlannerOptions planner_;
  SessionSpaces spaces_;  // plain host memory
  RunResources resources_;
};

// A value that goes into a body or comes out of one.
struct BodyValue {
  const void* data = nullptr;
  DataType type = DataType::kUndefined;
  Shape shape;
  std::shared_ptr<std::byte> memory;  // null: borrowed, stays while the node runs
  size_t capacity_bytes = 0;          // of `memory`
};

// An output of a body that is there already.
struct HandedOver {
  size_t index = 0;  // of the body's outputs
  BodyValue value;
  int32_t input = -1;  // the body's input that it lies in the memory of; -1: none
  // Why it is not where place() would say, and its name, for the ledger if it has to be copied.
  CopyReason reason = CopyReason::kOutputIsInput;
  const char* what = "";
};

// Where the outputs of one run of a body go.
class BodyOutputs {
 public:
  virtual ~BodyOutputs() = default;
  // Memory that the body writes output `index` to, before the step that makes it.
  virtual Result<void*> place(size_t index, DataType type, const Shape& shape) = 0;
  // The memory, where the value has it, may be kept; what is borrowed stays until the body's run returns. The default
  // copies it to where place() says.
  virtual Status hand_over(HandedOver&& output, const RunInfo& info);
};

// Copies a value to `target`, both in host memory. Errors: strict mode, where bytes would have to move.
Status copy_value(void* target, const BodyValue& value, CopyReason reason, const char* what, const RunInfo& info);

// One subgraph of a node. Threads: any.
class Body {
 public:
  // `graph` is lowered, its captures being its last inputs. Outputs that `wanted` (by output) leaves out are not made.
  Body(const BodyHost& host, Graph graph, const std::vector<bool>& wanted);

  const Graph& graph() const { return graph_; }
  // Of the body's outputs; lives as long as the session.
  const char* output_name(size_t index) const { return names_[index]; }
  // `inputs` has one value a graph input. Errors: what the planner or a step says; kCancelled, kTimeout.
  Status run(std::span<const BodyValue> inputs, BodyOutputs& outputs, const RunInfo& info) const;

 private:
  // The buffers that a run would otherwise have to allocate.
  struct Scratch {
    SignatureKey key;
    LastPlan plan;
    std::vector<void*> inputs, outputs;
  };
  class Outputs;

  const BodyHost& host_;
  Graph graph_;
  std::vector<OutputSlot> slots_;   // by graph output: the body's output
  size_t outputs_ = 0;              // of the body, with those that are not made
  std::vector<const char*> names_;  // by output of the body
  mutable PlanCache plans_;
  IdlePool<Scratch> idle_;
};

// Makes the kernels of nodes, also of those in bodies.
class ControlFlowKernels final : public SubgraphKernels {
 public:
  // `planner` is the session's. `arenas` and `texts` outlive it.
  ControlFlowKernels(PlannerOptions planner, ArenaPools& arenas, KeptTexts& texts)
      : host_(std::move(planner), *this, arenas, texts) {}
  Result<std::unique_ptr<Kernel>> create(const KernelNode& node, const SubgraphHelper* helper) const override;

 private:
  BodyHost host_;
};

Result<std::unique_ptr<Kernel>> make_if_kernel(const BodyHost& host, const KernelNode& node);
Result<std::unique_ptr<Kernel>> make_loop_kernel(const BodyHost& host, const KernelNode& node,
                                                 const SubgraphHelper* helper);
Result<std::unique_ptr<Kernel>> make_scan_kernel(const BodyHost& host, const KernelNode& node,
                                                 const SubgraphHelper* helper);

// At load, after the passes: every node of the bodies can run on `cpu`, the bodies have the inputs and outputs that
// their node wants, and all of it is tensors.
Status check_control_flow(const Graph& graph, const Node& node, const ExecutionProvider& cpu);

}  // namespace tenon
