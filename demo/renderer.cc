#include "demo/renderer.h"

#include <cstring>

#include "demo/frame_shader.h"

namespace tenon::demo {
namespace {

constexpr uint32_t kBindings = 3;  // lines, atlas, tensor
constexpr uint32_t kGroupWidth = 64;
constexpr uint32_t kGroupHeight = 2;

// The shader's push constants.
struct FrameConstants {
  float paper[4] = {kPaper[0], kPaper[1], kPaper[2], 0};
  float mean[4] = {kMean[0], kMean[1], kMean[2], 0};
  float deviation[4] = {kDeviation[0], kDeviation[1], kDeviation[2], 1};
  int32_t width = kFrameWidth;
  int32_t height = kFrameHeight;
  int32_t line_count = 0;
};
static_assert(sizeof(FrameConstants) == 60);

}  // namespace

Result<std::unique_ptr<Renderer>> Renderer::create(std::shared_ptr<VulkanDevice> device,
                                                   const std::vector<const SharedBuffer*>& targets) {
  auto made = std::unique_ptr<Renderer>(new Renderer(std::move(device)));
  const std::vector<uint8_t>& atlas = made->page_.atlas();
  TENON_TRY_ASSIGN(made->atlas_, LocalBuffer::create(made->device_, atlas.size()));
  std::memcpy(made->atlas_->mapped(), atlas.data(), atlas.size());
  TENON_TRY(made->create_pipeline());
  TENON_TRY(made->create_slots(targets));
  return made;
}

Status Renderer::create_pipeline() {
  const VulkanApi& api = device_->api;
  VkDescriptorSetLayoutBinding bindings[kBindings] = {};
  for (uint32_t i = 0; i < kBindings; ++i)
    bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  VkDescriptorSetLayoutCreateInfo set_info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  set_info.bindingCount = kBindings;
  set_info.pBindings = bindings;
  TENON_VULKAN_TRY(api, vkCreateDescriptorSetLayout, device_->device, &set_info, nullptr, &set_layout_);

  const VkPushConstantRange constants{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(FrameConstants)};
  VkPipelineLayoutCreateInfo layout_info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout_info.setLayoutCount = 1;
  layout_info.pSetLayouts = &set_layout_;
  layout_info.pushConstantRangeCount = 1;
  layout_info.pPushConstantRanges = &constants;
  TENON_VULKAN_TRY(api, vkCreatePipelineLayout, device_->device, &layout_info, nullptr, &pipeline_layout_);

  VkShaderModuleCreateInfo shader_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  shader_info.codeSize = sizeof(kFrameShader);
  shader_info.pCode = kFrameShader;
  VkShaderModule shader = VK_NULL_HANDLE;
  TENON_VULKAN_TRY(api, vkCreateShaderModule, device_->device, &shader_info, nullptr, &shader);
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = shader;
  info.stage.pName = "main";
  info.layout = pipeline_layout_;
  const VkResult result = api.vkCreateComputePipelines(device_->device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline_);
  api.vkDestroyShaderModule(device_->device, shader, nullptr);
  if (result != VK_SUCCESS) return vulkan_status(result, "vkCreateComputePipelines");
  return {};
}

Status Renderer::create_slots(const std::vector<const SharedBuffer*>& targets) {
  const VulkanApi& api = device_->api;
  const auto count = static_cast<uint32_t>(targets.size());
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, count * kBindings};
  VkDescriptorPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  pool_info.maxSets = count;
  pool_info.poolSizeCount = 1;
  pool_info.pPoolSizes = &size;
  TENON_VULKAN_TRY(api, vkCreateDescriptorPool, device_->device, &pool_info, nullptr, &descriptor_pool_);
  VkCommandPoolCreateInfo command_info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  command_info.queueFamilyIndex = device_->queue_family;
  TENON_VULKAN_TRY(api, vkCreateCommandPool, device_->device, &command_info, nullptr, &command_pool_);

  for (size_t i = 0; i < targets.size(); ++i) {
    Slot slot;
    TENON_TRY_ASSIGN(slot.lines, LocalBuffer::create(device_, page_.line_count() * sizeof(LineRecord)));
    VkDescriptorSetAllocateInfo set_info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    set_info.descriptorPool = descriptor_pool_;
    set_info.descriptorSetCount = 1;
    set_info.pSetLayouts = &set_layout_;
    TENON_VULKAN_TRY(api, vkAllocateDescriptorSets, device_->device, &set_info, &slot.descriptors);
    const VkDescriptorBufferInfo buffers[kBindings] = {{slot.lines->buffer(), 0, VK_WHOLE_SIZE},
                                                       {atlas_->buffer(), 0, VK_WHOLE_SIZE},
                                                       {targets[i]->buffer(), 0, VK_WHOLE_SIZE}};
    VkWriteDescriptorSet writes[kBindings] = {};
    for (uint32_t binding = 0; binding < kBindings; ++binding) {
      writes[binding].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
      writes[binding].dstSet = slot.descriptors;
      writes[binding].dstBinding = binding;
      writes[binding].descriptorCount = 1;
      writes[binding].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
      writes[binding].pBufferInfo = &buffers[binding];
    }
    api.vkUpdateDescriptorSets(device_->device, kBindings, writes, 0, nullptr);
    VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    info.commandPool = command_pool_;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    TENON_VULKAN_TRY(api, vkAllocateCommandBuffers, device_->device, &info, &slot.commands);
    slots_.push_back(std::move(slot));
    TENON_TRY(record(i, targets[i]->buffer()));
  }
  return {};
}

// Recorded once for each slot: what changes from frame to frame lies in the buffer of lines.
Status Renderer::record(size_t index, VkBuffer target) {
  const VulkanApi& api = device_->api;
  const Slot& slot = slots_[index];
  const VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  TENON_VULKAN_TRY(api, vkBeginCommandBuffer, slot.commands, &begin);
  api.vkCmdBindPipeline(slot.commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_);
  api.vkCmdBindDescriptorSets(slot.commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_layout_, 0, 1, &slot.descriptors,
                              0, nullptr);
  FrameConstants constants;
  constants.line_count = static_cast<int32_t>(page_.line_count());
  api.vkCmdPushConstants(slot.commands, pipeline_layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof constants, &constants);
  api.vkCmdDispatch(slot.commands, (kFrameWidth + kGroupWidth - 1) / kGroupWidth,
                    (kFrameHeight + kGroupHeight - 1) / kGroupHeight, 1);
  // Handed to readers outside Vulkan, through the host's mapping. The next frame keeps nothing of this one, so it needs
  // no acquire.
  VkBufferMemoryBarrier barrier{VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  barrier.srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.buffer = target;
  barrier.size = VK_WHOLE_SIZE;
  api.vkCmdPipelineBarrier(slot.commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 0,
                           nullptr, 1, &barrier, 0, nullptr);
  TENON_VULKAN_TRY(api, vkEndCommandBuffer, slot.commands);
  return {};
}

Status Renderer::submit(size_t slot, uint64_t frame, const VulkanTimeline& wait, uint64_t wait_value,
                        const VulkanTimeline& signal, uint64_t signal_value) {
  const std::vector<LineRecord> lines = page_.lines(frame);
  std::memcpy(slots_[slot].lines->mapped(), lines.data(), lines.size() * sizeof(LineRecord));

  const VkSemaphore waited = wait.semaphore();
  const VkSemaphore signalled = signal.semaphore();
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  values.waitSemaphoreValueCount = 1;
  values.pWaitSemaphoreValues = &wait_value;
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &signal_value;
  VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
  submit.waitSemaphoreCount = 1;
  submit.pWaitSemaphores = &waited;
  submit.pWaitDstStageMask = &stage;
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &slots_[slot].commands;
  submit.signalSemaphoreCount = 1;
  submit.pSignalSemaphores = &signalled;
  TENON_VULKAN_TRY(device_->api, vkQueueSubmit, device_->queue, 1, &submit, VK_NULL_HANDLE);
  return {};
}

Renderer::~Renderer() {
  const VulkanApi& api = device_->api;
  api.vkDeviceWaitIdle(device_->device);
  if (command_pool_ != VK_NULL_HANDLE) api.vkDestroyCommandPool(device_->device, command_pool_, nullptr);
  if (descriptor_pool_ != VK_NULL_HANDLE) api.vkDestroyDescriptorPool(device_->device, descriptor_pool_, nullptr);
  if (pipeline_ != VK_NULL_HANDLE) api.vkDestroyPipeline(device_->device, pipeline_, nullptr);
  if (pipeline_layout_ != VK_NULL_HANDLE) api.vkDestroyPipelineLayout(device_->device, pipeline_layout_, nullptr);
  if (set_layout_ != VK_NULL_HANDLE) api.vkDestroyDescriptorSetLayout(device_->device, set_layout_, nullptr);
}

}  // namespace tenon::demo
