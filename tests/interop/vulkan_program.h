// A small Vulkan program that shares memory and timelines with Tenon: one device, exported buffers, timeline
// semaphores. For tests.
#pragma once

#include <tenon/importer.h>
#include <vulkan/vulkan.h>

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace tenon::test {

// Device memory with a buffer on it. Mapped where the host sees it: on the CPU, and staging buffers.
struct VulkanBuffer {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  void* mapped = nullptr;
  size_t size_bytes = 0;
};

class VulkanProgram {
 public:
  // On a GPU: a device that also exports timelines.
  enum class Runs : uint8_t { kOnCpu, kOnGpu };
  // Null, with the reason, when this machine has no such Vulkan device that exports memory.
  static std::unique_ptr<VulkanProgram> create(std::string* why_not, Runs runs = Runs::kOnCpu);
  ~VulkanProgram();

  // `dedicated`: the allocation is made for this buffer alone.
  VulkanBuffer make_buffer(size_t size_bytes, bool dedicated = false);
  // In the host's memory, for copies that it reads; cannot be exported.
  VulkanBuffer make_staging_buffer(size_t size_bytes);
  void destroy(const VulkanBuffer& buffer);
  OwnedHandle export_fd(const VulkanBuffer& buffer);

  VkSemaphore make_timeline(uint64_t initial_value);
  void destroy(VkSemaphore semaphore);
  // On a GPU only.
  OwnedHandle export_fd(VkSemaphore semaphore);
  const std::array<uint8_t, VK_UUID_SIZE>& device_uuid() const { return uuid_; }
  TimelineCallbacks callbacks(VkSemaphore semaphore);

  // Both wait on the device for one value of `semaphore` and signal another; the calls return at once.
  void submit_fill(const VulkanBuffer& buffer, uint32_t word, VkSemaphore semaphore, uint64_t wait, uint64_t signal);
  void submit_copy(const VulkanBuffer& dst, const VulkanBuffer& src, VkSemaphore semaphore, uint64_t wait,
                   uint64_t signal);
  // Done on return.
  void copy(const VulkanBuffer& dst, const VulkanBuffer& src);
  const std::string& device_name() const { return device_name_; }

 private:
  VulkanProgram() = default;
  bool open(std::string* why_not, Runs runs);
  VulkanBuffer allocate(size_t size_bytes, bool dedicated, bool staging);
  // Gives the commands, which live as long as the program unless they are freed.
  VkCommandBuffer submit(const std::function<void(VkCommandBuffer)>& record, VkSemaphore semaphore, uint64_t wait,
                         uint64_t signal);

  std::mutex mutex_;  // of the queue and the command pool
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  PFN_vkGetMemoryFdKHR get_memory_fd_ = nullptr;
  PFN_vkGetSemaphoreFdKHR get_semaphore_fd_ = nullptr;  // null on the CPU
  std::array<uint8_t, VK_UUID_SIZE> uuid_{};
  std::string device_name_;
};

}  // namespace tenon::test
