#include "vulkan_exporter.h"

#include <fcntl.h>

#include <cstring>
#include <random>

#include "../interop/vulkan_program.h"

namespace tenon::conformance {

namespace {

using test::VulkanBuffer;
using test::VulkanProgram;

std::shared_ptr<VulkanProgram> program(bool gpu, std::string* why_not) {
  static std::string reason;
  // One device a process: drivers keep memory of theirs until it ends.
  static std::shared_ptr<VulkanProgram> made =
      VulkanProgram::create(&reason, gpu ? VulkanProgram::Runs::kOnGpu : VulkanProgram::Runs::kOnCpu);
  *why_not = reason;
  return made;
}

// Where the driver puts an allocation inside its fd: asked with a nonce, never assumed.
Result<size_t> opaque_offset(VulkanProgram& vulkan) {
  std::random_device random;
  uint32_t nonce[16];
  for (uint32_t& word : nonce) word = random();
  const VulkanBuffer probe = vulkan.make_buffer(sizeof(nonce));
  std::memcpy(probe.mapped, nonce, sizeof(nonce));
  const OwnedHandle fd = vulkan.export_fd(probe);
  Result<size_t> offset = find_opaque_fd_offset(fd.fd(), nonce, sizeof(nonce));
  vulkan.destroy(probe);
  return offset;
}

// How an allocation of the driver is handed over: as ONNX Runtime's plain kind, or described as dedicated and of the
// driver's device.
enum class Handed : uint8_t { kPlain, kDedicated };

class VulkanMemory final : public SharedMemory {
 public:
  VulkanMemory(std::shared_ptr<VulkanProgram> vulkan, size_t size_bytes, size_t offset, Handed handed)
      : vulkan_(std::move(vulkan)),
        buffer_(vulkan_->make_buffer(size_bytes, handed == Handed::kDedicated)),
        fd_(vulkan_->export_fd(buffer_)),
        offset_(offset),
        handed_(handed) {
    // A GPU's memory is written and read by its driver, through the host's.
    if (buffer_.mapped == nullptr) staging_ = vulkan_->make_staging_buffer(size_bytes);
    std::memset(view(), 0, size_bytes);
    publish();
  }
  ~VulkanMemory() override {
    vulkan_->destroy(buffer_);
    if (staging_.buffer != VK_NULL_HANDLE) vulkan_->destroy(staging_);
  }

  OrtExternalMemoryDescriptor descriptor(uint32_t version) override { return describe(version, fd_.fd(), &info_); }
  OrtExternalMemoryDescriptor broken_descriptor(uint32_t version) override {
    return describe(version, 1 << 20, &broken_);
  }
  std::byte* view() override {
    return static_cast<std::byte*>(buffer_.mapped != nullptr ? buffer_.mapped : staging_.mapped);
  }
  void publish() override {
    if (staging_.mapped != nullptr) vulkan_->copy(buffer_, staging_);
  }
  void refresh() override {
    if (staging_.mapped != nullptr) vulkan_->copy(staging_, buffer_);
  }
  size_t size_bytes() const override { return buffer_.size_bytes; }
  void take_on_success() override { (void)fd_.release_fd(); }
  std::string check_still_ours() override {
    return ::fcntl(fd_.fd(), F_GETFD) >= 0 ? "" : "A failed import closed the file descriptor.";
  }
  std::string check_given_back() override { return ""; }
  // The object also holds what the driver keeps around the buffer.
  bool size_is_known() const override { return false; }

 private:
  OrtExternalMemoryDescriptor describe(uint32_t version, int fd, TenonExternalMemoryInfo* info) const {
    OrtExternalMemoryDescriptor descriptor = {};
    descriptor.version = version;
    descriptor.handle_type = ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD;
    descriptor.native_handle = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
    descriptor.size_bytes = buffer_.size_bytes;
    descriptor.offset_bytes = offset_;
    if (handed_ == Handed::kPlain) return descriptor;
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

  const std::shared_ptr<VulkanProgram> vulkan_;
  const VulkanBuffer buffer_;
  VulkanBuffer staging_;
  OwnedHandle fd_;
  const size_t offset_;
  const Handed handed_;
  TenonExternalMemoryInfo info_{}, broken_{};
};

class VulkanMemoryExporter final : public MemoryExporter {
 public:
  VulkanMemoryExporter(std::shared_ptr<VulkanProgram> vulkan, size_t offset, Handed handed)
      : vulkan_(std::move(vulkan)), offset_(offset), handed_(handed) {}
  const char* name() const override {
    return handed_ == Handed::kPlain ? "vulkan_opaque_fd" : "vulkan_opaque_fd (dedicated, with its device)";
  }
  uint32_t kind() const override {
    if (handed_ == Handed::kPlain) return ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD;
    return TENON_EXTERNAL_MEMORY_DESCRIBED;
  }
  Result<std::unique_ptr<SharedMemory>> make(size_t size_bytes) override {
    return std::unique_ptr<SharedMemory>(std::make_unique<VulkanMemory>(vulkan_, size_bytes, offset_, handed_));
  }

 private:
  const std::shared_ptr<VulkanProgram> vulkan_;
  const size_t offset_;
  const Handed handed_;
};

// A timeline that a GPU's driver exports.
class VulkanFdSemaphore final : public SharedSemaphore {
 public:
  explicit VulkanFdSemaphore(std::shared_ptr<VulkanProgram> vulkan)
      : vulkan_(std::move(vulkan)), semaphore_(vulkan_->make_timeline(0)), fd_(vulkan_->export_fd(semaphore_)) {}
  ~VulkanFdSemaphore() override {
    other_ = nullptr;
    vulkan_->destroy(semaphore_);
  }
  Status open() {
    TENON_TRY_ASSIGN(other_, make_callback_timeline("vulkan", vulkan_->callbacks(semaphore_)));
    return Status();
  }

  OrtExternalSemaphoreDescriptor descriptor(uint32_t version) override {
    OrtExternalSemaphoreDescriptor descriptor = {};
    descriptor.version = version;
    descriptor.type = ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD;
    descriptor.native_handle = reinterpret_cast<void*>(static_cast<intptr_t>(fd_.fd()));
    return descriptor;
  }
  void take_on_success() override { (void)fd_.release_fd(); }
  std::string check_still_ours() override {
    return ::fcntl(fd_.fd(), F_GETFD) >= 0 ? "" : "A failed import closed the file descriptor.";
  }
  std::string check_given_back() override { return ""; }
  Timeline& other() override { return *other_; }

 private:
  const std::shared_ptr<VulkanProgram> vulkan_;
  const VkSemaphore semaphore_;
  OwnedHandle fd_;
  std::shared_ptr<Timeline> other_;
};

class VulkanFdSemaphoreExporter final : public SemaphoreExporter {
 public:
  explicit VulkanFdSemaphoreExporter(std::shared_ptr<VulkanProgram> vulkan) : vulkan_(std::move(vulkan)) {}
  const char* name() const override { return "vulkan_timeline_fd"; }
  uint32_t kind() const override { return ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD; }
  Result<std::unique_ptr<SharedSemaphore>> make() override {
    auto semaphore = std::make_unique<VulkanFdSemaphore>(vulkan_);
    TENON_TRY(semaphore->open());
    return std::unique_ptr<SharedSemaphore>(std::move(semaphore));
  }

 private:
  const std::shared_ptr<VulkanProgram> vulkan_;
};

// A timeline that the driver cannot export: the EP reaches it through callbacks.
class VulkanSemaphoreExporter final : public SemaphoreExporter {
 public:
  explicit VulkanSemaphoreExporter(std::shared_ptr<VulkanProgram> vulkan) : vulkan_(std::move(vulkan)) {}
  const char* name() const override { return "vulkan_timeline (callbacks)"; }
  uint32_t kind() const override { return TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS; }
  Result<std::unique_ptr<SharedSemaphore>> make() override {
    const VkSemaphore semaphore = vulkan_->make_timeline(0);
    TENON_TRY_ASSIGN(std::shared_ptr<Timeline> timeline,
                     make_callback_timeline("vulkan", vulkan_->callbacks(semaphore)));
    // The semaphore lives as long as its timeline.
    struct Owner {
      std::shared_ptr<VulkanProgram> vulkan;
      VkSemaphore semaphore;
      std::shared_ptr<Timeline> timeline;
      ~Owner() { vulkan->destroy(semaphore); }
    };
    auto owner = std::make_shared<Owner>(vulkan_, semaphore, timeline);
    return share_by_callbacks(std::shared_ptr<Timeline>(owner, timeline.get()));
  }

 private:
  const std::shared_ptr<VulkanProgram> vulkan_;
};

}  // namespace

std::vector<std::unique_ptr<MemoryExporter>> vulkan_memory_exporters(bool gpu, std::string* why_not) {
  std::vector<std::unique_ptr<MemoryExporter>> exporters;
  const auto vulkan = program(gpu, why_not);
  if (vulkan == nullptr) return exporters;
  if (gpu) {
    for (const Handed handed : {Handed::kPlain, Handed::kDedicated})
      exporters.push_back(std::make_unique<VulkanMemoryExporter>(vulkan, 0, handed));
    return exporters;
  }
  const Result<size_t> offset = opaque_offset(*vulkan);
  if (offset.ok()) {
    exporters.push_back(std::make_unique<VulkanMemoryExporter>(vulkan, *offset, Handed::kPlain));
  } else {
    *why_not = offset.status().message();
  }
  return exporters;
}

std::vector<std::unique_ptr<SemaphoreExporter>> vulkan_semaphore_exporters(bool gpu, std::string* why_not) {
  std::vector<std::unique_ptr<SemaphoreExporter>> exporters;
  const auto vulkan = program(gpu, why_not);
  if (vulkan == nullptr) return exporters;
  if (gpu) {
    exporters.push_back(std::make_unique<VulkanFdSemaphoreExporter>(vulkan));
  } else {
    exporters.push_back(std::make_unique<VulkanSemaphoreExporter>(vulkan));
  }
  return exporters;
}

}  // namespace tenon::conformance
