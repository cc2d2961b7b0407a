#include "demo/vulkan_api.h"

#include <dlfcn.h>

namespace tenon::demo {

Result<VulkanApi> VulkanApi::load() {
  VulkanApi api;
  api.library = std::shared_ptr<void>(dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL), [](void* library) {
    if (library != nullptr) dlclose(library);
  });
  if (api.library == nullptr)
    return unsupported(
        "The Vulkan loader (libvulkan.so.1) is not installed, and the demo draws its frames with Vulkan.");
  api.vkGetInstanceProcAddr =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(api.library.get(), "vkGetInstanceProcAddr"));
  if (api.vkGetInstanceProcAddr == nullptr)
    return unsupported("libvulkan.so.1 has no function vkGetInstanceProcAddr, so it is not a Vulkan loader.");
#define TENON_DEMO_LOAD(name)                                                         \
  api.name = reinterpret_cast<PFN_##name>(api.vkGetInstanceProcAddr(nullptr, #name)); \
  if (api.name == nullptr) return unsupported("The Vulkan loader has no function {}; 1.2 is needed.", #name);
  TENON_DEMO_VULKAN_GLOBAL(TENON_DEMO_LOAD)
#undef TENON_DEMO_LOAD
  return api;
}

Status VulkanApi::load_instance(VkInstance instance) {
#define TENON_DEMO_LOAD(name)                                                  \
  name = reinterpret_cast<PFN_##name>(vkGetInstanceProcAddr(instance, #name)); \
  if (name == nullptr) return unsupported("The Vulkan instance has no function {}; 1.2 is needed.", #name);
  TENON_DEMO_VULKAN_INSTANCE(TENON_DEMO_LOAD)
#undef TENON_DEMO_LOAD
  return {};
}

Status VulkanApi::load_device(VkDevice device) {
#define TENON_DEMO_LOAD(name) name = reinterpret_cast<PFN_##name>(vkGetDeviceProcAddr(device, #name));
#define TENON_DEMO_LOAD_REQUIRED(name) \
  TENON_DEMO_LOAD(name)                \
  if (name == nullptr) return unsupported("The Vulkan device has no function {}; 1.2 is needed.", #name);
  TENON_DEMO_VULKAN_DEVICE(TENON_DEMO_LOAD_REQUIRED)
  TENON_DEMO_VULKAN_OPTIONAL(TENON_DEMO_LOAD)
#undef TENON_DEMO_LOAD_REQUIRED
#undef TENON_DEMO_LOAD
  return {};
}

std::string vulkan_result_text(VkResult result) {
  const auto with_name = [result](const char* name) { return format("{} ({})", name, static_cast<int>(result)); };
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return with_name("VK_ERROR_OUT_OF_HOST_MEMORY");
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return with_name("VK_ERROR_OUT_OF_DEVICE_MEMORY");
    case VK_ERROR_INITIALIZATION_FAILED:
      return with_name("VK_ERROR_INITIALIZATION_FAILED");
    case VK_ERROR_DEVICE_LOST:
      return with_name("VK_ERROR_DEVICE_LOST");
    case VK_ERROR_MEMORY_MAP_FAILED:
      return with_name("VK_ERROR_MEMORY_MAP_FAILED");
    case VK_ERROR_LAYER_NOT_PRESENT:
      return with_name("VK_ERROR_LAYER_NOT_PRESENT");
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return with_name("VK_ERROR_EXTENSION_NOT_PRESENT");
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return with_name("VK_ERROR_FEATURE_NOT_PRESENT");
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return with_name("VK_ERROR_INCOMPATIBLE_DRIVER");
    case VK_ERROR_TOO_MANY_OBJECTS:
      return with_name("VK_ERROR_TOO_MANY_OBJECTS");
    case VK_ERROR_INVALID_EXTERNAL_HANDLE:
      return with_name("VK_ERROR_INVALID_EXTERNAL_HANDLE");
    default:
      return with_name("VkResult");
  }
}

Status vulkan_status(VkResult result, const char* call) {
  const std::string text = vulkan_result_text(result);
  switch (result) {
    case VK_ERROR_DEVICE_LOST:
      return device_lost("{} fails with {}.", call, text);
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
      return resource_exhausted("{} fails with {}.", call, text);
    case VK_ERROR_INCOMPATIBLE_DRIVER:
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return unsupported("{} fails with {}.", call, text);
    default:
      return device_error("{} fails with {}.", call, text);
  }
}

}  // namespace tenon::demo
