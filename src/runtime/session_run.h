// One run of a session's model with the tensors of a binding.
#pragma once

#include <memory>
#include <span>

#include "runtime/binding_outputs.h"
#include "runtime/device_runs.h"
#include "runtime/plan_executor.h"

namespace tenon {

// Lifetime: on the stack of the thread that runs.
class SessionRun {
 public:
  // `ledger` may be null. `disallow_copies`: strict mode of the session or of the run.
  SessionRun(const RunResources& resources, DeviceRuns& devices, BindingImpl& binding, CopyLedger* ledger,
             bool disallow_copies, const RunOptions& options)
      : resources_(resources),
        devices_(devices),
        binding_(binding),
        options_(options),
        info_{.native_options = options.native_options,
              .cancel = options.cancel,
              .ledger = ledger,
              .disallow_copies = disallow_copies,
              .objects = &binding.objects,
              .deadline = Deadline::after(options.run_timeout_ns)},
        outputs_(binding, info_),
        caller_stream_(options.stream),
        may_return_early_(!options.synchronize && options.signals.empty()) {}
  SessionRun(const SessionRun&) = delete;
  SessionRun& operator=(const SessionRun&) = delete;

  // Finds memory for the outputs. Everything that can be wrong with the call is found here. `runtime` is the plan of
  // the binding's shapes and spaces, here and below.
  Status prepare(const PlanRuntime& runtime) { return outputs_.prepare(*runtime.plan, binding_.input_addresses); }
  // After prepare(): the run's fences go to the plan's only EP, as far as it takes them; the host waits for the other
  // waits.
  Status wait(const PlanRuntime& runtime);
  // The whole run, with what the EPs do before and after it.
  Status run(const std::shared_ptr<PlanRuntime>& runtime);
  // The signals that are left to the host; poisoned when the run has failed.
  Status signal(Status ran) const;
  // Whether a plan was made on the way.
  bool planned() const { return planned_; }

 private:
  Status run_on_devices(const std::shared_ptr<PlanRuntime>& runtime);
  Status run_between(PlanRuntime& runtime, CapturedGraphs::Memory* used_memory);
  Status run_plan(PlanRuntime& runtime, PlanExecutor& executor);
  // The work of this run begins after what the caller has put on the stream, on the host where the host takes part.
  Status wait_for_caller_stream(const PlanRuntime& runtime) const;

  const RunResources& resources_;
  DeviceRuns& devices_;
  BindingImpl& binding_;
  const RunOptions& options_;
  RunInfo info_;
  BindingOutputs outputs_;
  DeviceStream* caller_stream_;  // may be null
  bool may_return_early_;
  bool planned_ = false;
};

}  // namespace tenon
