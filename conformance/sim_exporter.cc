#include "conformance/sim_exporter.h"

#include <cstring>
#include <mutex>
#include <thread>

#include "conformance/tensors.h"
#include "programs/clock.h"

namespace tenon::conformance {

namespace {

// A number that was never a handle.
constexpr uint64_t kNoHandle = 0x7ffffffc;

// Memory behind an NT handle: the caller's before and after an import, which duplicates it.
class NtMemory final : public SharedMemory {
 public:
  NtMemory(const TenonSimTestApi& sim, uint32_t kind, uint64_t handle, size_t size_bytes)
      : sim_(sim), kind_(kind), handle_(handle), size_bytes_(size_bytes), view_(sim.nt_map(handle)) {}
  ~NtMemory() override { (void)sim_.nt_close(handle_); }

  OrtExternalMemoryDescriptor descriptor(uint32_t version) override { return describe(version, handle_, &info_); }
  OrtExternalMemoryDescriptor broken_descriptor(uint32_t version) override {
    return describe(version, kNoHandle, &broken_);
  }
  std::byte* view() override { return static_cast<std::byte*>(view_); }
  size_t size_bytes() const override { return size_bytes_; }
  void take_on_success() override {}
  std::string check_still_ours() override { return sim_.nt_map(handle_) == view_ ? "" : "The NT handle was closed."; }
  std::string check_given_back() override { return check_still_ours(); }
  bool size_is_known() const override { return true; }

 private:
  OrtExternalMemoryDescriptor describe(uint32_t version, uint64_t handle, TenonExternalMemoryInfo* info) {
    OrtExternalMemoryDescriptor descriptor = {};
    descriptor.version = version;
    descriptor.handle_type = std::bit_cast<OrtExternalMemoryHandleType>(kind_);
    descriptor.native_handle = reinterpret_cast<void*>(handle);
    descriptor.size_bytes = size_bytes_;
    if (kind_ >= TENON_EXTERNAL_HANDLE_FIRST) {
      *info = {};
      info->version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
      info->kind = kind_;
      std::memcpy(info->handle.ipc, &handle, sizeof(handle));
      descriptor.native_handle = info;
    }
    return descriptor;
  }

  const TenonSimTestApi& sim_;
  const uint32_t kind_;
  const uint64_t handle_;
  const size_t size_bytes_;
  void* const view_;
  TenonExternalMemoryInfo info_ = {};
  TenonExternalMemoryInfo broken_ = {};
};

class NtMemoryExporter final : public MemoryExporter {
 public:
  NtMemoryExporter(const TenonSimTestApi& sim, const char* name, uint32_t kind) : sim_(sim), name_(name), kind_(kind) {}
  const char* name() const override { return name_; }
  uint32_t kind() const override { return kind_; }
  Result<std::unique_ptr<SharedMemory>> make(size_t size_bytes) override {
    const uint64_t handle = sim_.nt_create_memory(size_bytes);
    if (handle == 0) return resource_exhausted("The simulated system makes no memory of {} bytes.", size_bytes);
    return std::unique_ptr<SharedMemory>(std::make_unique<NtMemory>(sim_, kind_, handle, size_bytes));
  }

 private:
  const TenonSimTestApi& sim_;
  const char* const name_;
  const uint32_t kind_;
};

// The program's end of an NT fence: polled, as the model has no wait of its own.
class NtTimeline final : public Timeline {
 public:
  NtTimeline(const TenonSimTestApi& sim, uint64_t handle) : sim_(sim), handle_(handle) {}
  ~NtTimeline() override { (void)sim_.nt_close(handle_); }

  Result<uint64_t> value() override {
    uint64_t value = 0;
    if (sim_.nt_fence_value(handle_, &value) == 0) return device_error("NT handle {:#x} names no fence.", handle_);
    return value;
  }
  Status wait(uint64_t value, int64_t timeout_ns) override {
    const int64_t begin_ns = now_ns();
    while (true) {
      TENON_TRY_ASSIGN(const uint64_t reached, this->value());
      if (reached >= value) return Status();
      if (timeout_ns >= 0 && now_ns() - begin_ns >= timeout_ns)
        return timed_out("The fence is at {} and does not reach {}.", reached, value);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  Status signal(uint64_t value) override {
    if (sim_.nt_fence_signal(handle_, value) == 0) return device_error("The fence cannot be signalled to {}.", value);
    return Status();
  }
  void poison(uint64_t value, const Status&) override { (void)signal(value); }
  Status status() override { return Status(); }
  std::string name() const override { return "NT fence"; }
  uint64_t handle() const { return handle_; }

 private:
  const TenonSimTestApi& sim_;
  const uint64_t handle_;
};

class NtFence final : public SharedSemaphore {
 public:
  NtFence(const TenonSimTestApi& sim, uint32_t kind, uint64_t handle) : kind_(kind), timeline_(sim, handle) {}

  OrtExternalSemaphoreDescriptor descriptor(uint32_t version) override {
    OrtExternalSemaphoreDescriptor descriptor = {};
    descriptor.version = version;
    descriptor.type = std::bit_cast<OrtExternalSemaphoreType>(kind_);
    descriptor.native_handle = reinterpret_cast<void*>(timeline_.handle());
    return descriptor;
  }
  void take_on_success() override {}
  std::string check_still_ours() override { return timeline_.value().ok() ? "" : "The NT handle was closed."; }
  std::string check_given_back() override { return check_still_ours(); }
  Timeline& other() override { return timeline_; }

 private:
  const uint32_t kind_;
  NtTimeline timeline_;
};

class NtFenceExporter final : public SemaphoreExporter {
 public:
  NtFenceExporter(const TenonSimTestApi& sim, const char* name, uint32_t kind) : sim_(sim), name_(name), kind_(kind) {}
  const char* name() const override { return name_; }
  uint32_t kind() const override { return kind_; }
  Result<std::unique_ptr<SharedSemaphore>> make() override {
    const uint64_t handle = sim_.nt_create_fence(0);
    if (handle == 0) return resource_exhausted("The simulated system makes no fence.");
    return std::unique_ptr<SharedSemaphore>(std::make_unique<NtFence>(sim_, kind_, handle));
  }

 private:
  const TenonSimTestApi& sim_;
  const char* const name_;
  const uint32_t kind_;
};

}  // namespace

std::vector<std::unique_ptr<MemoryExporter>> sim_memory_exporters(const TenonSimTestApi& sim) {
  std::vector<std::unique_ptr<MemoryExporter>> exporters;
  exporters.push_back(std::make_unique<NtMemoryExporter>(sim, "d3d12_resource (simulated)", 0));
  exporters.push_back(std::make_unique<NtMemoryExporter>(sim, "d3d12_heap (simulated)", 1));
  exporters.push_back(std::make_unique<NtMemoryExporter>(sim, "vulkan_opaque_win32 (simulated)", 2));
  exporters.push_back(std::make_unique<NtMemoryExporter>(sim, "cuda_ipc (simulated)", TENON_EXTERNAL_MEMORY_CUDA_IPC));
  exporters.push_back(memfd_exporter("vulkan_opaque_fd (a memfd)", 3));
  exporters.push_back(memfd_exporter("cuda_vmm_fd (a memfd)", TENON_EXTERNAL_MEMORY_CUDA_VMM_FD));
  exporters.push_back(memfd_exporter("dma_buf_fd (a memfd)", TENON_EXTERNAL_MEMORY_DMA_BUF_FD));
  return exporters;
}

std::vector<std::unique_ptr<SemaphoreExporter>> sim_semaphore_exporters(const TenonSimTestApi& sim) {
  std::vector<std::unique_ptr<SemaphoreExporter>> exporters;
  exporters.push_back(std::make_unique<NtFenceExporter>(sim, "d3d12_fence (simulated)", 0));
  exporters.push_back(std::make_unique<NtFenceExporter>(sim, "vulkan_timeline_win32 (simulated)", 1));
  exporters.push_back(shared_timeline_exporter("vulkan_timeline_fd (a shared timeline)", 2));
  return exporters;
}

}  // namespace tenon::conformance
