#include "conformance/exporter.h"

#include <dlpack/dlpack.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <tenon/external_memory.h>
#include <unistd.h>

#include <atomic>

namespace tenon::conformance {

namespace {

TenonExternalMemoryInfo info_of(uint32_t kind) {
  TenonExternalMemoryInfo info = {};
  info.version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
  info.kind = kind;
  return info;
}

OrtExternalMemoryDescriptor describe(uint32_t version, uint32_t kind, void* handle, size_t size_bytes) {
  OrtExternalMemoryDescriptor descriptor = {};
  descriptor.version = version;
  descriptor.handle_type = std::bit_cast<OrtExternalMemoryHandleType>(kind);
  descriptor.native_handle = handle;
  descriptor.size_bytes = size_bytes;
  return descriptor;
}

void* as_handle(int fd) { return reinterpret_cast<void*>(static_cast<intptr_t>(fd)); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// Pages of a memfd. `kind` may be one that carries the fd in native_handle itself.
class MemfdMemory final : public SharedMemory {
 public:
  MemfdMemory(uint32_t kind, OwnedHandle handle, void* view, size_t size_bytes)
      : kind_(kind), handle_(std::move(handle)), view_(view), size_bytes_(size_bytes), info_(info_of(kind)) {
    info_.handle.fd = handle_.fd();
    broken_ = info_;
    // A number that was an fd: closed at once, and nobody opens one between.
    broken_.handle.fd = 1 << 20;
  }
  ~MemfdMemory() override { ::munmap(view_, size_bytes_); }

  OrtExternalMemoryDescriptor descriptor(uint32_t version) override {
    return describe(version, kind_, plain() ? as_handle(handle_.fd()) : &info_, size_bytes_);
  }
  OrtExternalMemoryDescriptor broken_descriptor(uint32_t version) override {
    return describe(version, kind_, plain() ? as_handle(broken_.handle.fd) : &broken_, size_bytes_);
  }
  std::byte* view() override { return static_cast<std::byte*>(view_); }
  size_t size_bytes() const override { return size_bytes_; }
  void take_on_success() override { (void)handle_.release_fd(); }
  std::string check_still_ours() override {
    return is_open(handle_.fd()) ? "" : format("File descriptor {} was closed by a failed import.", handle_.fd());
  }
  std::string check_given_back() override { return ""; }
  bool size_is_known() const override { return true; }

 private:
  bool plain() const { return kind_ < TENON_EXTERNAL_HANDLE_FIRST; }
  const uint32_t kind_;
  OwnedHandle handle_;
  void* const view_;
  const size_t size_bytes_;
  TenonExternalMemoryInfo info_;
  TenonExternalMemoryInfo broken_;
};

class MemfdExporter final : public MemoryExporter {
 public:
  MemfdExporter(const char* name, uint32_t kind) : name_(name), kind_(kind) {}
  const char* name() const override { return name_; }
  uint32_t kind() const override { return kind_; }
  Result<std::unique_ptr<SharedMemory>> make(size_t size_bytes) override {
    OwnedHandle handle = OwnedHandle::take_fd(::memfd_create("conformance", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!handle.valid() || ::ftruncate(handle.fd(), static_cast<off_t>(size_bytes)) != 0 ||
        ::fcntl(handle.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
      return resource_exhausted("A memfd of {} bytes cannot be made: {}.", size_bytes,
                                errno_text("memfd_create", errno));
    void* view = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle.fd(), 0);
    if (view == MAP_FAILED) return resource_exhausted("A memfd cannot be mapped: {}.", errno_text("mmap", errno));
    return std::unique_ptr<SharedMemory>(std::make_unique<MemfdMemory>(kind_, std::move(handle), view, size_bytes));
  }

 private:
  const char* const name_;
  const uint32_t kind_;
};

class HostMemory final : public SharedMemory {
 public:
  HostMemory(void* memory, size_t size_bytes)
      : memory_(memory),
        size_bytes_(size_bytes),
        info_(info_of(TENON_EXTERNAL_MEMORY_HOST_ALLOCATION)),
        broken_(info_) {
    info_.handle.pointer = memory;
  }
  ~HostMemory() override { std::free(memory_); }

  OrtExternalMemoryDescriptor descriptor(uint32_t version) override {
    return describe(version, TENON_EXTERNAL_MEMORY_HOST_ALLOCATION, &info_, size_bytes_);
  }
  OrtExternalMemoryDescriptor broken_descriptor(uint32_t version) override {
    return describe(version, TENON_EXTERNAL_MEMORY_HOST_ALLOCATION, &broken_, size_bytes_);
  }
  std::byte* view() override { return static_cast<std::byte*>(memory_); }
  size_t size_bytes() const override { return size_bytes_; }
  void take_on_success() override {}
  std::string check_still_ours() override { return ""; }
  std::string check_given_back() override { return ""; }
  bool size_is_known() const override { return false; }

 private:
  void* const memory_;
  const size_t size_bytes_;
  TenonExternalMemoryInfo info_;
  TenonExternalMemoryInfo broken_;
};

class HostExporter final : public MemoryExporter {
 public:
  const char* name() const override { return "host_allocation"; }
  uint32_t kind() const override { return TENON_EXTERNAL_MEMORY_HOST_ALLOCATION; }
  Result<std::unique_ptr<SharedMemory>> make(size_t size_bytes) override {
    // Whole pages: drivers that map host memory want them.
    void* memory = nullptr;
    if (::posix_memalign(&memory, 4096, size_bytes) != 0)
      return resource_exhausted("{} bytes cannot be allocated.", size_bytes);
    std::memset(memory, 0, size_bytes);
    return std::unique_ptr<SharedMemory>(std::make_unique<HostMemory>(memory, size_bytes));
  }
};

class DlpackMemory final : public SharedMemory {
 public:
  explicit DlpackMemory(size_t size_bytes)
      : bytes_(size_bytes + 64), info_(info_of(TENON_EXTERNAL_MEMORY_DLPACK)), broken_(info_) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    data_ = bytes_.data() + (64 - address % 64) % 64;
    count_ = static_cast<int64_t>(size_bytes);
    managed_.dl_tensor = {.data = data_,
                          .device = {.device_type = kDLCPU, .device_id = 0},
                          .ndim = 1,
                          .dtype = {.code = kDLUInt, .bits = 8, .lanes = 1},
                          .shape = &count_,
                          .strides = nullptr,
                          .byte_offset = 0};
    managed_.manager_ctx = this;
    managed_.deleter = [](DLManagedTensor* self) { ++static_cast<DlpackMemory*>(self->manager_ctx)->deleted_; };
    info_.handle.dlpack = &managed_;
  }

  OrtExternalMemoryDescriptor descriptor(uint32_t version) override {
    return describe(version, TENON_EXTERNAL_MEMORY_DLPACK, &info_, size_bytes());
  }
  OrtExternalMemoryDescriptor broken_descriptor(uint32_t version) override {
    return describe(version, TENON_EXTERNAL_MEMORY_DLPACK, &broken_, size_bytes());
  }
  std::byte* view() override { return data_; }
  size_t size_bytes() const override { return static_cast<size_t>(count_); }
  void take_on_success() override { expected_ = 1; }
  std::string check_still_ours() override {
    return deleted_ == 0 ? "" : "The DLPack tensor's deleter was called by a failed import.";
  }
  std::string check_given_back() override {
    return deleted_ == expected_ ? "" : format("The DLPack tensor's deleter was called {} times.", deleted_.load());
  }
  bool size_is_known() const override { return true; }

 private:
  std::vector<std::byte> bytes_;
  std::byte* data_ = nullptr;
  int64_t count_ = 0;
  DLManagedTensor managed_{};
  std::atomic<int> deleted_{0};
  int expected_ = 0;
  TenonExternalMemoryInfo info_;
  TenonExternalMemoryInfo broken_;
};

class DlpackExporter final : public MemoryExporter {
 public:
  const char* name() const override { return "dlpack"; }
  uint32_t kind() const override { return TENON_EXTERNAL_MEMORY_DLPACK; }
  Result<std::unique_ptr<SharedMemory>> make(size_t size_bytes) override {
    return std::unique_ptr<SharedMemory>(std::make_unique<DlpackMemory>(size_bytes));
  }
};

class SharedTimelineSemaphore final : public SharedSemaphore {
 public:
  SharedTimelineSemaphore(uint32_t kind, std::shared_ptr<SharedTimeline> timeline, OwnedHandle handle)
      : kind_(kind), timeline_(std::move(timeline)), handle_(std::move(handle)) {}

  OrtExternalSemaphoreDescriptor descriptor(uint32_t version) override {
    OrtExternalSemaphoreDescriptor descriptor = {};
    descriptor.version = version;
    descriptor.type = std::bit_cast<OrtExternalSemaphoreType>(kind_);
    descriptor.native_handle = as_handle(handle_.fd());
    return descriptor;
  }
  void take_on_success() override { (void)handle_.release_fd(); }
  std::string check_still_ours() override {
    return is_open(handle_.fd()) ? "" : format("File descriptor {} was closed by a failed import.", handle_.fd());
  }
  std::string check_given_back() override { return ""; }
  Timeline& other() override { return *timeline_; }

 private:
  const uint32_t kind_;
  const std::shared_ptr<SharedTimeline> timeline_;
  OwnedHandle handle_;
};

class SharedTimelineExporter final : public SemaphoreExporter {
 public:
  SharedTimelineExporter(const char* name, uint32_t kind) : name_(name), kind_(kind) {}
  const char* name() const override { return name_; }
  uint32_t kind() const override { return kind_; }
  Result<std::unique_ptr<SharedSemaphore>> make() override {
    TENON_TRY_ASSIGN(auto timeline, SharedTimeline::create("conformance"));
    OwnedHandle handle = OwnedHandle::take_fd(::fcntl(timeline->fd(), F_DUPFD_CLOEXEC, 3));
    if (!handle.valid()) return resource_exhausted("A file descriptor cannot be duplicated.");
    return std::unique_ptr<SharedSemaphore>(
        std::make_unique<SharedTimelineSemaphore>(kind_, std::move(timeline), std::move(handle)));
  }

 private:
  const char* const name_;
  const uint32_t kind_;
};

class CallbackSemaphore final : public SharedSemaphore {
 public:
  explicit CallbackSemaphore(std::shared_ptr<Timeline> timeline) : timeline_(std::move(timeline)) {
    callbacks_.version = TENON_TIMELINE_CALLBACKS_VERSION;
    callbacks_.user_data = this;
    callbacks_.value = [](void* self, uint64_t* out) -> int32_t {
      const Result<uint64_t> value = of(self).value();
      if (value.ok()) *out = *value;
      return answer(value.status());
    };
    callbacks_.wait = [](void* self, uint64_t value, int64_t timeout_ns) -> int32_t {
      return answer(of(self).wait(value, timeout_ns));
    };
    callbacks_.signal = [](void* self, uint64_t value) -> int32_t { return answer(of(self).signal(value)); };
    callbacks_.release = [](void* self) { ++static_cast<CallbackSemaphore*>(self)->released_; };
  }

  OrtExternalSemaphoreDescriptor descriptor(uint32_t version) override {
    OrtExternalSemaphoreDescriptor descriptor = {};
    descriptor.version = version;
    descriptor.type = std::bit_cast<OrtExternalSemaphoreType>(TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS);
    descriptor.native_handle = &callbacks_;
    return descriptor;
  }
  void take_on_success() override { expected_ = 1; }
  std::string check_still_ours() override { return released_ == 0 ? "" : "A failed import called release."; }
  std::string check_given_back() override {
    return released_ == expected_ ? "" : format("The timeline's release was called {} times.", released_.load());
  }
  Timeline& other() override { return *timeline_; }

 private:
  static Timeline& of(void* self) { return *static_cast<CallbackSemaphore*>(self)->timeline_; }
  static int32_t answer(const Status& status) {
    return status.ok()                                ? TENON_TIMELINE_OK
           : status.code() == StatusCode::kTimeout    ? TENON_TIMELINE_TIMEOUT
           : status.code() == StatusCode::kDeviceLost ? TENON_TIMELINE_LOST
                                                      : -1;
  }
  const std::shared_ptr<Timeline> timeline_;
  TenonTimelineCallbacks callbacks_ = {};
  std::atomic<int> released_{0};
  int expected_ = 0;
};

class CallbackExporter final : public SemaphoreExporter {
 public:
  const char* name() const override { return "host_callbacks"; }
  uint32_t kind() const override { return TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS; }
  Result<std::unique_ptr<SharedSemaphore>> make() override {
    TENON_TRY_ASSIGN(auto timeline, make_host_timeline("conformance"));
    return share_by_callbacks(std::move(timeline));
  }
};

}  // namespace

std::vector<std::unique_ptr<MemoryExporter>> host_memory_exporters() {
  std::vector<std::unique_ptr<MemoryExporter>> exporters;
  exporters.push_back(memfd_exporter("mappable_fd", TENON_EXTERNAL_MEMORY_MAPPABLE_FD));
  exporters.push_back(std::make_unique<HostExporter>());
  exporters.push_back(std::make_unique<DlpackExporter>());
  return exporters;
}

std::vector<std::unique_ptr<SemaphoreExporter>> host_semaphore_exporters() {
  std::vector<std::unique_ptr<SemaphoreExporter>> exporters;
  exporters.push_back(shared_timeline_exporter("shared_timeline_fd", TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD));
  exporters.push_back(std::make_unique<CallbackExporter>());
  return exporters;
}

Result<std::unique_ptr<SharedSemaphore>> share_by_callbacks(std::shared_ptr<Timeline> timeline) {
  return std::unique_ptr<SharedSemaphore>(std::make_unique<CallbackSemaphore>(std::move(timeline)));
}

std::unique_ptr<MemoryExporter> memfd_exporter(const char* name, uint32_t kind) {
  return std::make_unique<MemfdExporter>(name, kind);
}

std::unique_ptr<SemaphoreExporter> shared_timeline_exporter(const char* name, uint32_t kind) {
  return std::make_unique<SharedTimelineExporter>(name, kind);
}

}  // namespace tenon::conformance
