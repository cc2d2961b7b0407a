#include "demo/submitter.h"

namespace tenon::demo {

Result<std::unique_ptr<Submitter>> Submitter::create(std::shared_ptr<VulkanDevice> device) {
  auto made = std::unique_ptr<Submitter>(new Submitter(std::move(device)));
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.queueFamilyIndex = made->device_->queue_family;
  TENON_VULKAN_TRY(made->device_->api, vkCreateCommandPool, made->device_->device, &pool, nullptr, &made->pool_);
  return made;
}

Submitter::~Submitter() {
  device_->api.vkDeviceWaitIdle(device_->device);
  if (pool_ != VK_NULL_HANDLE) device_->api.vkDestroyCommandPool(device_->device, pool_, nullptr);
}

Result<size_t> Submitter::record_copy(VkBuffer from, VkBuffer to, size_t size_bytes) {
  const VulkanApi& api = device_->api;
  VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  TENON_VULKAN_TRY(api, vkAllocateCommandBuffers, device_->device, &info, &commands);
  const VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  TENON_VULKAN_TRY(api, vkBeginCommandBuffer, commands, &begin);
  const VkBufferCopy region{0, 0, size_bytes};
  api.vkCmdCopyBuffer(commands, from, to, 1, &region);
  VkBufferMemoryBarrier barrier{VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  barrier.srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.buffer = to;
  barrier.size = VK_WHOLE_SIZE;
  api.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 0, nullptr, 1,
                           &barrier, 0, nullptr);
  TENON_VULKAN_TRY(api, vkEndCommandBuffer, commands);
  copies_.push_back(commands);
  return copies_.size() - 1;
}

Status Submitter::submit(size_t number, const VulkanTimeline* wait, uint64_t wait_value, const VulkanTimeline& signal,
                         uint64_t signal_value) {
  const VkSemaphore waited = wait != nullptr ? wait->semaphore() : VK_NULL_HANDLE, signalled = signal.semaphore();
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
  if (wait != nullptr) {
    values.waitSemaphoreValueCount = submit.waitSemaphoreCount = 1;
    values.pWaitSemaphoreValues = &wait_value;
    submit.pWaitSemaphores = &waited;
    submit.pWaitDstStageMask = &stage;
  }
  values.signalSemaphoreValueCount = submit.signalSemaphoreCount = 1;
  values.pSignalSemaphoreValues = &signal_value;
  submit.pSignalSemaphores = &signalled;
  if (number != kNothing) {
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &copies_[number];
  }
  TENON_VULKAN_TRY(device_->api, vkQueueSubmit, device_->queue, 1, &submit, VK_NULL_HANDLE);
  return {};
}

}  // namespace tenon::demo
