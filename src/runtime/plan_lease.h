// The memory of one run of a plan: a run state and an arena in each memory space, given back at the end of the scope.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/plan_cache.h"
#include "runtime/run_resources.h"

namespace tenon {

// Lifetime: the plan and the resources outlive it. Threads: one run's.
class PlanLease {
 public:
  PlanLease(const RunResources& resources, PlanRuntime& runtime) : resources_(resources), runtime_(runtime) {}
  PlanLease(const PlanLease&) = delete;
  PlanLease& operator=(const PlanLease&) = delete;
  ~PlanLease();

  // Before take(): the run continues on the stream that `earlier` was left to, so it may use its arenas again. They go
  // back to that stream unless finish() is called.
  void continue_after(UnfinishedRun earlier);
  // `preferred` (may be null) is the state of the caller's last run: its pointers are most likely right.
  Status take(const RunState* preferred);
  RunState& state() const { return *state_; }

  // Whether the stream may be left with the arenas that it has outgrown: with too many, the run waits for it.
  bool may_leave() const;
  // A point that the stream has already been left with, to be used again; null when there is none.
  std::unique_ptr<DeviceNotification> take_end();
  // The run returns before the stream is done: its memory is the stream's up to `end`.
  void leave(uint64_t stream_id, std::unique_ptr<DeviceNotification> end);
  // The host has waited for the streams. `done`: their work is over; otherwise the memory is never used again.
  void finish(bool done);

 private:
  void give_back(SpaceId space, Arena&& arena) const;
  void leave_to_stream();
  // The stream's last run worked there, and this one comes after it.
  bool take_outgrown(SpaceId space, size_t size_bytes);

  const RunResources& resources_;
  PlanRuntime& runtime_;
  std::unique_ptr<RunState> state_;
  bool spoiled_ = false;  // the work on the memory may not be over
  // Memory of earlier runs on the stream. Until this run has been waited for, it is the stream's, up to
  // `ends_`; so is the run's own when it returns early.
  PerSpace<std::vector<Arena>> outgrown_;
  std::vector<std::unique_ptr<DeviceNotification>> ends_;
  uint64_t stream_id_ = 0;
};

}  // namespace tenon
