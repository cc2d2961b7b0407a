// The state of one run of one plan: the pointers of each step, resolved once and kept while bound addresses stay.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <tenon/thread_pool.h>

#include "ep/api/kernel.h"
#include "plan/plan.h"
#include "plan/space_table.h"
#include "runtime/arena_pool.h"
#include "runtime/node_observer.h"
#include "runtime/run_streams.h"

namespace tenon {

// A value whose size was found by the kernel that made it.
struct DynamicValue {
  DataType type = DataType::kUndefined;
  Shape shape;
  std::shared_ptr<std::byte> memory;
  size_t capacity_bytes = 0;
};

// A kernel's context that can take memory as an output instead of giving it.
class AdoptingContext {
 public:
  virtual ~AdoptingContext() = default;
  // `memory`, which begins with the output's bytes, becomes dynamic output `index`; `memory` and `capacity_bytes` are
  // then what the output had before (null at first), for the kernel to use again. False: the output lies in other than
  // host memory, or needs more than `capacity_bytes`; nothing has changed.
  virtual bool adopt_output(size_t index, const Shape& shape, std::shared_ptr<std::byte>& memory,
                            size_t& capacity_bytes) = 0;
};

// The objects that a run on other EPs needs besides memory. Lifetime: of the run.
struct DeviceRun {
  const SpaceTable* spaces = nullptr;
  RunStreams* streams = nullptr;
  CopyLedger* ledger = nullptr;  // may be null
};

// kCancelled when somebody has cancelled the run, kTimeout when its deadline has passed. `where` completes the
// sentence.
inline bool is_to_end(const RunInfo& info) {
  return (info.cancel != nullptr && info.cancel->load(std::memory_order_relaxed)) || info.deadline.passed();
}
Status why_it_ends(const RunInfo& info, const std::string& where);

// Lifetime: the plan and the pool outlive it. Threads: one run at a time.
class RunState {
 public:
  RunState(const Plan& plan, ThreadPool& pool);
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  // Where a run's memory is. The arenas are `held`, `inputs` has one address a plan input, `outputs` one a session
  // output (by slot; null for those that this plan does not write). Does nothing when all of it is as in the last run.
  void bind(std::span<void* const> inputs, std::span<void* const> outputs);
  // Allocates what the plan keeps in spaces that give handles, unless it is there. Before bind().
  Status hold_handles(const SpaceTable& spaces);
  std::span<const std::shared_ptr<std::byte>> handles() const { return handles_; }
  // The work on them may not be over: they are never used again.
  void drop_handles();
  // Runs every step. The first failure ends it, with the node named; `info.cancel`, once set, ends it too. `device` may
  // be null for plans of the CPU EP alone. What streams still run then is the caller's to wait for.
  Status run_steps(const RunInfo& info, const DeviceRun* device);

  void* address(const Location& location) const;
  const DynamicValue& dynamic_value(DynamicId id) const { return dynamic_[id]; }
  // The same for a caller that gives its memory in exchange.
  DynamicValue& dynamic_value(DynamicId id) { return dynamic_[id]; }
  // A dynamic value's memory becomes the caller's.
  std::shared_ptr<std::byte> take_dynamic(DynamicId id);
  // The arenas of the run under way.
  PerSpace<Arena> held;
  std::byte* arena(SpaceId space) const { return arenas_.contains(space) ? arenas_[space] : nullptr; }

 private:
  class StepContext final : public KernelContext, public AdoptingContext {
   public:
    Result<void*> allocate_output(size_t index, const Shape& shape) override;
    bool adopt_output(size_t index, const Shape& shape, std::shared_ptr<std::byte>& memory,
                      size_t& capacity_bytes) override;
    RunState* state = nullptr;
    StepId step;
  };

  // The same with a trace, or an observer, which may be null.
  Status run_steps_observed(const RunInfo& info, const DeviceRun* device, NodeObserver* observer);
  Status end_before(StepId id, const RunInfo& info) const;
  Status name_node(StepId id, Status status) const;
  // Whether the step has made all its outputs whose sizes it finds.
  Status check_dynamic(StepId id) const;
  // The step, after its waits.
  Status run_step(StepId id, const RunInfo& info, const DeviceRun* device);
  // Both, and tells the trace and the observer, which may be null.
  Status run_observed(StepId id, const RunInfo& info, const DeviceRun* device, NodeObserver* observer);
  NodeRun describe(StepId id, bool by_plugin) const;
  // Arrows of the trace: from the steps whose points step `id` waits for, and to those that wait for its point.
  void write_arrows(StepId id, int64_t begin_ns, int64_t end_ns) const;
  Status wait_before(const PlanStep& step, const DeviceRun& device);
  Status run_copy(StepId id, const DeviceRun& device);
  Result<void*> allocate_dynamic(StepId id, size_t output, const Shape& shape);
  bool adopt_dynamic(StepId id, size_t output, const Shape& shape, std::shared_ptr<std::byte>& memory,
                     size_t& capacity_bytes);
  void resolve();

  const Plan& plan_;
  std::vector<const void*> step_inputs_;
  std::vector<void*> step_outputs_;
  IdVector<StepId, StepContext> contexts_;
  IdVector<DynamicId, DynamicValue> dynamic_;
  const SpaceTable* spaces_ = nullptr;  // of the run under way
  PerSpace<std::byte*> arenas_;
  std::vector<std::shared_ptr<std::byte>> handles_;
  std::vector<void*> inputs_;
  std::vector<void*> outputs_;
  uint64_t traced_run_ = 0;  // of the process; 0: the run under way is not traced
  bool resolved_ = false;
};

}  // namespace tenon
