// The state that the runs of a session share where other EPs than the CPU one take part: streams, runs that returned
// before their stream was done, captured graphs, and the lock for EPs that support one run at a time.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "ep/api/device_provider.h"
#include "runtime/captured_graphs.h"
#include "runtime/run_streams.h"
#include "runtime/session_spaces.h"
#include "runtime/unfinished_runs.h"

namespace tenon {

// Lifetime: the providers and spaces outlive it. Threads: any, after start().
class DeviceRuns {
 public:
  explicit DeviceRuns(DeviceProviders providers) : providers_(providers), streams_(providers) {}

  // At load. `active`: the EPs that have regions.
  void start(std::vector<EpId> active, bool one_at_a_time, GraphCapture* capture) {
    active_ = std::move(active);
    one_at_a_time_ = one_at_a_time;
    if (capture != nullptr) graphs_.emplace(*capture);
  }

  std::span<const EpId> active() const { return active_; }
  DeviceProvider& provider(EpId ep) const { return *providers_[ep]; }
  StreamPool& streams() { return streams_; }
  UnfinishedRuns& unfinished() { return unfinished_; }
  // Null when no EP captures graphs.
  CapturedGraphs* graphs() { return graphs_ ? &*graphs_ : nullptr; }
  // Held while a run uses the EPs; owns no lock when they support concurrent runs.
  std::unique_lock<std::mutex> enter() {
    return one_at_a_time_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
  }
  // Whether the EP's work can be enqueued on the caller's `stream`.
  bool can_use_stream(const SpaceTable& spaces, EpId ep, const DeviceStream& stream) const {
    return spaces.executor(ep) == ep && provider(ep).can_use_stream(stream);
  }

 private:
  const DeviceProviders providers_;
  std::vector<EpId> active_;
  StreamPool streams_;
  UnfinishedRuns unfinished_;
  std::optional<CapturedGraphs> graphs_;
  bool one_at_a_time_ = false;
  std::mutex mutex_;
};

}  // namespace tenon
