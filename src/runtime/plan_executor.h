// Runs a plan, and the plans after its cuts, on memory that the caller provides: a session's run and each run of a body
// of If, Loop or Scan.
//
// The caller finds the plan in its PlanCache and prepares the outputs; the executor leases a run state and arenas, runs
// the steps, waits for the streams where the host takes part, plans and runs what follows a cut, and lets the outputs
// take what the steps made elsewhere.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/plan_lease.h"

namespace tenon {

// Where the outputs of one run go. Lifetime: of the run.
class PlanOutputs {
 public:
  virtual ~PlanOutputs() = default;
  // Before the steps of `plan`: memory for each output that a step writes. `inputs` has one address a plan input.
  // Called by the caller for the run's first plan, and by the executor for those after its cuts.
  virtual Status prepare(const Plan& plan, std::span<void* const> inputs) = 0;
  // Then, with the state that runs `plan`: memory of the last run for outputs whose size the steps find out.
  virtual void lend_memory(const Plan& /*plan*/, RunState& /*state*/) {}
  // One address an output slot, null for those that the plan does not write. Valid until the next prepare().
  virtual std::span<void* const> addresses() const = 0;
  // After the steps, with no work left on a stream: takes what lies elsewhere. `is_rest`: the plan follows a cut.
  virtual Status finish(const Plan& plan, RunState& state, bool is_rest) = 0;
  // Whether finish() has nothing to do that a stream could still be writing. Asked of runs that may return early.
  virtual bool written_directly() const { return true; }
  // By slot: where the caller's outputs are, for planning what follows a cut.
  virtual std::vector<std::optional<MemorySpace>> bound_spaces() const { return {}; }
};

// One run. Lifetime: on the stack of the thread that runs; what it is given outlives it.
class PlanExecutor {
 public:
  PlanExecutor(const RunResources& resources, const RunInfo& info) : resources_(resources), info_(info) {}

  // Before run(): the EPs' streams, for a session with other EPs than the CPU one.
  void use_streams(RunStreams& streams) { device_ = DeviceRun{&resources_.spaces->table(), &streams, info_.ledger}; }
  // The run may return when its work is enqueued, if all of it is on one stream.
  void allow_early_return() { may_return_early_ = true; }
  // The state that run() used last for the caller, and afterwards the one that it has used: only compared, so it may be
  // gone.
  const RunState* last_state = nullptr;
  // Where to note the memory that the run uses besides inputs and outputs; may be null.
  std::vector<std::shared_ptr<std::byte>>* used_memory = nullptr;

  // `outputs` are prepared for `runtime`'s plan. Errors: what a step, the planner or a stream says; kCancelled,
  // kTimeout.
  Status run(PlanRuntime& runtime, std::span<void* const> inputs, PlanOutputs& outputs) {
    return run_part(runtime, inputs, outputs, /*is_rest=*/false);
  }

  bool returned_early() const { return returned_early_; }
  // Whether a plan was made on the way.
  bool planned() const { return planned_; }

 private:
  Status run_part(PlanRuntime& runtime, std::span<void* const> inputs, PlanOutputs& outputs, bool is_rest);
  // Takes the work that earlier runs left to streams of this one: it is waited for, or continued on the same stream.
  Status take_over(const PlanRuntime& runtime, PlanLease& lease);
  Status run_steps(const PlanRuntime& runtime, PlanLease& lease, const PlanOutputs& outputs);
  // True when the run's memory is left to its stream.
  bool leave(const PlanRuntime& runtime, PlanLease& lease);
  Status run_rest(PlanRuntime& runtime, const RunState& state, PlanOutputs& outputs);
  Result<std::shared_ptr<PlanRuntime>> find_rest(PlanRuntime& runtime, const RunState& state,
                                                 const PlanOutputs& outputs);
  // The bytes of a value, for the host to read.
  Result<ConstantRef> read_value(const CutValue& value, const Shape& shape, const RunState& state) const;

  const RunResources& resources_;
  const RunInfo& info_;
  std::optional<DeviceRun> device_;
  bool may_return_early_ = false;
  bool returned_early_ = false;
  bool planned_ = false;
};

}  // namespace tenon
