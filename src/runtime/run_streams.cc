#include "runtime/run_streams.h"

#include <utility>

#include "base/log.h"
#include "base/trace.h"

namespace tenon {

namespace {

Result<std::unique_ptr<DeviceNotification>> make_notification(DeviceStream& stream, std::string_view ep_name) {
  TENON_TRY_ASSIGN(std::unique_ptr<DeviceNotification> made, stream.create_notification());
  if (made == nullptr) return device_error("A stream of the EP \"{}\" made no notification.", ep_name);
  return made;
}

}  // namespace

Result<bool> RunStreams::make_stream(EpId ep) {
  DeviceProvider& provider = owner(ep);
  Result<std::unique_ptr<DeviceStream>> made = provider.create_stream();
  if (!made.ok())
    return std::move(made).status().with_context(format("while making a stream of the EP \"{}\"", provider.name()));
  One& one = at(ep);
  one.owned = std::move(made).value();
  one.own.stream = one.owned.get();
  return one.owned != nullptr;
}

void RunStreams::borrow(EpId ep, DeviceStream& stream) {
  One& one = at(ep);
  TENON_TRACE(kSync, "The EP \"{}\" works on the caller's stream {}.", owner(ep).name(), stream.id());
  one.borrowed = std::exchange(one.kept, Lane());
  if (one.kept_id != stream.id()) one.borrowed = Lane();
  one.borrowed.stream = &stream;
}

void RunStreams::give_back() {
  for (One& one : streams_) {
    Lane lane = std::exchange(one.borrowed, Lane());
    if (!std::exchange(one.left, false) || lane.stream == nullptr) continue;
    one.kept_id = lane.stream->id();
    lane.stream = nullptr;
    one.kept = std::move(lane);
  }
  used_own_ = false;
}

Status RunStreams::prepare(EpId ep, size_t points) {
  One& one = at(ep);
  const std::string_view ep_name = owner(ep).name();
  if (one.lane().stream == nullptr) {
    TENON_TRY_ASSIGN(const bool made, make_stream(ep));
    if (!made) return device_error("The EP \"{}\" made a stream when the model was loaded, and none now.", ep_name);
  }
  Lane& lane = one.lane();
  if (lane.end == nullptr) {
    TENON_TRY_ASSIGN(lane.end, make_notification(*lane.stream, ep_name));
  }
  while (lane.notifications.size() < points) {
    TENON_TRY_ASSIGN(std::unique_ptr<DeviceNotification> made, make_notification(*lane.stream, ep_name));
    lane.notifications.push_back(std::move(made));
  }
  return {};
}

Status RunStreams::notify(EpId ep, PointId point) { return at(ep).lane().notifications[point]->activate(); }

Status RunStreams::wait_on_host(EpId ep, PointId point) {
  TENON_TRACE(kSync, "The host waits for point {} of the stream of EP {}.", point, ep.value());
  TraceSpan span("wait", "host for a stream");
  if (span) span.args().add("ep", owner(ep).name()).add("awaited_stream", ep.value()).add("point", point.value());
  return at(ep).lane().notifications[point]->wait_on_host();
}

Status RunStreams::wait_on_device(EpId ep, PointId point, EpId waiter) {
  TENON_TRACE(kSync, "The stream of EP {} waits for point {} of the stream of EP {}.", waiter.value(), point,
              ep.value());
  TraceSpan span("wait", "stream for a stream");
  if (span) span.args().add("ep", owner(ep).name()).add("awaited_stream", ep.value()).add("point", point.value());
  return at(ep).lane().notifications[point]->wait_on_device(*at(waiter).lane().stream);
}

Status RunStreams::synchronize() {
  Status first;
  const auto keep = [&first](Status status) {
    if (first.ok()) first = std::move(status);
  };
  for (EpId ep : streams_.ids()) {
    One& one = streams_[ep];
    if (!one.busy) continue;
    one.busy = false;
    Lane& lane = one.lane();
    TraceSpan span("wait", "end of a stream");
    if (span) span.args().add("ep", owner(ep).name()).add("awaited_stream", ep.value());
    Status status = lane.end->activate();
    if (status.ok()) status = lane.stream->flush();
    if (status.ok()) status = lane.end->wait_on_host();
    if (!status.ok())
      keep(std::move(status).with_context(format("while waiting for the EP \"{}\"", providers_[ep]->name())));
  }
  return first;
}

Result<std::unique_ptr<DeviceNotification>> RunStreams::leave(EpId ep, std::unique_ptr<DeviceNotification> earlier) {
  One& one = at(ep);
  TENON_TRY(one.lane().end->activate());
  one.busy = false;
  one.left = true;
  return std::exchange(one.lane().end, std::move(earlier));
}

Status RunStreams::end_run() {
  Status first;
  for (One& one : streams_) {
    if (!one.used) continue;
    one.used = false;
    Status status = one.lane().stream->end_run();
    if (first.ok()) first = std::move(status);
  }
  return first;
}

std::unique_ptr<RunStreams> StreamPool::take() {
  {
    auto idle = idle_.lock();
    if (!idle->empty()) {
      std::unique_ptr<RunStreams> streams = std::move(idle->back());
      idle->pop_back();
      return streams;
    }
  }
  return std::make_unique<RunStreams>(providers_);
}

}  // namespace tenon
