// Allocates, exports and imports the memory of buffers.
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "demo/vulkan_device.h"

namespace tenon::demo {
namespace {

constexpr VkMemoryPropertyFlags kMappable = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

Result<uint32_t> find_device_memory_type(const VulkanDevice& device, uint32_t allowed) {
  VkPhysicalDeviceMemoryProperties properties{};
  device.api.vkGetPhysicalDeviceMemoryProperties(device.physical, &properties);
  for (uint32_t i = 0; i < properties.memoryTypeCount; ++i) {
    if ((allowed & (1U << i)) != 0 &&
        (properties.memoryTypes[i].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0)
      return i;
  }
  return unsupported("Vulkan device \"{}\" has no memory of its own among what the buffer allows ({:#x}).", device.name,
                     allowed);
}

// A memory type out of `allowed` that the host maps without flushes; one that the host caches if there is one, because
// the model reads every byte.
Result<uint32_t> find_memory_type(const VulkanDevice& device, uint32_t allowed) {
  VkPhysicalDeviceMemoryProperties properties{};
  device.api.vkGetPhysicalDeviceMemoryProperties(device.physical, &properties);
  for (const VkMemoryPropertyFlags wanted : {kMappable | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, kMappable}) {
    for (uint32_t i = 0; i < properties.memoryTypeCount; ++i)
      if ((allowed & (1U << i)) != 0 && (properties.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
  }
  return unsupported(
      "Vulkan device \"{}\" has no memory type that the host can map among those the buffer allows ({:#x}).",
      device.name, allowed);
}

Status create_buffer(const VulkanDevice& device, size_t size_bytes, VkExternalMemoryHandleTypeFlags handle_types,
                     VkBuffer* buffer) {
  const VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, nullptr,
                                                  handle_types};
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  if (handle_types != 0) info.pNext = &external;
  info.size = size_bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  TENON_VULKAN_TRY(device.api, vkCreateBuffer, device.device, &info, nullptr, buffer);
  return {};
}

// Asks whether a storage buffer may use memory of this handle kind in the way `feature` says.
bool offers(const VulkanDevice& device, VkExternalMemoryHandleTypeFlagBits kind, VkExternalMemoryFeatureFlags feature) {
  VkPhysicalDeviceExternalBufferInfo query{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO};
  query.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  query.handleType = kind;
  VkExternalBufferProperties answer{VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
  device.api.vkGetPhysicalDeviceExternalBufferProperties(device.physical, &query, &answer);
  return (answer.externalMemoryProperties.externalMemoryFeatures & feature) == feature;
}

}  // namespace

Result<std::unique_ptr<SharedBuffer>> SharedBuffer::create(std::shared_ptr<VulkanDevice> device, size_t size_bytes,
                                                           const std::string& name) {
  auto made = std::unique_ptr<SharedBuffer>(new SharedBuffer(std::move(device)));
  made->size_bytes_ = size_bytes;
  const Status exported = made->create_exported(name);
  if (exported.ok()) return made;
  made->destroy();
  const Status taken_over = made->create_from_host_pointer(name);
  if (taken_over.ok()) return made;
  return unsupported("Vulkan device \"{}\" offers no memory that another process maps for buffer \"{}\": {} {}",
                     made->device_->name, name, exported.message(), taken_over.message());
}

Status SharedBuffer::create_exported(const std::string& name) {
  const VulkanDevice& device = *device_;
  constexpr auto kKind = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  if (!offers(device, kKind, VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT))
    return unsupported("The driver exports no opaque fd for storage buffers.");
  TENON_TRY(create_buffer(device, size_bytes_, kKind, &buffer_));
  VkMemoryDedicatedRequirements dedicated{VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS};
  VkMemoryRequirements2 requirements{VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2, &dedicated};
  const VkBufferMemoryRequirementsInfo2 query{VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2, nullptr, buffer_};
  device.api.vkGetBufferMemoryRequirements2(device.device, &query, &requirements);

  const VkMemoryDedicatedAllocateInfo alone{VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO, nullptr, VK_NULL_HANDLE,
                                            buffer_};
  VkExportMemoryAllocateInfo exported{VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO, nullptr, kKind};
  if (dedicated.requiresDedicatedAllocation == VK_TRUE || dedicated.prefersDedicatedAllocation == VK_TRUE)
    exported.pNext = &alone;
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &exported};
  info.allocationSize = requirements.memoryRequirements.size;
  TENON_TRY_ASSIGN(info.memoryTypeIndex, find_memory_type(device, requirements.memoryRequirements.memoryTypeBits));
  TENON_VULKAN_TRY(device.api, vkAllocateMemory, device.device, &info, nullptr, &memory_);
  TENON_VULKAN_TRY(device.api, vkBindBufferMemory, device.device, buffer_, memory_, 0);
  TENON_VULKAN_TRY(device.api, vkMapMemory, device.device, memory_, 0, VK_WHOLE_SIZE, 0, &mapped_);

  const VkMemoryGetFdInfoKHR get{VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR, nullptr, memory_, kKind};
  int fd = -1;
  TENON_VULKAN_TRY(device.api, vkGetMemoryFdKHR, device.device, &get, &fd);
  fd_ = OwnedHandle::take_fd(fd);

  // The driver does not say where in the fd's object the buffer lies: write something that nobody else has there.
  uint64_t nonce[8];
  if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce) return device_error("{}", errno_text("getrandom", errno));
  if (size_bytes_ < sizeof nonce)
    return invalid_argument("Buffer \"{}\" ({} bytes) is too small to be found in its fd.", name, size_bytes_);
  std::memcpy(mapped_, nonce, sizeof nonce);
  TENON_TRY_ASSIGN(offset_bytes_, find_opaque_fd_offset(fd, nonce, sizeof nonce));
  std::memset(mapped_, 0, size_bytes_);
  kind_ = SharedBufferKind::kOpaqueFd;
  return {};
}

Status SharedBuffer::create_from_host_pointer(const std::string& name) {
  const VulkanDevice& device = *device_;
  constexpr auto kKind = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  if (!device.can_import_host_pointers || device.api.vkGetMemoryHostPointerPropertiesEXT == nullptr)
    return unsupported("The driver cannot take over host memory either ({}).",
                       VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  const size_t alignment = std::max<size_t>(device.host_pointer_alignment, 4096);
  if (size_bytes_ > SIZE_MAX - alignment)
    return invalid_argument("Buffer \"{}\" is too large ({} bytes).", name, size_bytes_);
  mapped_bytes_ = (size_bytes_ + alignment - 1) / alignment * alignment;

  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (fd < 0) return resource_exhausted("{}", errno_text("memfd_create", errno));
  fd_ = OwnedHandle::take_fd(fd);
  if (ftruncate(fd, static_cast<off_t>(mapped_bytes_)) != 0)
    return resource_exhausted("{}", errno_text("ftruncate", errno));
  void* mapping = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapping == MAP_FAILED) return resource_exhausted("{}", errno_text("mmap", errno));
  host_mapping_ = mapping;

  VkMemoryHostPointerPropertiesEXT pointer{VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  TENON_VULKAN_TRY(device.api, vkGetMemoryHostPointerPropertiesEXT, device.device, kKind, mapping, &pointer);
  TENON_TRY(create_buffer(device, size_bytes_, kKind, &buffer_));
  VkMemoryRequirements2 requirements{VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2};
  const VkBufferMemoryRequirementsInfo2 query{VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2, nullptr, buffer_};
  device.api.vkGetBufferMemoryRequirements2(device.device, &query, &requirements);
  const VkImportMemoryHostPointerInfoEXT import{VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT, nullptr, kKind,
                                                mapping};
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &import};
  info.allocationSize = mapped_bytes_;
  TENON_TRY_ASSIGN(info.memoryTypeIndex,
                   find_memory_type(device, requirements.memoryRequirements.memoryTypeBits & pointer.memoryTypeBits));
  TENON_VULKAN_TRY(device.api, vkAllocateMemory, device.device, &info, nullptr, &memory_);
  TENON_VULKAN_TRY(device.api, vkBindBufferMemory, device.device, buffer_, memory_, 0);
  mapped_ = mapping;
  offset_bytes_ = 0;
  kind_ = SharedBufferKind::kMappableFd;
  return {};
}

Result<std::unique_ptr<SharedBuffer>> SharedBuffer::create_on_device(std::shared_ptr<VulkanDevice> device,
                                                                     size_t size_bytes, bool dedicated) {
  auto made = std::unique_ptr<SharedBuffer>(new SharedBuffer(std::move(device)));
  made->size_bytes_ = size_bytes;
  TENON_TRY(made->create_device_local(dedicated));
  return made;
}

Status SharedBuffer::create_device_local(bool dedicated) {
  const VulkanDevice& device = *device_;
  constexpr auto kKind = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  if (!offers(device, kKind, VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT))
    return unsupported("Vulkan device \"{}\" exports no opaque fd for storage buffers.", device.name);
  TENON_TRY(create_buffer(device, size_bytes_, kKind, &buffer_));
  VkMemoryRequirements2 requirements{VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2};
  const VkBufferMemoryRequirementsInfo2 query{VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2, nullptr, buffer_};
  device.api.vkGetBufferMemoryRequirements2(device.device, &query, &requirements);
  const VkMemoryDedicatedAllocateInfo alone{VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO, nullptr, VK_NULL_HANDLE,
                                            buffer_};
  const VkExportMemoryAllocateInfo exported{VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO, dedicated ? &alone : nullptr,
                                            kKind};
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &exported};
  info.allocationSize = requirements.memoryRequirements.size;
  TENON_TRY_ASSIGN(info.memoryTypeIndex,
                   find_device_memory_type(device, requirements.memoryRequirements.memoryTypeBits));
  TENON_VULKAN_TRY(device.api, vkAllocateMemory, device.device, &info, nullptr, &memory_);
  TENON_VULKAN_TRY(device.api, vkBindBufferMemory, device.device, buffer_, memory_, 0);
  const VkMemoryGetFdInfoKHR get{VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR, nullptr, memory_, kKind};
  int fd = -1;
  TENON_VULKAN_TRY(device.api, vkGetMemoryFdKHR, device.device, &get, &fd);
  fd_ = OwnedHandle::take_fd(fd);
  allocation_bytes_ = info.allocationSize;
  kind_ = SharedBufferKind::kDeviceFd;
  return {};
}

void SharedBuffer::destroy() {
  const VulkanApi& api = device_->api;
  if (buffer_ != VK_NULL_HANDLE) api.vkDestroyBuffer(device_->device, buffer_, nullptr);
  if (memory_ != VK_NULL_HANDLE) api.vkFreeMemory(device_->device, memory_, nullptr);
  if (host_mapping_ != nullptr) munmap(host_mapping_, mapped_bytes_);
  buffer_ = VK_NULL_HANDLE;
  memory_ = VK_NULL_HANDLE;
  host_mapping_ = nullptr;
  mapped_ = nullptr;
  fd_.reset();
}

SharedBuffer::~SharedBuffer() { destroy(); }

Result<std::unique_ptr<LocalBuffer>> LocalBuffer::create(std::shared_ptr<VulkanDevice> owner, size_t size_bytes) {
  auto made = std::unique_ptr<LocalBuffer>(new LocalBuffer(std::move(owner)));
  const VulkanDevice& device = *made->device_;
  TENON_TRY(create_buffer(device, size_bytes, 0, &made->buffer_));
  VkMemoryRequirements2 requirements{VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2};
  const VkBufferMemoryRequirementsInfo2 query{VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2, nullptr,
                                              made->buffer_};
  device.api.vkGetBufferMemoryRequirements2(device.device, &query, &requirements);
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.allocationSize = requirements.memoryRequirements.size;
  TENON_TRY_ASSIGN(info.memoryTypeIndex, find_memory_type(device, requirements.memoryRequirements.memoryTypeBits));
  TENON_VULKAN_TRY(device.api, vkAllocateMemory, device.device, &info, nullptr, &made->memory_);
  TENON_VULKAN_TRY(device.api, vkBindBufferMemory, device.device, made->buffer_, made->memory_, 0);
  TENON_VULKAN_TRY(device.api, vkMapMemory, device.device, made->memory_, 0, VK_WHOLE_SIZE, 0, &made->mapped_);
  return made;
}

LocalBuffer::~LocalBuffer() {
  if (buffer_ != VK_NULL_HANDLE) device_->api.vkDestroyBuffer(device_->device, buffer_, nullptr);
  if (memory_ != VK_NULL_HANDLE) device_->api.vkFreeMemory(device_->device, memory_, nullptr);
}

}  // namespace tenon::demo
