#include "demo/timeline_bridge.h"

namespace tenon::demo {
namespace {

// How long a bridge is deaf to the wish that it should end.
constexpr int64_t kSliceNs = 50'000'000;

}  // namespace

std::unique_ptr<TimelineBridge> TimelineBridge::from_vulkan(std::shared_ptr<VulkanTimeline> from,
                                                            std::shared_ptr<Timeline> to, uint64_t last) {
  auto bridge = std::unique_ptr<TimelineBridge>(new TimelineBridge);
  const std::atomic<bool>& stop = bridge->stop_;
  bridge->start(
      [from = std::move(from), to = std::move(to), &stop](uint64_t value) -> Status {
        const auto keep_waiting = [&stop]() -> Status {
          return stop ? cancelled("The timeline's bridge is asked to end.") : Status();
        };
        Status waited = from->wait(value, kWaitForever, keep_waiting);
        if (waited.ok()) return to->signal(value);
        // Whoever waits on the other side gets the reason instead of hanging.
        if (waited.code() != StatusCode::kCancelled) to->poison(value, waited);
        return waited;
      },
      last);
  return bridge;
}

std::unique_ptr<TimelineBridge> TimelineBridge::to_vulkan(std::shared_ptr<Timeline> from,
                                                          std::shared_ptr<VulkanTimeline> to, uint64_t last) {
  auto bridge = std::unique_ptr<TimelineBridge>(new TimelineBridge);
  const std::atomic<bool>& stop = bridge->stop_;
  bridge->start(
      [from = std::move(from), to = std::move(to), &stop](uint64_t value) -> Status {
        while (true) {
          Status waited = from->wait(value, kSliceNs);
          if (waited.ok()) return to->signal(value);
          if (stop || waited.code() != StatusCode::kTimeout) return waited;
        }
      },
      last);
  return bridge;
}

void TimelineBridge::start(std::function<Status(uint64_t value)> carry, uint64_t last) {
  thread_ = std::thread([this, carry = std::move(carry), last] {
    for (uint64_t value = 1; value <= last && !stop_; ++value) {
      if (Status status = carry(value); !status.ok()) {
        failure_ = std::move(status);
        failed_ = true;
        return;
      }
    }
  });
}

Status TimelineBridge::status() const { return failed_ ? failure_ : Status(); }

TimelineBridge::~TimelineBridge() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

}  // namespace tenon::demo
