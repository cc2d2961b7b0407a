#include "vulkan_program.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace tenon::test {

namespace {

constexpr auto kHandleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;

Status vk_status(const char* call, VkResult result) {
  if (result == VK_SUCCESS) return Status();
  const std::string text = std::string(call) + " answers " + std::to_string(result) + ".";
  if (result == VK_TIMEOUT) return Status(StatusCode::kTimeout, text);
  return Status(result == VK_ERROR_DEVICE_LOST ? StatusCode::kDeviceLost : StatusCode::kDeviceError, text);
}

void must(VkResult result) {
  if (result != VK_SUCCESS) std::abort();
}

}  // namespace

std::unique_ptr<VulkanProgram> VulkanProgram::create(std::string* why_not, Runs runs) {
  std::unique_ptr<VulkanProgram> program(new VulkanProgram);
  return program->open(why_not, runs) ? std::move(program) : nullptr;
}

bool VulkanProgram::open(std::string* why_not, Runs runs) {
  const bool on_cpu = runs == Runs::kOnCpu;
  const VkApplicationInfo application{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
  const VkInstanceCreateInfo instance{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                      .pApplicationInfo = &application};
  if (vkCreateInstance(&instance, nullptr, &instance_) != VK_SUCCESS) {
    *why_not = "no Vulkan instance can be made";
    return false;
  }
  uint32_t count = 16;
  VkPhysicalDevice devices[16];
  if (vkEnumeratePhysicalDevices(instance_, &count, devices) < 0) count = 0;
  for (uint32_t i = 0; i < count && physical_ == VK_NULL_HANDLE; ++i) {
    VkPhysicalDeviceProperties properties;
    vkGetPhysicalDeviceProperties(devices[i], &properties);
    if ((properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) != on_cpu) continue;
    physical_ = devices[i];
    device_name_ = properties.deviceName;
  }
  if (physical_ == VK_NULL_HANDLE) {
    *why_not = on_cpu ? "no Vulkan device runs on the CPU" : "Vulkan shows no GPU";
    return false;
  }
  VkPhysicalDeviceIDProperties id{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
  VkPhysicalDeviceProperties2 about{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};
  vkGetPhysicalDeviceProperties2(physical_, &about);
  std::copy(std::begin(id.deviceUUID), std::end(id.deviceUUID), uuid_.begin());
  const float priority = 1.0f;
  const VkDeviceQueueCreateInfo queue{
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
  const char* extensions[] = {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME, VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME};
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, .timelineSemaphore = VK_TRUE};
  const VkDeviceCreateInfo device{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                  .pNext = &timeline,
                                  .queueCreateInfoCount = 1,
                                  .pQueueCreateInfos = &queue,
                                  .enabledExtensionCount = on_cpu ? 1u : 2u,
                                  .ppEnabledExtensionNames = extensions};
  if (vkCreateDevice(physical_, &device, nullptr, &device_) != VK_SUCCESS) {
    *why_not = device_name_ + " exports no memory or has no timelines";
    return false;
  }
  vkGetDeviceQueue(device_, 0, 0, &queue_);
  get_memory_fd_ = reinterpret_cast<PFN_vkGetMemoryFdKHR>(vkGetDeviceProcAddr(device_, "vkGetMemoryFdKHR"));
  if (!on_cpu)
    get_semaphore_fd_ = reinterpret_cast<PFN_vkGetSemaphoreFdKHR>(vkGetDeviceProcAddr(device_, "vkGetSemaphoreFdKHR"));
  const VkCommandPoolCreateInfo pool{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  must(vkCreateCommandPool(device_, &pool, nullptr, &pool_));
  return true;
}

VulkanProgram::~VulkanProgram() {
  if (device_ != VK_NULL_HANDLE) {
    vkDeviceWaitIdle(device_);
    vkDestroyCommandPool(device_, pool_, nullptr);
    vkDestroyDevice(device_, nullptr);
  }
  if (instance_ != VK_NULL_HANDLE) vkDestroyInstance(instance_, nullptr);
}

VulkanBuffer VulkanProgram::make_buffer(size_t size_bytes, bool dedicated) {
  return allocate(size_bytes, dedicated, false);
}

VulkanBuffer VulkanProgram::make_staging_buffer(size_t size_bytes) { return allocate(size_bytes, false, true); }

VulkanBuffer VulkanProgram::allocate(size_t size_bytes, bool dedicated, bool staging) {
  VulkanBuffer made{.size_bytes = size_bytes};
  const VkExternalMemoryBufferCreateInfo external{.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                  .handleTypes = kHandleType};
  const VkBufferCreateInfo buffer{.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                  .pNext = staging ? nullptr : &external,
                                  .size = size_bytes,
                                  .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                           VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
  must(vkCreateBuffer(device_, &buffer, nullptr, &made.buffer));
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(device_, made.buffer, &needs);
  VkPhysicalDeviceMemoryProperties memories;
  vkGetPhysicalDeviceMemoryProperties(physical_, &memories);
  constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const auto find_type = [&](VkMemoryPropertyFlags wanted) {
    uint32_t type = 0;
    while (type < memories.memoryTypeCount &&
           ((needs.memoryTypeBits >> type & 1) == 0 || (memories.memoryTypes[type].propertyFlags & wanted) != wanted))
      ++type;
    return type;
  };
  // A GPU's own memory, which the host need not see.
  const bool gpu = get_semaphore_fd_ != nullptr && !staging;
  VkMemoryPropertyFlags wanted = kHost;
  if (staging) wanted |= VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  if (gpu) wanted = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  const uint32_t type = find_type(wanted);
  const VkMemoryDedicatedAllocateInfo alone{.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
                                            .buffer = made.buffer};
  const VkExportMemoryAllocateInfo exported{.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                            .pNext = dedicated ? &alone : nullptr,
                                            .handleTypes = kHandleType};
  const VkMemoryAllocateInfo allocation{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                        .pNext = staging ? nullptr : &exported,
                                        .allocationSize = needs.size,
                                        .memoryTypeIndex = type};
  must(vkAllocateMemory(device_, &allocation, nullptr, &made.memory));
  must(vkBindBufferMemory(device_, made.buffer, made.memory, 0));
  if (!gpu) must(vkMapMemory(device_, made.memory, 0, VK_WHOLE_SIZE, 0, &made.mapped));
  return made;
}

void VulkanProgram::destroy(const VulkanBuffer& buffer) {
  vkDestroyBuffer(device_, buffer.buffer, nullptr);
  vkFreeMemory(device_, buffer.memory, nullptr);
}

OwnedHandle VulkanProgram::export_fd(const VulkanBuffer& buffer) {
  const VkMemoryGetFdInfoKHR info{
      .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR, .memory = buffer.memory, .handleType = kHandleType};
  int fd = -1;
  must(get_memory_fd_(device_, &info, &fd));
  return OwnedHandle::take_fd(fd);
}

VkSemaphore VulkanProgram::make_timeline(uint64_t initial_value) {
  const VkExportSemaphoreCreateInfo exported{.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO,
                                             .handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
  const VkSemaphoreTypeCreateInfo type{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                       .pNext = get_semaphore_fd_ != nullptr ? &exported : nullptr,
                                       .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
                                       .initialValue = initial_value};
  const VkSemaphoreCreateInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  VkSemaphore semaphore;
  must(vkCreateSemaphore(device_, &info, nullptr, &semaphore));
  return semaphore;
}

void VulkanProgram::destroy(VkSemaphore semaphore) { vkDestroySemaphore(device_, semaphore, nullptr); }

OwnedHandle VulkanProgram::export_fd(VkSemaphore semaphore) {
  const VkSemaphoreGetFdInfoKHR info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR,
                                     .semaphore = semaphore,
                                     .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
  int fd = -1;
  must(get_semaphore_fd_(device_, &info, &fd));
  return OwnedHandle::take_fd(fd);
}

TimelineCallbacks VulkanProgram::callbacks(VkSemaphore semaphore) {
  VkDevice device = device_;
  return {.value = [=]() -> Result<uint64_t> {
            uint64_t value = 0;
            Status status =
                vk_status("vkGetSemaphoreCounterValue", vkGetSemaphoreCounterValue(device, semaphore, &value));
            if (!status.ok()) return status;
            return value;
          },
          .wait =
              [=](uint64_t value, int64_t timeout_ns) {
                const VkSemaphoreWaitInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                               .semaphoreCount = 1,
                                               .pSemaphores = &semaphore,
                                               .pValues = &value};
                return vk_status("vkWaitSemaphores",
                                 vkWaitSemaphores(device, &info, timeout_ns < 0 ? UINT64_MAX : uint64_t(timeout_ns)));
              },
          .signal =
              [=](uint64_t value) {
                const VkSemaphoreSignalInfo info{
                    .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = semaphore, .value = value};
                return vk_status("vkSignalSemaphore", vkSignalSemaphore(device, &info));
              }};
}

void VulkanProgram::submit_fill(const VulkanBuffer& buffer, uint32_t word, VkSemaphore semaphore, uint64_t wait,
                                uint64_t signal) {
  submit([&](VkCommandBuffer commands) { vkCmdFillBuffer(commands, buffer.buffer, 0, buffer.size_bytes, word); },
         semaphore, wait, signal);
}

void VulkanProgram::submit_copy(const VulkanBuffer& dst, const VulkanBuffer& src, VkSemaphore semaphore, uint64_t wait,
                                uint64_t signal) {
  const VkBufferCopy region{.size = std::min(dst.size_bytes, src.size_bytes)};
  submit([&](VkCommandBuffer commands) { vkCmdCopyBuffer(commands, src.buffer, dst.buffer, 1, &region); }, semaphore,
         wait, signal);
}

void VulkanProgram::copy(const VulkanBuffer& dst, const VulkanBuffer& src) {
  const VkSemaphore done = make_timeline(0);
  const VkBufferCopy region{.size = std::min(dst.size_bytes, src.size_bytes)};
  const VkCommandBuffer commands = submit(
      [&](VkCommandBuffer recorded) { vkCmdCopyBuffer(recorded, src.buffer, dst.buffer, 1, &region); }, done, 0, 1);
  const uint64_t value = 1;
  const VkSemaphoreWaitInfo info{
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1, .pSemaphores = &done, .pValues = &value};
  must(vkWaitSemaphores(device_, &info, UINT64_MAX));
  destroy(done);
  const std::lock_guard lock(mutex_);
  vkFreeCommandBuffers(device_, pool_, 1, &commands);
}

VkCommandBuffer VulkanProgram::submit(const std::function<void(VkCommandBuffer)>& record, VkSemaphore semaphore,
                                      uint64_t wait, uint64_t signal) {
  const std::lock_guard lock(mutex_);
  const VkCommandBufferAllocateInfo allocation{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                               .commandPool = pool_,
                                               .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                               .commandBufferCount = 1};
  VkCommandBuffer commands;
  must(vkAllocateCommandBuffers(device_, &allocation, &commands));
  const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                       .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  must(vkBeginCommandBuffer(commands, &begin));
  record(commands);
  must(vkEndCommandBuffer(commands));
  const VkTimelineSemaphoreSubmitInfo values{.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                             .waitSemaphoreValueCount = 1,
                                             .pWaitSemaphoreValues = &wait,
                                             .signalSemaphoreValueCount = 1,
                                             .pSignalSemaphoreValues = &signal};
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_TRANSFER_BIT;
  const VkSubmitInfo submit{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                            .pNext = &values,
                            .waitSemaphoreCount = 1,
                            .pWaitSemaphores = &semaphore,
                            .pWaitDstStageMask = &stage,
                            .commandBufferCount = 1,
                            .pCommandBuffers = &commands,
                            .signalSemaphoreCount = 1,
                            .pSignalSemaphores = &semaphore};
  must(vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE));
  return commands;
}

}  // namespace tenon::test
