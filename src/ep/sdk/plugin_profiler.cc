#include "ep/sdk/plugin_profiler.h"

#include <sys/types.h>
#include <unistd.h>

namespace tenon::plugin {

Profiler::Profiler(const HostApi& host) : OrtEpProfilerImpl{}, host_(host) {
  ort_version_supported = host.version();
  OrtEpProfilerImpl::Release = [](OrtEpProfilerImpl* table) noexcept { delete static_cast<Profiler*>(table); };
  OrtEpProfilerImpl::StartProfiling = [](OrtEpProfilerImpl* table, int64_t offset_ns) noexcept -> OrtStatus* {
    auto& profiler = *static_cast<Profiler*>(table);
    return profiler.host_.guarded([&]() -> Status {
      {
        std::lock_guard lock(profiler.mutex_);
        profiler.started_ = std::chrono::steady_clock::now();
        profiler.start_offset_ns_ = offset_ns;
        profiler.running_ = true;
      }
      return profiler.start();
    });
  };
  OrtEpProfilerImpl::StartEvent = [](OrtEpProfilerImpl* table, uint64_t id) noexcept -> OrtStatus* {
    auto& profiler = *static_cast<Profiler*>(table);
    return profiler.host_.guarded([&] { return profiler.start_event(id); });
  };
  OrtEpProfilerImpl::StopEvent = [](OrtEpProfilerImpl* table, uint64_t id,
                                    const OrtProfilingEvent*) noexcept -> OrtStatus* {
    auto& profiler = *static_cast<Profiler*>(table);
    return profiler.host_.guarded([&] { return profiler.stop_event(id); });
  };
  OrtEpProfilerImpl::EndProfiling = [](OrtEpProfilerImpl* table,
                                       OrtProfilingEventsContainer* container) noexcept -> OrtStatus* {
    auto& profiler = *static_cast<Profiler*>(table);
    return profiler.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(container == nullptr, "EndProfiling gets no container for its events.");
      TENON_TRY_ASSIGN(const std::vector<ProfiledEvent> events, profiler.end());
      {
        std::lock_guard lock(profiler.mutex_);
        profiler.running_ = false;
      }
      return profiler.add_events(events, container);
    });
  };
}

OrtEpProfilerImpl* Profiler::release_to_host(std::unique_ptr<Profiler> profiler) { return profiler.release(); }

bool Profiler::running() const {
  std::lock_guard lock(mutex_);
  return running_;
}

Status Profiler::add_events(const std::vector<ProfiledEvent>& events, OrtProfilingEventsContainer* container) {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  std::vector<HostPtr<OrtProfilingEvent>> owned;
  std::vector<const OrtProfilingEvent*> list;
  for (const ProfiledEvent& event : events) {
    const int64_t begin_ns = start_offset_ns_ + duration_cast<nanoseconds>(event.begin - started_).count();
    const int64_t length_ns = duration_cast<nanoseconds>(event.end - event.begin).count();
    TextPairs arguments = event.arguments;
    if (event.correlation_id != 0) arguments.emplace_back("correlation_id", std::to_string(event.correlation_id));
    std::vector<const char*> keys, values;
    for (const auto& [key, value] : arguments) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
    OrtProfilingEvent* created = nullptr;
    TENON_ORT_EP_TRY(host_, CreateProfilingEvent, event.category, static_cast<int32_t>(::getpid()), 0,
                     event.name.c_str(), begin_ns / 1000, length_ns / 1000, keys.data(), values.data(), keys.size(),
                     &created);
    owned.push_back(host_.own(created, host_.ep().ReleaseProfilingEvent));
    list.push_back(created);
  }
  if (!list.empty()) TENON_ORT_EP_TRY(host_, ProfilingEventsContainer_AddEvents, container, list.data(), list.size());
  return Status();
}

}  // namespace tenon::plugin
