#include "conformance/vulkan_exporters.h"

#include <fcntl.h>

#include <cstring>
#include <utility>

namespace tenon::conformance {

namespace {

using programs::VulkanSharing;

std::string check_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0 ? "" : "A failed import closed the file descriptor.";
}

class VulkanMemory final : public SharedMemory {
 public:
  VulkanMemory(std::shared_ptr<VulkanSharing> vulkan, std::unique_ptr<VulkanSharing::Buffer> buffer, size_t size_bytes,
               bool dedicated)
      : vulkan_(std::move(vulkan)), buffer_(std::move(buffer)), size_bytes_(size_bytes), dedicated_(dedicated) {}

  OrtExternalMemoryDescriptor descriptor(uint32_t version) override { return describe(version, buffer_->fd(), &info_); }
  OrtExternalMemoryDescriptor broken_descriptor(uint32_t version) override {
    return describe(version, 1 << 20, &broken_);
  }
  std::byte* view() override { return buffer_->view(); }
  // A driver that fails at a copy leaves the other side's bytes as they were, which the check sees.
  void publish() override { (void)buffer_->publish(); }
  void refresh() override { (void)buffer_->refresh(); }
  size_t size_bytes() const override { return size_bytes_; }
  void take_on_success() override { buffer_->release_fd(); }
  std::string check_still_ours() override { return check_open(buffer_->fd()); }
  std::string check_given_back() override { return ""; }
  // The object also holds what the driver keeps around the buffer.
  bool size_is_known() const override { return false; }

 private:
  OrtExternalMemoryDescriptor describe(uint32_t version, int fd, TenonExternalMemoryInfo* info) const {
    OrtExternalMemoryDescriptor descriptor = {};
    descriptor.version = version;
    descriptor.handle_type = ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD;
    descriptor.native_handle = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
    descriptor.size_bytes = size_bytes_;
    if (!dedicated_) return descriptor;
    *info = {};
    info->version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
    info->kind = ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD;
    info->dedicated = 1;
    std::memcpy(info->device_uuid, vulkan_->device_uuid().data(), sizeof(info->device_uuid));
    info->handle.fd = fd;
    descriptor.handle_type = static_cast<OrtExternalMemoryHandleType>(TENON_EXTERNAL_MEMORY_DESCRIBED);
    descriptor.native_handle = info;
    return descriptor;
  }

  const std::shared_ptr<VulkanSharing> vulkan_;
  const std::unique_ptr<VulkanSharing::Buffer> buffer_;
  const size_t size_bytes_;
  const bool dedicated_;
  TenonExternalMemoryInfo info_{}, broken_{};
};

class VulkanMemoryExporter final : public MemoryExporter {
 public:
  VulkanMemoryExporter(std::shared_ptr<VulkanSharing> vulkan, bool dedicated)
      : vulkan_(std::move(vulkan)), dedicated_(dedicated) {}
  const char* name() const override {
    return dedicated_ ? "vulkan_opaque_fd (dedicated, with its device)" : "vulkan_opaque_fd";
  }
  uint32_t kind() const override {
    return dedicated_ ? uint32_t{TENON_EXTERNAL_MEMORY_DESCRIBED}
                      : uint32_t{ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD};
  }
  Result<std::unique_ptr<SharedMemory>> make(size_t size_bytes) override {
    TENON_TRY_ASSIGN(auto buffer, vulkan_->make_buffer(size_bytes, dedicated_));
    return std::unique_ptr<SharedMemory>(
        std::make_unique<VulkanMemory>(vulkan_, std::move(buffer), size_bytes, dedicated_));
  }

 private:
  const std::shared_ptr<VulkanSharing> vulkan_;
  const bool dedicated_;
};

class VulkanSemaphore final : public SharedSemaphore {
 public:
  explicit VulkanSemaphore(std::unique_ptr<VulkanSharing::Semaphore> semaphore) : semaphore_(std::move(semaphore)) {}
  OrtExternalSemaphoreDescriptor descriptor(uint32_t version) override {
    OrtExternalSemaphoreDescriptor descriptor = {};
    descriptor.version = version;
    descriptor.type = ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD;
    descriptor.native_handle = reinterpret_cast<void*>(static_cast<intptr_t>(semaphore_->fd()));
    return descriptor;
  }
  void take_on_success() override { semaphore_->release_fd(); }
  std::string check_still_ours() override { return check_open(semaphore_->fd()); }
  std::string check_given_back() override { return ""; }
  Timeline& other() override { return semaphore_->timeline(); }

 private:
  const std::unique_ptr<VulkanSharing::Semaphore> semaphore_;
};

class VulkanSemaphoreExporter final : public SemaphoreExporter {
 public:
  explicit VulkanSemaphoreExporter(std::shared_ptr<VulkanSharing> vulkan) : vulkan_(std::move(vulkan)) {}
  const char* name() const override { return "vulkan_timeline_fd"; }
  uint32_t kind() const override { return ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD; }
  Result<std::unique_ptr<SharedSemaphore>> make() override {
    TENON_TRY_ASSIGN(auto semaphore, vulkan_->make_semaphore());
    return std::unique_ptr<SharedSemaphore>(std::make_unique<VulkanSemaphore>(std::move(semaphore)));
  }

 private:
  const std::shared_ptr<VulkanSharing> vulkan_;
};

}  // namespace

std::vector<std::unique_ptr<MemoryExporter>> vulkan_memory(std::shared_ptr<VulkanSharing> vulkan) {
  std::vector<std::unique_ptr<MemoryExporter>> exporters;
  for (const bool dedicated : {false, true})
    exporters.push_back(std::make_unique<VulkanMemoryExporter>(vulkan, dedicated));
  return exporters;
}

std::vector<std::unique_ptr<SemaphoreExporter>> vulkan_semaphores(std::shared_ptr<VulkanSharing> vulkan) {
  std::vector<std::unique_ptr<SemaphoreExporter>> exporters;
  exporters.push_back(std::make_unique<VulkanSemaphoreExporter>(std::move(vulkan)));
  return exporters;
}

}  // namespace tenon::conformance
