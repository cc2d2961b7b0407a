// One Vulkan device with one compute queue, and its shared buffers and timelines.
#pragma once

#include <tenon/external_memory.h>
#include <tenon/fence.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "demo/vulkan_api.h"

namespace tenon::demo {

// Ownership: everything made on a device holds it. Threads: const access from any thread; the queue belongs to one.
class VulkanDevice {
 public:
  // The best device (a GPU before a CPU) that has timelines and can export memory; `name_part` chooses among them by a
  // part of their names. Errors: kUnsupported says what each device lacks.
  static Result<std::shared_ptr<VulkanDevice>> create(const std::string& name_part = "");
  VulkanDevice() = default;
  VulkanDevice(const VulkanDevice&) = delete;
  VulkanDevice& operator=(const VulkanDevice&) = delete;
  ~VulkanDevice();

  VulkanApi api;
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  uint32_t queue_family = 0;
  std::string name;
  std::array<uint8_t, VK_UUID_SIZE> uuid{};
  bool can_export_timelines = false;
  bool can_import_host_pointers = false;
  VkDeviceSize host_pointer_alignment = 1;

 private:
  Status choose(const std::string& name_part);
  Status open();
};

// How a buffer's memory reaches another process.
enum class SharedBufferKind : uint8_t {
  kOpaqueFd,    // exported by the driver; the fd maps (llvmpipe's is a memfd)
  kMappableFd,  // a memfd that the driver imported by its host address: for drivers whose opaque fd does not map
  kDeviceFd,    // the device's own memory, exported by the driver: for another API of the device, the host maps nothing
};

// A storage buffer in memory that another process or API addresses, and the host, unless it is the device's own.
class SharedBuffer {
 public:
  // Errors: kUnsupported when the driver offers neither way.
  static Result<std::unique_ptr<SharedBuffer>> create(std::shared_ptr<VulkanDevice> device, size_t size_bytes,
                                                      const std::string& name);
  // In the device's own memory; `dedicated`: in an allocation that is made for this buffer alone. mapped() is null.
  static Result<std::unique_ptr<SharedBuffer>> create_on_device(std::shared_ptr<VulkanDevice> device, size_t size_bytes,
                                                                bool dedicated = true);
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;
  ~SharedBuffer();

  VkBuffer buffer() const { return buffer_; }
  // The Vulkan side's own mapping.
  void* mapped() const { return mapped_; }
  size_t size_bytes() const { return size_bytes_; }
  // Of the whole allocation behind the fd, where it is the device's own.
  size_t allocation_bytes() const { return allocation_bytes_; }
  SharedBufferKind kind() const { return kind_; }
  int fd() const { return fd_.fd(); }
  Result<OwnedHandle> dup_fd() const { return fd_.dup(); }
  // Where in the fd's object the buffer begins.
  size_t offset_bytes() const { return offset_bytes_; }

 private:
  explicit SharedBuffer(std::shared_ptr<VulkanDevice> device) : device_(std::move(device)) {}
  Status create_exported(const std::string& name);
  Status create_from_host_pointer(const std::string& name);
  Status create_device_local(bool dedicated);
  void destroy();

  std::shared_ptr<VulkanDevice> device_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  void* mapped_ = nullptr;
  void* host_mapping_ = nullptr;  // kMappableFd: ours to unmap
  size_t size_bytes_ = 0;
  size_t mapped_bytes_ = 0;
  size_t allocation_bytes_ = 0;
  SharedBufferKind kind_ = SharedBufferKind::kOpaqueFd;
  OwnedHandle fd_;
  size_t offset_bytes_ = 0;
};

// A buffer of this device alone: the atlas, the lines, what is read back. Host-visible and mapped.
class LocalBuffer {
 public:
  static Result<std::unique_ptr<LocalBuffer>> create(std::shared_ptr<VulkanDevice> device, size_t size_bytes);
  LocalBuffer(const LocalBuffer&) = delete;
  LocalBuffer& operator=(const LocalBuffer&) = delete;
  ~LocalBuffer();

  VkBuffer buffer() const { return buffer_; }
  void* mapped() const { return mapped_; }

 private:
  explicit LocalBuffer(std::shared_ptr<VulkanDevice> device) : device_(std::move(device)) {}
  std::shared_ptr<VulkanDevice> device_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  void* mapped_ = nullptr;
};

// A Vulkan timeline semaphore.
// Threads: every function from any thread.
class VulkanTimeline {
 public:
  static Result<std::shared_ptr<VulkanTimeline>> create(std::shared_ptr<VulkanDevice> device, bool exportable);
  // Another process's timeline. The driver takes a duplicate; `handle` is consumed on success.
  static Result<std::shared_ptr<VulkanTimeline>> import(std::shared_ptr<VulkanDevice> device, OwnedHandle& handle);
  VulkanTimeline(const VulkanTimeline&) = delete;
  VulkanTimeline& operator=(const VulkanTimeline&) = delete;
  ~VulkanTimeline();

  VkSemaphore semaphore() const { return semaphore_; }
  Result<uint64_t> value() const;
  // Waits in slices, and asks `keep_waiting` between them; kTimeout when `timeout_ns` has passed.
  Status wait(uint64_t value, int64_t timeout_ns, const std::function<Status()>& keep_waiting) const;
  Status signal(uint64_t value) const;
  Result<OwnedHandle> export_fd() const;

 private:
  explicit VulkanTimeline(std::shared_ptr<VulkanDevice> device) : device_(std::move(device)) {}
  std::shared_ptr<VulkanDevice> device_;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  bool shared_ = false;  // another process may move it
};

// `timeline` as a Tenon timeline whose calls go to the application's own device.
Result<std::shared_ptr<Timeline>> wrap_timeline(std::string name, std::shared_ptr<VulkanTimeline> timeline,
                                                std::function<Status()> keep_waiting);

}  // namespace tenon::demo
