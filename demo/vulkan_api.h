// Loads Vulkan's functions at run time, so that the program starts and gives a message on a machine without Vulkan.
#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <memory>
#include <string>

#include "demo/status.h"

namespace tenon::demo {

#define TENON_DEMO_VULKAN_GLOBAL(X) \
  X(vkCreateInstance)               \
  X(vkEnumerateInstanceVersion)

#define TENON_DEMO_VULKAN_INSTANCE(X)               \
  X(vkDestroyInstance)                              \
  X(vkEnumeratePhysicalDevices)                     \
  X(vkGetPhysicalDeviceProperties2)                 \
  X(vkGetPhysicalDeviceFeatures2)                   \
  X(vkGetPhysicalDeviceMemoryProperties)            \
  X(vkGetPhysicalDeviceQueueFamilyProperties)       \
  X(vkGetPhysicalDeviceExternalBufferProperties)    \
  X(vkGetPhysicalDeviceExternalSemaphoreProperties) \
  X(vkEnumerateDeviceExtensionProperties)           \
  X(vkGetDeviceProcAddr)                            \
  X(vkCreateDevice)

#define TENON_DEMO_VULKAN_DEVICE(X) \
  X(vkDestroyDevice)                \
  X(vkGetDeviceQueue)               \
  X(vkDeviceWaitIdle)               \
  X(vkCreateBuffer)                 \
  X(vkDestroyBuffer)                \
  X(vkGetBufferMemoryRequirements2) \
  X(vkAllocateMemory)               \
  X(vkFreeMemory)                   \
  X(vkBindBufferMemory)             \
  X(vkMapMemory)                    \
  X(vkCreateSemaphore)              \
  X(vkDestroySemaphore)             \
  X(vkGetSemaphoreCounterValue)     \
  X(vkWaitSemaphores)               \
  X(vkSignalSemaphore)              \
  X(vkCreateShaderModule)           \
  X(vkDestroyShaderModule)          \
  X(vkCreateDescriptorSetLayout)    \
  X(vkDestroyDescriptorSetLayout)   \
  X(vkCreatePipelineLayout)         \
  X(vkDestroyPipelineLayout)        \
  X(vkCreateComputePipelines)       \
  X(vkDestroyPipeline)              \
  X(vkCreateDescriptorPool)         \
  X(vkDestroyDescriptorPool)        \
  X(vkAllocateDescriptorSets)       \
  X(vkUpdateDescriptorSets)         \
  X(vkCreateCommandPool)            \
  X(vkDestroyCommandPool)           \
  X(vkAllocateCommandBuffers)       \
  X(vkBeginCommandBuffer)           \
  X(vkEndCommandBuffer)             \
  X(vkCmdBindPipeline)              \
  X(vkCmdBindDescriptorSets)        \
  X(vkCmdPushConstants)             \
  X(vkCmdDispatch)                  \
  X(vkCmdCopyBuffer)                \
  X(vkCmdPipelineBarrier)           \
  X(vkQueueSubmit)

// From extensions: null where the device lacks the extension.
#define TENON_DEMO_VULKAN_OPTIONAL(X) \
  X(vkGetMemoryFdKHR)                 \
  X(vkGetSemaphoreFdKHR)              \
  X(vkImportSemaphoreFdKHR)           \
  X(vkGetMemoryHostPointerPropertiesEXT)

struct VulkanApi {
#define TENON_DEMO_MEMBER(name) PFN_##name name = nullptr;
  TENON_DEMO_VULKAN_GLOBAL(TENON_DEMO_MEMBER)
  TENON_DEMO_VULKAN_INSTANCE(TENON_DEMO_MEMBER)
  TENON_DEMO_VULKAN_DEVICE(TENON_DEMO_MEMBER)
  TENON_DEMO_VULKAN_OPTIONAL(TENON_DEMO_MEMBER)
#undef TENON_DEMO_MEMBER
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
  std::shared_ptr<void> library;  // libvulkan stays loaded as long as one of its functions may be called

  // Errors: kUnsupported when there is no loader or it lacks a function.
  static Result<VulkanApi> load();
  Status load_instance(VkInstance instance);
  Status load_device(VkDevice device);
};

// "VK_ERROR_DEVICE_LOST (-4)".
std::string vulkan_result_text(VkResult result);
// The status for a failed call: kDeviceLost, kResourceExhausted or kDeviceError, with the call's name.
Status vulkan_status(VkResult result, const char* call);

}  // namespace tenon::demo

// Calls api.FUNCTION(ARGUMENTS...) and returns its failure, with the function's name, from the enclosing function.
#define TENON_VULKAN_TRY(api, function, ...)                                             \
  do {                                                                                   \
    if (const VkResult vulkan_result_ = (api).function(__VA_ARGS__); vulkan_result_ < 0) \
      return ::tenon::demo::vulkan_status(vulkan_result_, #function);                    \
  } while (false)
