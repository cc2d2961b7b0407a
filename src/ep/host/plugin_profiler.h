// Events of an EP in a session's profile: one for each node or region that it computes, and the events of the
// EP's own profiler (OrtEpProfilerImpl), if it has one.
//
// Ownership: holds the EP, and releases its profiler. Threads: start_event and stop_event from any; end() once, when no
// run is under way.
// Errors: a profiler that fails or throws is logged and not asked again; the session goes on without its events.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <atomic>
#include <memory>
#include <string>

#include "abi/objects/session_profile.h"
#include "ep/host/plugin_ep.h"

namespace tenon::abi {

class PluginProfiler {
 public:
  // CreateProfiler and StartProfiling are called here.
  PluginProfiler(std::shared_ptr<PluginEp> ep, std::shared_ptr<SessionProfile> profile);
  ~PluginProfiler();
  PluginProfiler(const PluginProfiler&) = delete;
  PluginProfiler& operator=(const PluginProfiler&) = delete;

  // Tells the EP that it begins to compute something on this thread, and ends it: what `id` names.
  struct Event {
    uint64_t id = 0;
    int64_t begin_ns = 0;
  };
  Event start_event();
  void stop_event(const Event& event, const std::string& node, const std::string& op_type);
  // Puts the events of the EP's profiler into the profile.
  void end();

 private:
  // Takes the status of a call to the EP's profiler; after a failure it gets no more events.
  void note(const Status& status);

  const std::shared_ptr<PluginEp> ep_;
  const std::shared_ptr<SessionProfile> profile_;
  OrtEpProfilerImpl* impl_ = nullptr;
  std::atomic<bool> running_ = false;
  PluginMember<decltype(OrtEpProfilerImpl::StartEvent)> start_event_;
  PluginMember<decltype(OrtEpProfilerImpl::StopEvent)> stop_event_;
};

}  // namespace tenon::abi
