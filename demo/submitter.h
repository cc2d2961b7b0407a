// Submissions to the device's queue between two values of timelines: copies between buffers, recorded once, or nothing
// but the order.
//
// Threads: one thread at a time, the one that uses the device's queue.
#pragma once

#include <memory>
#include <vector>

#include "demo/vulkan_device.h"

namespace tenon::demo {

class Submitter {
 public:
  static Result<std::unique_ptr<Submitter>> create(std::shared_ptr<VulkanDevice> device);
  Submitter(const Submitter&) = delete;
  Submitter& operator=(const Submitter&) = delete;
  ~Submitter();

  // The number of a copy of `size_bytes` from the begin of one buffer to the begin of the other.
  Result<size_t> record_copy(VkBuffer from, VkBuffer to, size_t size_bytes);

  static constexpr size_t kNothing = SIZE_MAX;
  // Queues copy `number`, or nothing, behind `wait` (null: behind nothing), and then moves `signal`.
  Status submit(size_t number, const VulkanTimeline* wait, uint64_t wait_value, const VulkanTimeline& signal,
                uint64_t signal_value);

 private:
  explicit Submitter(std::shared_ptr<VulkanDevice> device) : device_(std::move(device)) {}
  std::shared_ptr<VulkanDevice> device_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<VkCommandBuffer> copies_;
};

}  // namespace tenon::demo
