// What `tenon conformance` shares with an EP: the Vulkan side of the demo, as handles.
#include "programs/vulkan_sharing.h"

#include <cstring>
#include <mutex>
#include <utility>

#include "demo/submitter.h"

namespace tenon::demo {
namespace {

// The device with its queue, which one thread at a time may use.
struct Queue {
  std::shared_ptr<VulkanDevice> device;
  std::mutex mutex;
};

class DeviceBuffer final : public VulkanSharing::Buffer {
 public:
  static Result<std::unique_ptr<VulkanSharing::Buffer>> create(std::shared_ptr<Queue> queue, size_t size_bytes,
                                                               bool dedicated) {
    auto made = std::unique_ptr<DeviceBuffer>(new DeviceBuffer(std::move(queue)));
    const std::shared_ptr<VulkanDevice>& device = made->queue_->device;
    TENON_TRY_ASSIGN(made->buffer_, SharedBuffer::create_on_device(device, size_bytes, dedicated));
    TENON_TRY_ASSIGN(made->view_, LocalBuffer::create(device, size_bytes));
    TENON_TRY_ASSIGN(made->done_, VulkanTimeline::create(device, false));
    TENON_TRY_ASSIGN(made->submitter_, Submitter::create(device));
    TENON_TRY_ASSIGN(made->publish_,
                     made->submitter_->record_copy(made->view_->buffer(), made->buffer_->buffer(), size_bytes));
    TENON_TRY_ASSIGN(made->refresh_,
                     made->submitter_->record_copy(made->buffer_->buffer(), made->view_->buffer(), size_bytes));
    TENON_TRY_ASSIGN(made->fd_, made->buffer_->dup_fd());
    std::memset(made->view(), 0, size_bytes);
    TENON_TRY(made->publish());
    return std::unique_ptr<VulkanSharing::Buffer>(std::move(made));
  }

  // A submitter waits for the whole device at its end, which counts as a use of the queue.
  ~DeviceBuffer() override {
    const std::lock_guard lock(queue_->mutex);
    submitter_.reset();
  }

  int fd() const override { return fd_.fd(); }
  void release_fd() override { (void)fd_.release_fd(); }
  std::byte* view() override { return static_cast<std::byte*>(view_->mapped()); }
  Status publish() override { return copy(publish_); }
  Status refresh() override { return copy(refresh_); }

 private:
  explicit DeviceBuffer(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

  Status copy(size_t number) {
    constexpr int64_t kPatienceNs = 10'000'000'000;
    const std::lock_guard lock(queue_->mutex);
    TENON_TRY(submitter_->submit(number, nullptr, 0, *done_, last_ + 1));
    return done_->wait(++last_, kPatienceNs, {});
  }

  const std::shared_ptr<Queue> queue_;
  std::unique_ptr<SharedBuffer> buffer_;
  std::unique_ptr<LocalBuffer> view_;
  std::shared_ptr<VulkanTimeline> done_;
  uint64_t last_ = 0;
  std::unique_ptr<Submitter> submitter_;  // waits, before the buffers go
  size_t publish_ = 0, refresh_ = 0;
  OwnedHandle fd_;
};

class DeviceSemaphore final : public VulkanSharing::Semaphore {
 public:
  static Result<std::unique_ptr<VulkanSharing::Semaphore>> create(const std::shared_ptr<VulkanDevice>& device) {
    auto made = std::make_unique<DeviceSemaphore>();
    TENON_TRY_ASSIGN(const std::shared_ptr<VulkanTimeline> timeline, VulkanTimeline::create(device, true));
    TENON_TRY_ASSIGN(made->fd_, timeline->export_fd());
    TENON_TRY_ASSIGN(made->timeline_, wrap_timeline("vulkan", timeline, {}));
    return std::unique_ptr<VulkanSharing::Semaphore>(std::move(made));
  }

  int fd() const override { return fd_.fd(); }
  void release_fd() override { (void)fd_.release_fd(); }
  Timeline& timeline() override { return *timeline_; }

 private:
  OwnedHandle fd_;
  std::shared_ptr<Timeline> timeline_;
};

class DeviceSharing final : public VulkanSharing {
 public:
  explicit DeviceSharing(std::shared_ptr<VulkanDevice> device) : queue_(std::make_shared<Queue>()) {
    queue_->device = std::move(device);
  }
  const std::string& device_name() const override { return queue_->device->name; }
  const std::array<uint8_t, VK_UUID_SIZE>& device_uuid() const override { return queue_->device->uuid; }
  Result<std::unique_ptr<Buffer>> make_buffer(size_t size_bytes, bool dedicated) override {
    return DeviceBuffer::create(queue_, size_bytes, dedicated);
  }
  Result<std::unique_ptr<Semaphore>> make_semaphore() override { return DeviceSemaphore::create(queue_->device); }

 private:
  const std::shared_ptr<Queue> queue_;
};

bool is_gpu(const VulkanDevice& device) {
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  device.api.vkGetPhysicalDeviceProperties2(device.physical, &properties);
  return properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ||
         properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
}

}  // namespace
}  // namespace tenon::demo

namespace tenon::programs {

Result<std::shared_ptr<VulkanSharing>> open_vulkan_sharing(bool any_device) {
  TENON_TRY_ASSIGN(std::shared_ptr<demo::VulkanDevice> device, demo::VulkanDevice::create());
  if (!any_device && !demo::is_gpu(*device))
    return unsupported("Vulkan's best device, \"{}\", is no GPU.", device->name);
  if (!any_device && !device->can_export_timelines)
    return unsupported("Vulkan device \"{}\" exports no timelines.", device->name);
  return std::shared_ptr<VulkanSharing>(std::make_shared<demo::DeviceSharing>(std::move(device)));
}

}  // namespace tenon::programs
