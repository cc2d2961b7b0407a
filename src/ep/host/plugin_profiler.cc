#include "ep/host/plugin_profiler.h"

#include <utility>

#include "abi/objects/profiling_event.h"
#include "base/deadline.h"
#include "base/log.h"

namespace tenon::abi {

PluginProfiler::PluginProfiler(std::shared_ptr<PluginEp> ep, std::shared_ptr<SessionProfile> profile)
    : ep_(std::move(ep)), profile_(std::move(profile)) {
  const auto create = TENON_MEMBER(ep_->get(), OrtEp, CreateProfiler);
  if (create.absent()) return;
  OrtEpProfilerImpl* impl = nullptr;
  Status status = call(ep_->who(), create, ep_->get(), &impl);
  if (status.ok() && impl == nullptr) return;  // it has none today
  if (status.ok()) status = check_object(ep_->who(), "OrtEpProfilerImpl", impl, create.name);
  if (!status.ok()) {
    note(status);
    return;
  }
  impl_ = impl;
  start_event_ = TENON_MEMBER(impl, OrtEpProfilerImpl, StartEvent);
  stop_event_ = TENON_MEMBER(impl, OrtEpProfilerImpl, StopEvent);
  const auto start = TENON_MEMBER(impl, OrtEpProfilerImpl, StartProfiling);
  status = TENON_MEMBER(impl, OrtEpProfilerImpl, EndProfiling).check(ep_->who());
  if (status.ok()) status = call(ep_->who(), start, impl, monotonic_ns() - static_cast<int64_t>(profile_->start_ns()));
  running_ = status.ok();
  note(status);
}

PluginProfiler::~PluginProfiler() {
  if (impl_ == nullptr) return;
  const auto release = TENON_MEMBER(impl_, OrtEpProfilerImpl, Release);
  if (!release.absent()) note(call_value(ep_->who(), release, impl_));
}

void PluginProfiler::note(const Status& status) {
  if (status.ok()) return;
  running_ = false;
  log_warning("plugin", "The profile lacks the events of an EP: {}", status.message());
}

PluginProfiler::Event PluginProfiler::start_event() {
  static std::atomic<uint64_t> events = 0;
  const Event event{events.fetch_add(1, std::memory_order_relaxed) + 1, monotonic_ns()};
  if (running_ && !start_event_.absent()) note(call(ep_->who(), start_event_, impl_, event.id));
  return event;
}

void PluginProfiler::stop_event(const Event& event, const std::string& node, const std::string& op_type) {
  OrtProfilingEvent said;
  said.category = OrtProfilingEventCategory_NODE;
  said.name = node + "_kernel_time";
  said.timestamp_us = (event.begin_ns - static_cast<int64_t>(profile_->start_ns())) / 1000;
  said.duration_us = (monotonic_ns() - event.begin_ns) / 1000;
  said.arguments = {{"op_name", op_type.empty() ? node : op_type}, {"provider", ep_->factory().name()}};
  profile_->complete(said);
  if (running_ && !stop_event_.absent()) note(call(ep_->who(), stop_event_, impl_, event.id, &std::as_const(said)));
}

void PluginProfiler::end() {
  if (!running_.exchange(false)) return;
  OrtProfilingEventsContainer container;
  const auto end = TENON_MEMBER(impl_, OrtEpProfilerImpl, EndProfiling);
  note(call(ep_->who(), end, impl_, &container));
  for (OrtProfilingEvent& event : container.events) profile_->add(std::move(event));
}

}  // namespace tenon::abi
