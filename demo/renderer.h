// Draws the page with a compute shader into shared buffers, one frame after the other.
//
// Threads: one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "demo/page.h"
#include "demo/vulkan_device.h"

namespace tenon::demo {

class Renderer {
 public:
  // Draws into `targets`, each at least kInputBytes long, which outlive the renderer.
  static Result<std::unique_ptr<Renderer>> create(std::shared_ptr<VulkanDevice> device,
                                                  const std::vector<const SharedBuffer*>& targets);
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;
  ~Renderer();

  const Page& page() const { return page_; }
  // Queues frame `frame` into targets[slot] and returns: the device waits for `wait` to reach `wait_value` (0: nothing
  // to wait for), draws, and moves `signal` to `signal_value`. The slot's last frame must have been drawn.
  Status submit(size_t slot, uint64_t frame, const VulkanTimeline& wait, uint64_t wait_value,
                const VulkanTimeline& signal, uint64_t signal_value);

 private:
  explicit Renderer(std::shared_ptr<VulkanDevice> device) : device_(std::move(device)) {}
  Status create_pipeline();
  Status create_slots(const std::vector<const SharedBuffer*>& targets);
  Status record(size_t slot, VkBuffer target);

  struct Slot {
    std::unique_ptr<LocalBuffer> lines;
    VkDescriptorSet descriptors = VK_NULL_HANDLE;
    VkCommandBuffer commands = VK_NULL_HANDLE;
  };
  std::shared_ptr<VulkanDevice> device_;
  Page page_;
  std::unique_ptr<LocalBuffer> atlas_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout pipeline_layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  VkDescriptorPool descriptor_pool_ = VK_NULL_HANDLE;
  VkCommandPool command_pool_ = VK_NULL_HANDLE;
  std::vector<Slot> slots_;
};

}  // namespace tenon::demo
