#include "runtime/run_streams.h"

#include <utility>

#include "base/log.h"

namespace tenon {

namespace {

Result<std::unique_ptr<DeviceNotification>> make_notification(DeviceStream& stream, std::string_view ep_name) {
  TENON_TRY_ASSIGN(std::unique_ptr<DeviceNotification> made, stream.create_notification());
  if (made == nullptr) return device_error("A stream of the EP \"{}\" made no notification.", ep_name);
  return made;
}

}  // namespace

Result<bool> RunStreams::make_stream(DeviceProvider& owner, int32_t provider) {
  Result<std::unique_ptr<DeviceStream>> made = owner.create_stream();
  if (!made.ok()) {
    return std::move(made).status().with_context(format("while making a stream of the EP \"{}\"", owner.name()));
  }
  at(provider).ep_name = owner.name();
  at(provider).stream = std::move(made).value();
  return at(provider).stream != nullptr;
}

Status RunStreams::prepare(DeviceProvider& owner, int32_t provider, int32_t notifications) {
  One& one = at(provider);
  if (one.stream == nullptr) {
    TENON_TRY_ASSIGN(const bool made, make_stream(owner, provider));
    if (!made) {
      return device_error("The EP \"{}\" made a stream when the model was loaded, and none now.", owner.name());
    }
  }
  if (one.end == nullptr) {
    TENON_TRY_ASSIGN(one.end, make_notification(*one.stream, owner.name()));
  }
  while (one.notifications.size() < static_cast<size_t>(notifications)) {
    TENON_TRY_ASSIGN(std::unique_ptr<DeviceNotification> made, make_notification(*one.stream, owner.name()));
    one.notifications.push_back(std::move(made));
  }
  return {};
}

Status RunStreams::notify(int32_t provider, int32_t slot) {
  return at(provider).notifications[static_cast<size_t>(slot)]->activate();
}

Status RunStreams::wait_on_host(int32_t provider, int32_t slot) {
  One& one = at(provider);
  TENON_TRACE(kSync, "The host waits for point {} of the stream of EP {}.", slot, provider);
  TENON_TRY(one.stream->flush());
  return one.notifications[static_cast<size_t>(slot)]->wait_on_host();
}

Status RunStreams::wait_on_device(int32_t provider, int32_t slot, int32_t waiter) {
  One& one = at(provider);
  TENON_TRACE(kSync, "The stream of EP {} waits for point {} of the stream of EP {}.", waiter, slot, provider);
  TENON_TRY(one.stream->flush());
  return one.notifications[static_cast<size_t>(slot)]->wait_on_device(*at(waiter).stream);
}

Status RunStreams::synchronize() {
  Status first;
  const auto keep = [&first](Status status) {
    if (first.ok()) first = std::move(status);
  };
  for (One& one : streams_) {
    if (!one.busy) continue;
    one.busy = false;
    Status status = one.end->activate();
    if (status.ok()) status = one.stream->flush();
    if (status.ok()) status = one.end->wait_on_host();
    if (!status.ok()) keep(std::move(status).with_context(format("while waiting for the EP \"{}\"", one.ep_name)));
  }
  return first;
}

Status RunStreams::end_run() {
  Status first;
  for (One& one : streams_) {
    if (!one.used) continue;
    one.used = false;
    Status status = one.stream->end_run();
    if (first.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace tenon
