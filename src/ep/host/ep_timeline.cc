#include "ep/host/ep_timeline.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "device/timeline_errors.h"
#include "ep/host/plugin_factory.h"

namespace tenon::abi {

EpTimeline::EpTimeline(std::string name, const OrtEpDevice& device, std::shared_ptr<DeviceSemaphore> semaphore,
                       std::shared_ptr<Timeline> on_host)
    : name_(format("timeline \"{}\"", name)),
      device_(device),
      semaphore_(std::move(semaphore)),
      on_host_(std::move(on_host)) {}

Result<std::shared_ptr<EpTimeline>> EpTimeline::create(std::string name, const OrtEpDevice& device,
                                                       std::shared_ptr<DeviceSemaphore> semaphore,
                                                       std::shared_ptr<Timeline> on_host) {
  return std::shared_ptr<EpTimeline>(new EpTimeline(std::move(name), device, std::move(semaphore), std::move(on_host)));
}

Result<uint64_t> EpTimeline::value() {
  if (on_host_ != nullptr) return on_host_->value();
  return unsupported("The EP \"{}\" cannot tell the value of {}.", device_.ep_name, name_);
}

Status EpTimeline::wait(uint64_t value, int64_t timeout_ns) {
  TENON_TRY(check_timeout(name_, timeout_ns));
  TENON_TRY(poison_at(value));
  if (on_host_ != nullptr) {
    TENON_TRY(on_host_->wait(value, timeout_ns));
  } else {
    TENON_UNSUPPORTED_IF(timeout_ns != kWaitForever, "The EP \"{}\" cannot wait for {} with a deadline.",
                         device_.ep_name, name_);
    TENON_TRY(on_stream(value, &DeviceSemaphore::wait));
  }
  return poison_at(value);
}

Status EpTimeline::signal(uint64_t value) {
  return on_host_ != nullptr ? on_host_->signal(value) : on_stream(value, &DeviceSemaphore::signal);
}

void EpTimeline::promise(uint64_t value) {
  auto state = state_.lock();
  state->promised = std::max(state->promised, value);
}

void EpTimeline::poison(uint64_t value, const Status& why) {
  bool promised = false;
  {
    auto state = state_.lock();
    if (state->poison.ok() && !why.ok()) {
      state->poison = why;
      state->poisoned_from = value;
    }
    promised = value <= state->promised;
  }
  if (promised && why.code() != StatusCode::kDeviceLost) return;
  if (on_host_ != nullptr) {
    const Result<uint64_t> reached = on_host_->value();
    if (reached.ok() && *reached >= value) return;
  }
  if (const Status moved = signal(value); !moved.ok())
    log_warning("interop", "{} cannot be moved to {}: {}", name_, value, moved.message());
}

Status EpTimeline::poison_at(uint64_t value) const {
  const auto state = state_.lock();
  return !state->poison.ok() && value >= state->poisoned_from ? state->poison : Status();
}

Status EpTimeline::on_stream(uint64_t value, Status (DeviceSemaphore::*queue)(OrtSyncStream&, uint64_t)) {
  std::unique_ptr<PluginStream> stream;
  {
    auto idle = idle_streams_.lock();
    if (!idle->empty()) {
      stream = std::move(idle->back());
      idle->pop_back();
    }
  }
  if (stream == nullptr) {
    const std::shared_ptr<PluginFactory> factory = factory_of(device_);
    TENON_INVALID_IF(factory == nullptr, "The library of EP \"{}\" is not registered any more.", device_.ep_name);
    TENON_UNSUPPORTED_IF(!device_.default_memory, "The device of EP \"{}\" has no streams.", device_.ep_name);
    TENON_TRY_ASSIGN(stream, factory->create_stream(device_.default_memory->device, nullptr,
                                                    std::static_pointer_cast<const void>(factory)));
    TENON_UNSUPPORTED_IF(stream == nullptr, "The EP \"{}\" makes no streams.", device_.ep_name);
  }
  TENON_TRY((semaphore_.get()->*queue)(*stream->ort(), value));
  TENON_TRY_ASSIGN(const std::unique_ptr<DeviceNotification> reached, stream->create_notification());
  TENON_TRY(reached->activate());
  TENON_TRY(stream->flush());
  TENON_TRY(reached->wait_on_host());
  idle_streams_.lock()->push_back(std::move(stream));
  return {};
}

}  // namespace tenon::abi
