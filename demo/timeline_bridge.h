// Signals one timeline with the values of another, on a thread of its own, for drivers that export no timelines.
#pragma once

#include <tenon/fence.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "demo/vulkan_device.h"

namespace tenon::demo {

// Ends its thread when destroyed. A failure of the timeline that leads is passed to the one that follows, and stays
// here.
class TimelineBridge {
 public:
  // Each value 1, 2, ..., `last` that the Vulkan timeline reaches is signalled on the shared one.
  static std::unique_ptr<TimelineBridge> from_vulkan(std::shared_ptr<VulkanTimeline> from, std::shared_ptr<Timeline> to,
                                                     uint64_t last);
  // The other way round.
  static std::unique_ptr<TimelineBridge> to_vulkan(std::shared_ptr<Timeline> from, std::shared_ptr<VulkanTimeline> to,
                                                   uint64_t last);
  TimelineBridge(const TimelineBridge&) = delete;
  TimelineBridge& operator=(const TimelineBridge&) = delete;
  ~TimelineBridge();

  // OK, or why the bridge has ended early.
  Status status() const;

 private:
  TimelineBridge() = default;
  void start(std::function<Status(uint64_t value)> carry, uint64_t last);

  std::atomic<bool> stop_ = false;
  std::atomic<bool> failed_ = false;
  Status failure_;  // written before failed_ is set, read after
  std::thread thread_;
};

}  // namespace tenon::demo
