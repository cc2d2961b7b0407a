#include "demo/vulkan_device.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tenon::demo {
namespace {

struct Candidate {
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  std::string name;
  uint32_t queue_family = 0;
  int rank = 0;
  std::vector<std::string> extensions;
  std::string lacks;  // empty: it can be used

  bool has(const char* extension) const {
    return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
  }
};

int rank_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    default:
      return 1;
  }
}

Result<Candidate> describe(const VulkanApi& api, VkPhysicalDevice physical) {
  Candidate candidate;
  candidate.physical = physical;
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  api.vkGetPhysicalDeviceProperties2(physical, &properties);
  candidate.name = properties.properties.deviceName;
  candidate.rank = rank_of(properties.properties.deviceType);

  uint32_t count = 0;
  TENON_VULKAN_TRY(api, vkEnumerateDeviceExtensionProperties, physical, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  TENON_VULKAN_TRY(api, vkEnumerateDeviceExtensionProperties, physical, nullptr, &count, extensions.data());
  for (const VkExtensionProperties& extension : extensions) candidate.extensions.emplace_back(extension.extensionName);

  if (properties.properties.apiVersion < VK_API_VERSION_1_2) {
    candidate.lacks = "Vulkan 1.2";
    return candidate;
  }
  if (!candidate.has(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME)) {
    candidate.lacks = VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
    return candidate;
  }
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &timeline};
  api.vkGetPhysicalDeviceFeatures2(physical, &features);
  if (timeline.timelineSemaphore == VK_FALSE) {
    candidate.lacks = "timeline semaphores";
    return candidate;
  }
  api.vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  api.vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
  const auto compute = std::find_if(families.begin(), families.end(), [](const VkQueueFamilyProperties& family) {
    return (family.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0;
  });
  if (compute == families.end())
    candidate.lacks = "a compute queue";
  else
    candidate.queue_family = static_cast<uint32_t>(compute - families.begin());
  return candidate;
}

}  // namespace

Result<std::shared_ptr<VulkanDevice>> VulkanDevice::create(const std::string& name_part) {
  auto made = std::make_shared<VulkanDevice>();
  TENON_TRY_ASSIGN(made->api, VulkanApi::load());
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "tenon demo";
  application.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  if (const VkResult result = made->api.vkCreateInstance(&info, nullptr, &made->instance); result != VK_SUCCESS)
    return unsupported("There is no usable Vulkan driver: vkCreateInstance fails with {}.", vulkan_result_text(result));
  // From here the destructor needs vkDestroyInstance.
  TENON_TRY(made->api.load_instance(made->instance));
  TENON_TRY(made->choose(name_part));
  TENON_TRY(made->open());
  return made;
}

Status VulkanDevice::choose(const std::string& name_part) {
  uint32_t count = 0;
  TENON_VULKAN_TRY(api, vkEnumeratePhysicalDevices, instance, &count, nullptr);
  std::vector<VkPhysicalDevice> devices(count);
  TENON_VULKAN_TRY(api, vkEnumeratePhysicalDevices, instance, &count, devices.data());
  if (count == 0)
    return unsupported("Vulkan shows no device; a driver (mesa-vulkan-drivers has one for the CPU) is missing.");

  Candidate best;
  std::string refusals;
  for (VkPhysicalDevice each : devices) {
    TENON_TRY_ASSIGN(Candidate candidate, describe(api, each));
    if (candidate.name.find(name_part) == std::string::npos) {
      refusals += format(" \"{}\" is not named so.", candidate.name);
    } else if (!candidate.lacks.empty()) {
      refusals += format(" \"{}\" lacks {}.", candidate.name, candidate.lacks);
    } else if (candidate.rank > best.rank) {
      best = std::move(candidate);
    }
  }
  if (best.physical == VK_NULL_HANDLE)
    return unsupported("No Vulkan device{} can run the demo:{}",
                       name_part.empty() ? "" : format(" named \"{}\"", name_part), refusals);
  physical = best.physical;
  name = best.name;
  queue_family = best.queue_family;
  can_import_host_pointers = best.has(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);

  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  VkPhysicalDeviceIDProperties ids{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
  if (can_import_host_pointers) ids.pNext = &host;
  properties.pNext = &ids;
  api.vkGetPhysicalDeviceProperties2(physical, &properties);
  std::copy(std::begin(ids.deviceUUID), std::end(ids.deviceUUID), uuid.begin());
  if (can_import_host_pointers) host_pointer_alignment = host.minImportedHostPointerAlignment;

  if (best.has(VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME)) {
    const VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, nullptr,
                                         VK_SEMAPHORE_TYPE_TIMELINE, 0};
    const VkPhysicalDeviceExternalSemaphoreInfo query{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO, &type,
                                                      VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkExternalSemaphoreProperties answer{VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES};
    api.vkGetPhysicalDeviceExternalSemaphoreProperties(physical, &query, &answer);
    constexpr VkFlags kBoth =
        VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_SEMAPHORE_FEATURE_IMPORTABLE_BIT;
    can_export_timelines = (answer.externalSemaphoreFeatures & kBoth) == kBoth;
  }
  return {};
}

Status VulkanDevice::open() {
  const float priority = 1.0F;
  VkDeviceQueueCreateInfo queue_info{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue_info.queueFamilyIndex = queue_family;
  queue_info.queueCount = 1;
  queue_info.pQueuePriorities = &priority;
  std::vector<const char*> extensions = {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME};
  if (can_import_host_pointers) extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  if (can_export_timelines) extensions.push_back(VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME);
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  timeline.timelineSemaphore = VK_TRUE;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &timeline};
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue_info;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  TENON_VULKAN_TRY(api, vkCreateDevice, physical, &info, nullptr, &device);
  TENON_TRY(api.load_device(device));
  api.vkGetDeviceQueue(device, queue_family, 0, &queue);
  return {};
}

VulkanDevice::~VulkanDevice() {
  if (device != VK_NULL_HANDLE && api.vkDestroyDevice != nullptr) {
    if (api.vkDeviceWaitIdle != nullptr) api.vkDeviceWaitIdle(device);
    api.vkDestroyDevice(device, nullptr);
  }
  if (instance != VK_NULL_HANDLE && api.vkDestroyInstance != nullptr) api.vkDestroyInstance(instance, nullptr);
}

}  // namespace tenon::demo
