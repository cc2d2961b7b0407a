// Runs a binding through a plan and the plans after its cuts.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include <tenon/copy_ledger.h>

#include "runtime/binding_impl.h"
#include "runtime/session_impl.h"

namespace tenon {

// Strict mode's answer to a plan that copies, whatever is bound. `outputs`: by slot. Errors: kInvalidArgument names the
// tensor.
Status refuse_copies(const Plan& plan, std::span<const ValueInfo> outputs);

// Lifetime: on the stack of the thread that runs.
class Runner {
 public:
  Runner(SessionImpl& session, BindingImpl& binding, CopyLedger* ledger, const RunOptions& options)
      : session_(session),
        binding_(binding),
        ledger_(ledger),
        info_{.native_options = options.native_options,
              .cancel = options.cancel,
              .ledger = ledger,
              .disallow_copies = session.options().disallow_copies || options.disallow_copies,
              .deadline = Deadline::after(options.run_timeout_ns)},
        caller_stream_(options.stream),
        may_return_early_(!options.synchronize && options.signals.empty()),
        synchronize_(options.synchronize) {}

  // Finds memory for the outputs whose sizes the plan knows, and refuses what strict mode or the bound memory forbids.
  // Everything that can be wrong with the call is found here.
  Status prepare(const PlanRuntime& runtime, std::span<void* const> inputs);
  // After prepare(): the whole run, with what the EPs do before and after it.
  Status run(const std::shared_ptr<PlanRuntime>& runtime, std::span<void* const> inputs);
  bool planned() const { return planned_; }
  // When the run is to end.
  const Deadline& deadline() const { return info_.deadline; }
  // After prepare(), before run(): leaves to the plan's only EP what it takes of the fences, all waits or none, all
  // signals or none. The others are the caller's to wait for and to signal.
  void pass_fences(const PlanRuntime& runtime, std::span<void* const> inputs, const RunOptions& options);
  bool passed_waits() const { return !info_.waits.empty(); }
  bool passed_signals() const { return !info_.signals.empty(); }

 private:
  struct Lease;
  Status run_on_devices(const std::shared_ptr<PlanRuntime>& runtime, std::span<void* const> inputs);
  Status run_between(PlanRuntime& runtime, std::span<void* const> inputs);
  // True when the run is done: its graph was there, for this plan and memory.
  Result<bool> replay(const std::shared_ptr<PlanRuntime>& runtime, std::span<void* const> inputs, int32_t graph);
  Status run_and_capture(const std::shared_ptr<PlanRuntime>& runtime, std::span<void* const> inputs, int32_t graph);
  Status run_plan(PlanRuntime& runtime, std::span<void* const> inputs);
  Status run_steps(const PlanRuntime& runtime, Lease& lease);
  // The work of this run begins after what the caller has put on the stream, on the host where the host takes part.
  Status wait_for_caller_stream(const PlanRuntime& runtime);
  void borrow_stream(RunStreams& streams);
  // What earlier runs left to the streams of this one: waited for, or continued on the same stream.
  Status take_over(const PlanRuntime& runtime, Lease& lease);
  bool returns_early(const PlanRuntime& runtime, const Lease& lease) const;
  size_t extent(int32_t space, size_t size_bytes) const;
  size_t extent(const Tensor& tensor) const;
  Status check_outputs_apart(const Plan& plan) const;
  // Strict mode's refusal of a step that copies.
  Status disallowed(const Plan& plan, const PlanStep& step, std::span<void* const> inputs) const;
  Status check_copies(const Plan& plan, std::span<void* const> inputs) const;
  // The input that output `output` must not be written over; null if there is none.
  const PlanInput* overlapped_input(const Plan& plan, const PlanOutput& output, std::span<void* const> inputs) const;
  Status redirect_overlaps(const Plan& plan, std::span<void* const> inputs, Lease& lease);
  Status copy_out(const Plan& plan, const Lease& lease);
  Status copy_to_output(size_t slot, DataType type, const Shape& shape, void* source, int32_t space, CopyReason reason);
  Status copy_dynamic(const Plan& plan, const PlanCopy& copy, RunState& state);
  // The bytes of a value, for the host to read.
  Result<ConstantRef> read_value(const CutValue& value, const Shape& shape, const RunState& state);
  Status run_rest(PlanRuntime& runtime, const RunState& state);
  Result<std::shared_ptr<PlanRuntime>> find_rest(PlanRuntime& runtime, const RunState& state);

  SessionImpl& session_;
  BindingImpl& binding_;
  CopyLedger* ledger_;
  RunInfo info_;
  DeviceStream* caller_stream_;  // may be null
  bool may_return_early_;
  const bool synchronize_;
  bool returned_early_ = false;
  std::optional<DeviceRun> device_;                                 // of sessions with other EPs, while they run
  std::vector<std::shared_ptr<std::byte>>* used_memory_ = nullptr;  // where to note it, if somebody asks
  bool planned_ = false;
};

}  // namespace tenon
