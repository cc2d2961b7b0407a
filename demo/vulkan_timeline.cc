#include <algorithm>
#include <chrono>
#include <thread>

#include "demo/vulkan_device.h"

namespace tenon::demo {
namespace {

using Clock = std::chrono::steady_clock;

// A driver may answer a blocking wait milliseconds late while the counter is right at once: look at it first.
constexpr auto kPollFor = std::chrono::microseconds(50);
// A timeline that another process or API moves: one driver's blocking wait sees that up to 10 ms late (measured on an
// H200), so look again and again with a pause between.
constexpr auto kPause = std::chrono::microseconds(100);
// Between two slices of a long wait somebody looks whether the other side still lives.
constexpr int64_t kSliceNs = 50'000'000;

}  // namespace

Result<std::shared_ptr<VulkanTimeline>> VulkanTimeline::create(std::shared_ptr<VulkanDevice> owner, bool exportable) {
  auto made = std::shared_ptr<VulkanTimeline>(new VulkanTimeline(std::move(owner)));
  const VulkanDevice& device = *made->device_;
  const VkExportSemaphoreCreateInfo exported{VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO, nullptr,
                                             VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  if (exportable) type.pNext = &exported;
  made->shared_ = exportable;
  const VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type};
  TENON_VULKAN_TRY(device.api, vkCreateSemaphore, device.device, &info, nullptr, &made->semaphore_);
  return made;
}

Result<std::shared_ptr<VulkanTimeline>> VulkanTimeline::import(std::shared_ptr<VulkanDevice> owner,
                                                               OwnedHandle& handle) {
  TENON_TRY_ASSIGN(std::shared_ptr<VulkanTimeline> made, create(std::move(owner), false));
  const VulkanDevice& device = *made->device_;
  if (device.api.vkImportSemaphoreFdKHR == nullptr)
    return unsupported("Vulkan device \"{}\" imports no timelines.", device.name);
  TENON_TRY_ASSIGN(OwnedHandle copy, handle.dup());
  VkImportSemaphoreFdInfoKHR info{VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR};
  info.semaphore = made->semaphore_;
  info.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  info.fd = copy.fd();
  TENON_VULKAN_TRY(device.api, vkImportSemaphoreFdKHR, device.device, &info);
  (void)copy.release_fd();  // the driver's now
  made->shared_ = true;
  handle.reset();
  return made;
}

VulkanTimeline::~VulkanTimeline() {
  if (semaphore_ != VK_NULL_HANDLE) device_->api.vkDestroySemaphore(device_->device, semaphore_, nullptr);
}

Result<uint64_t> VulkanTimeline::value() const {
  uint64_t value = 0;
  TENON_VULKAN_TRY(device_->api, vkGetSemaphoreCounterValue, device_->device, semaphore_, &value);
  return value;
}

Status VulkanTimeline::wait(uint64_t value, int64_t timeout_ns, const std::function<Status()>& keep_waiting) const {
  const Clock::time_point start = Clock::now();
  do {
    TENON_TRY_ASSIGN(const uint64_t reached, this->value());
    if (reached >= value) return {};
  } while (Clock::now() - start < kPollFor);

  VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore_;
  info.pValues = &value;
  int64_t next_question_ns = kSliceNs;
  while (true) {
    const int64_t waited_ns = std::chrono::nanoseconds(Clock::now() - start).count();
    if (timeout_ns >= 0 && waited_ns >= timeout_ns)
      return timed_out("A Vulkan timeline does not reach {} within {} ms.", value, timeout_ns / 1'000'000);
    if (shared_) {
      std::this_thread::sleep_for(kPause);
      TENON_TRY_ASSIGN(const uint64_t reached, this->value());
      if (reached >= value) return {};
      if (waited_ns >= next_question_ns) {
        next_question_ns = waited_ns + kSliceNs;
        if (keep_waiting) TENON_TRY(keep_waiting());
      }
      continue;
    }
    const int64_t slice = timeout_ns < 0 ? kSliceNs : std::min(kSliceNs, timeout_ns - waited_ns);
    const VkResult result = device_->api.vkWaitSemaphores(device_->device, &info, static_cast<uint64_t>(slice));
    if (result == VK_SUCCESS) return {};
    if (result != VK_TIMEOUT) return vulkan_status(result, "vkWaitSemaphores");
    if (keep_waiting) TENON_TRY(keep_waiting());
  }
}

Status VulkanTimeline::signal(uint64_t value) const {
  const VkSemaphoreSignalInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, nullptr, semaphore_, value};
  TENON_VULKAN_TRY(device_->api, vkSignalSemaphore, device_->device, &info);
  return {};
}

Result<OwnedHandle> VulkanTimeline::export_fd() const {
  if (device_->api.vkGetSemaphoreFdKHR == nullptr)
    return unsupported("Vulkan device \"{}\" exports no timelines.", device_->name);
  const VkSemaphoreGetFdInfoKHR info{VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR, nullptr, semaphore_,
                                     VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
  int fd = -1;
  TENON_VULKAN_TRY(device_->api, vkGetSemaphoreFdKHR, device_->device, &info, &fd);
  return OwnedHandle::take_fd(fd);
}

Result<std::shared_ptr<Timeline>> wrap_timeline(std::string name, std::shared_ptr<VulkanTimeline> timeline,
                                                std::function<Status()> keep_waiting) {
  TimelineCallbacks callbacks;
  callbacks.value = [timeline] { return timeline->value(); };
  callbacks.signal = [timeline](uint64_t value) { return timeline->signal(value); };
  callbacks.wait = [timeline = std::move(timeline), keep_waiting = std::move(keep_waiting)](
                       uint64_t value, int64_t timeout_ns) { return timeline->wait(value, timeout_ns, keep_waiting); };
  return make_callback_timeline(std::move(name), std::move(callbacks));
}

}  // namespace tenon::demo
