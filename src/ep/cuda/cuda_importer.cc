#include "ep/cuda/cuda_importer.h"

#include <algorithm>
#include <map>

#include "ep/cuda/cuda_plugin_objects.h"

namespace tenon::cuda {

namespace {

// How the driver imports a kind. A kind without a row is not imported.
struct CudaTimelineKind {
  TimelineKind kind;
  CUexternalSemaphoreHandleType type;
  const char* what;  // for messages
};
constexpr CudaTimelineKind kCudaTimelineKinds[] = {
    {TimelineKind::kD3d12Fence, CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE, "D3D12 fence"},
    {TimelineKind::kVulkanTimelineWin32, CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32, "Vulkan timeline"},
    {TimelineKind::kVulkanTimelineFd, CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, "Vulkan timeline"},
};

const CudaTimelineKind* find_row(TimelineKind kind) {
  for (const CudaTimelineKind& row : kCudaTimelineKinds)
    if (row.kind == kind) return &row;
  return nullptr;
}

}  // namespace

bool can_import(TimelineKind kind, HandleSystem system) {
  return find_row(kind) != nullptr && system_has(system, find_handle_kind(kind)->type);
}

Result<std::shared_ptr<SemaphoreImport>> SemaphoreImport::import(const std::shared_ptr<CudaMemory>& memory,
                                                                 const ExternalSemaphore& handle) {
  memory->collect();
  const CudaTimelineKind* row = find_row(handle.kind);
  TENON_UNSUPPORTED_IF(row == nullptr, "This device imports no {}.", timeline_kind_name(handle.kind));
  const CudaDevice& device = *memory->device();
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(device));
  std::shared_ptr<SemaphoreImport> import(new SemaphoreImport(memory));
  CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC descriptor{};
  descriptor.type = row->type;
  OwnedHandle copy;
  if (handle.type == HandleType::kFd) {
    TENON_TRY_ASSIGN(copy, OwnedHandle::duplicate_fd(handle.fd));
    descriptor.handle.fd = copy.fd();
    import->name_ = std::make_shared<const std::string>(format("{} that came as fd {}", row->what, handle.fd));
  } else {
    descriptor.handle.win32.handle = handle.pointer;
    import->name_ = std::make_shared<const std::string>(
        format("{} that came as handle {:#x}", row->what, reinterpret_cast<uintptr_t>(handle.pointer)));
  }
  TENON_FAULT_POINT("cuImportExternalSemaphore");
  TENON_TRY(import_status(device.driver(), device.driver().ImportExternalSemaphore(&import->semaphore_, &descriptor),
                          "cuImportExternalSemaphore"));
  (void)copy.release_fd();  // the driver's from here
  return import;
}

SemaphoreImport::~SemaphoreImport() {
  // The driver wants every wait and signal to have run first.
  if (semaphore_ != nullptr)
    memory_->when_unused(
        [semaphore = semaphore_](const CudaDriver& driver) { (void)driver.DestroyExternalSemaphore(semaphore); });
}

Status SemaphoreImport::wait(const CudaStream& stream, uint64_t value) const {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*memory_->device()));
  return memory_->queue_wait(stream, awaited(value), [&]() -> Status {
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS parameters{};
    parameters.params.fence.value = value;
    TENON_CUDA_TRY(memory_->device()->driver(), WaitExternalSemaphoresAsync, &semaphore_, &parameters, 1,
                   stream.native());
    return Status();
  });
}

Status SemaphoreImport::signal(const CudaStream& stream, uint64_t value) const {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*memory_->device()));
  CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS parameters{};
  parameters.params.fence.value = value;
  TENON_CUDA_TRY(memory_->device()->driver(), SignalExternalSemaphoresAsync, &semaphore_, &parameters, 1,
                 stream.native());
  return Status();
}

namespace {

Guarded<std::map<uintptr_t, std::shared_ptr<const SemaphoreImport>>>& held_semaphores() {
  static auto* const held = new Guarded<std::map<uintptr_t, std::shared_ptr<const SemaphoreImport>>>;
  return *held;
}

class CudaMemoryHandle final : public plugin::ImportedMemory {
 public:
  CudaMemoryHandle(const plugin::HostApi& host, const OrtEpDevice* device,
                   const OrtExternalMemoryDescriptor& descriptor, std::shared_ptr<MemoryImport> import)
      : ImportedMemory(host, device, descriptor), import_(std::move(import)) {}
  const std::shared_ptr<MemoryImport>& import() const { return import_; }

 private:
  const std::shared_ptr<MemoryImport> import_;
};

class CudaSemaphoreHandle final : public plugin::ImportedSemaphore {
 public:
  CudaSemaphoreHandle(const plugin::HostApi& host, const OrtEpDevice* device,
                      const OrtExternalSemaphoreDescriptor& descriptor, std::shared_ptr<SemaphoreImport> import)
      : ImportedSemaphore(host, device, descriptor),
        import_(std::move(import)),
        held_(reinterpret_cast<uintptr_t>(static_cast<const OrtExternalSemaphoreHandle*>(this)), import_) {}
  const SemaphoreImport& import() const { return *import_; }

 private:
  const std::shared_ptr<SemaphoreImport> import_;
  const HeldSemaphore held_;  // by the address that the host knows
};

}  // namespace

HeldSemaphore::HeldSemaphore(uintptr_t handle, std::shared_ptr<const SemaphoreImport> semaphore) : handle_(handle) {
  (*held_semaphores().lock())[handle] = std::move(semaphore);
}

HeldSemaphore::~HeldSemaphore() {
  // Its release comes after the lock.
  const auto last = [&] {
    auto held = held_semaphores().lock();
    return held->extract(handle_);
  }();
}

std::shared_ptr<const SemaphoreImport> find_semaphore(uintptr_t handle) {
  const auto held = held_semaphores().lock();
  const auto found = held->find(handle);
  return found != held->end() ? found->second : nullptr;
}

CudaImporter::CudaImporter(const plugin::HostApi& host, const OrtEpDevice* ep_device,
                           std::shared_ptr<CudaMemory> memory, const CudaDeviceInfo& info,
                           const OrtMemoryInfo* device_memory, const OrtMemoryInfo* pinned_memory)
    : Importer(host, ep_device),
      memory_(std::move(memory)),
      luid_(info.luid),
      device_memory_(device_memory),
      pinned_memory_(pinned_memory) {
  std::copy(info.uuid.begin(), info.uuid.end(), uuid_.begin());
}

bool CudaImporter::can_import(ExternalMemoryKind kind) const { return cuda::can_import(*memory_->device(), kind); }
bool CudaImporter::can_import(TimelineKind kind) const { return cuda::can_import(kind); }

Result<std::unique_ptr<plugin::ImportedMemory>> CudaImporter::import_memory(
    const ExternalHandle& handle, const OrtExternalMemoryDescriptor& descriptor) {
  TENON_TRY(check_device_luid(handle, luid_));
  TENON_TRY_ASSIGN(auto import,
                   MemoryImport::import(memory_, uuid_, handle, descriptor.size_bytes, descriptor.offset_bytes));
  return std::unique_ptr<plugin::ImportedMemory>(
      std::make_unique<CudaMemoryHandle>(host(), device(), descriptor, std::move(import)));
}

Result<std::unique_ptr<plugin::ImportedSemaphore>> CudaImporter::import_semaphore(
    const ExternalSemaphore& semaphore, const OrtExternalSemaphoreDescriptor& descriptor) {
  TENON_TRY_ASSIGN(auto import, SemaphoreImport::import(memory_, semaphore));
  return std::unique_ptr<plugin::ImportedSemaphore>(
      std::make_unique<CudaSemaphoreHandle>(host(), device(), descriptor, std::move(import)));
}

Result<OrtValue*> CudaImporter::create_tensor(const plugin::ImportedMemory& memory, const plugin::TensorView& view) {
  const std::shared_ptr<MemoryImport>& import = static_cast<const CudaMemoryHandle&>(memory).import();
  TENON_TRY(import->check());
  return make_view(import->host_accessible() ? pinned_memory_ : device_memory_,
                   static_cast<std::byte*>(import->address()) + view.offset_bytes, view, import);
}

Status CudaImporter::wait(plugin::ImportedSemaphore& semaphore, plugin::SyncStream& stream, uint64_t value) {
  return static_cast<CudaSemaphoreHandle&>(semaphore).import().wait(*static_cast<CudaSyncStream&>(stream).stream(),
                                                                    value);
}

Status CudaImporter::signal(plugin::ImportedSemaphore& semaphore, plugin::SyncStream& stream, uint64_t value) {
  return static_cast<CudaSemaphoreHandle&>(semaphore).import().signal(*static_cast<CudaSyncStream&>(stream).stream(),
                                                                      value);
}

}  // namespace tenon::cuda
