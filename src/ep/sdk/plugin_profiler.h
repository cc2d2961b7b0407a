// A plugin's profiler as a C++ class behind OrtEpProfilerImpl (hosts of API 25 and newer).
//
// Ownership: the host owns the profiler and releases it through the ABI.
// Threads: events are started and stopped from the threads that run a session; start and end from one.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>

#include "ep/sdk/plugin_host.h"

namespace tenon::plugin {

struct ProfiledEvent {
  OrtProfilingEventCategory category = OrtProfilingEventCategory_KERNEL;
  std::string name;
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
  uint64_t correlation_id = 0;  // of the host's event during which it happened; 0: none
  TextPairs arguments;
};

class Profiler : private OrtEpProfilerImpl {
 public:
  explicit Profiler(const HostApi& host);
  virtual ~Profiler() = default;
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  static OrtEpProfilerImpl* release_to_host(std::unique_ptr<Profiler> profiler);

  bool running() const;

 protected:
  virtual Status start() { return Status(); }
  // The host's node event that now begins or ends on the calling thread.
  virtual Status start_event(uint64_t correlation_id) { return (void)correlation_id, Status(); }
  virtual Status stop_event(uint64_t correlation_id) { return (void)correlation_id, Status(); }
  // The events since start(); called once, after all work of the session is done.
  virtual Result<std::vector<ProfiledEvent>> end() = 0;

 private:
  Status add_events(const std::vector<ProfiledEvent>& events, OrtProfilingEventsContainer* container);

  const HostApi host_;
  mutable std::mutex mutex_;
  bool running_ = false;
  // The moment when the profile started: on our clock, and on the host's clock of this profile.
  std::chrono::steady_clock::time_point started_;
  int64_t start_offset_ns_ = 0;
};

}  // namespace tenon::plugin
