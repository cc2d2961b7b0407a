#include "ep/sim/sim_importer.h"

#include <cstring>

#include "base/checked.h"
#include "ep/sim/sim_plugin_objects.h"
#include "interop/external_handle.h"
#include "interop/importer.h"

namespace tenon::sim {

namespace {

bool is_nt(ExternalMemoryKind kind) {
  return kind == ExternalMemoryKind::kD3d12Resource || kind == ExternalMemoryKind::kD3d12Heap ||
         kind == ExternalMemoryKind::kVulkanOpaqueWin32 || kind == ExternalMemoryKind::kCudaIpc;
}

uint64_t nt_number(const ExternalHandle& handle) {
  uint64_t number = reinterpret_cast<uintptr_t>(handle.pointer);
  if (handle.type == HandleType::kIpc) std::memcpy(&number, handle.ipc.data(), sizeof(number));
  return number;
}

// What the device's driver maps: files, pointers and DLPack tensors as the CPU device imports them; the fds of other
// drivers are memfds here.
Result<std::shared_ptr<ExternalMemory>> map_memory(const ExternalHandle& handle, uint32_t handle_type,
                                                   void* native_handle, size_t size_bytes, size_t offset_bytes) {
  if (handle.type != HandleType::kFd) return import_memory(handle_type, native_handle, size_bytes, offset_bytes);
  OwnedHandle fd = OwnedHandle::take_fd(handle.fd);
  auto memory = ExternalMemory::import(fd, {.kind = ExternalMemoryKind::kMappableFd,
                                            .size_bytes = size_bytes,
                                            .offset_bytes = offset_bytes,
                                            .writable = !handle.read_only,
                                            .name = "external memory"});
  (void)fd.release_fd();  // after a failure it is the caller's
  return memory;
}

}  // namespace

DeviceUuid sim_device_uuid(int32_t number) {
  DeviceUuid uuid{'t', 'e', 'n', 'o', 'n', '-', 's', 'i', 'm'};
  uuid.back() = static_cast<uint8_t>(number);
  return uuid;
}

DeviceLuid sim_device_luid(int32_t number) { return {'s', 'i', 'm', 0, 0, 0, 0, static_cast<uint8_t>(number)}; }

bool sim_can_import_memory(uint32_t handle_type) {
  return handle_type == TENON_EXTERNAL_MEMORY_DESCRIBED ||
         find_handle_kind(static_cast<ExternalMemoryKind>(handle_type)) != nullptr;
}

bool sim_can_import_semaphore(uint32_t type) {
  return type <= ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD || tenon::can_import_semaphore(type);
}

Result<std::shared_ptr<SimImport>> SimImport::import(std::shared_ptr<SimDevice> device, uint32_t handle_type,
                                                     void* native_handle, size_t size_bytes, size_t offset_bytes) {
  TENON_UNSUPPORTED_IF(!sim_can_import_memory(handle_type), "The simulated device imports no memory of kind {:#x}.",
                       handle_type);
  TENON_INVALID_IF(size_bytes == 0, "size_bytes is 0.");
  TENON_TRY(device->faults().hit(SimStep::import_memory));
  TENON_TRY_ASSIGN(const ExternalHandle handle, read_external_handle(handle_type, native_handle));
  TENON_TRY(check_device_uuid(handle, sim_device_uuid(device->number())));
  TENON_TRY(check_device_luid(handle, sim_device_luid(device->number())));
  const auto end = checked_add(offset_bytes, size_bytes);
  TENON_INVALID_IF(!end, "offset_bytes ({}) plus size_bytes ({}) overflow.", offset_bytes, size_bytes);
  std::shared_ptr<SimImport> import(new SimImport(std::move(device), size_bytes));
  std::byte* backing = nullptr;
  std::shared_ptr<const void> owner;
  // Whatever can fail comes before the caller's handle is consumed.
  TENON_TRY_ASSIGN(SimMemory::Addresses addresses, SimMemory::reserve(size_bytes));
  TENON_TRY(import->device_->faults().hit(SimStep::map));
  if (is_nt(handle.kind)) {
    TENON_TRY_ASSIGN(NtObject object, nt_open(nt_number(handle)));
    TENON_INVALID_IF(object.memory == nullptr, "NT handle {:#x} names a fence, not memory.", nt_number(handle));
    TENON_INVALID_IF(*end > object.size_bytes, "offset_bytes ({}) plus size_bytes ({}) exceed the object's {} bytes.",
                     offset_bytes, size_bytes, object.size_bytes);
    backing = object.memory.get() + offset_bytes;
    owner = object.memory;
  } else {
    TENON_TRY_ASSIGN(import->memory_, map_memory(handle, handle_type, native_handle, size_bytes, offset_bytes));
    backing = static_cast<std::byte*>(import->memory_->data());
    owner = import->memory_;
  }
  import->address_ = import->device_->memory().adopt(std::move(addresses), backing, size_bytes, std::move(owner));
  return import;
}

SimImport::~SimImport() {
  if (address_ == nullptr) return;
  device_->free(address_);
}

Result<std::shared_ptr<Timeline>> sim_import_semaphore(uint32_t type, void* native_handle) {
  TENON_UNSUPPORTED_IF(!sim_can_import_semaphore(type), "The simulated device imports no semaphore of type {:#x}.",
                       type);
  TENON_TRY(process_faults().hit(SimStep::import_semaphore));
  if (type == ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD)
    return tenon::import_semaphore(TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD, native_handle);
  if (type >= TENON_EXTERNAL_HANDLE_FIRST) return tenon::import_semaphore(type, native_handle);
  TENON_INVALID_IF(native_handle == nullptr, "native_handle is null; semaphore type {} takes an NT handle.", type);
  const uint64_t number = reinterpret_cast<uintptr_t>(native_handle);
  TENON_TRY_ASSIGN(NtObject object, nt_open(number));
  TENON_INVALID_IF(object.fence == nullptr, "NT handle {:#x} names memory, not a fence.", number);
  return std::move(object.fence);
}

namespace {

class SimMemoryHandle final : public plugin::ImportedMemory {
 public:
  SimMemoryHandle(const plugin::HostApi& host, const OrtEpDevice* device, const OrtExternalMemoryDescriptor& descriptor,
                  std::shared_ptr<SimImport> import)
      : ImportedMemory(host, device, descriptor), import_(std::move(import)) {}
  const std::shared_ptr<SimImport>& import() const { return import_; }

 private:
  const std::shared_ptr<SimImport> import_;
};

class SimSemaphoreHandle final : public plugin::ImportedSemaphore {
 public:
  SimSemaphoreHandle(const plugin::HostApi& host, const OrtEpDevice* device,
                     const OrtExternalSemaphoreDescriptor& descriptor, std::shared_ptr<Timeline> timeline)
      : ImportedSemaphore(host, device, descriptor), timeline_(std::move(timeline)) {}
  const std::shared_ptr<Timeline>& timeline() const { return timeline_; }

 private:
  const std::shared_ptr<Timeline> timeline_;
  SimCounters::Live counted_{counters().imported_semaphores};
};

// What a tensor of an import holds.
struct TensorOwner {
  std::shared_ptr<SimImport> import;
  SimCounters::Live counted{counters().imported_tensors};
};

}  // namespace

SimImporter::SimImporter(const plugin::HostApi& host, const OrtEpDevice* ep_device, std::shared_ptr<SimDevice> device,
                         const OrtMemoryInfo* memory_info)
    : Importer(host, ep_device), sim_device_(std::move(device)), memory_info_(memory_info) {}

bool SimImporter::can_import_memory(OrtExternalMemoryHandleType kind) const {
  return sim_can_import_memory(static_cast<uint32_t>(kind));
}

bool SimImporter::can_import_semaphore(OrtExternalSemaphoreType kind) const {
  return sim_can_import_semaphore(static_cast<uint32_t>(kind));
}

Result<std::unique_ptr<plugin::ImportedMemory>> SimImporter::import_memory(
    const OrtExternalMemoryDescriptor& descriptor) {
  TENON_TRY_ASSIGN(auto import,
                   SimImport::import(sim_device_, static_cast<uint32_t>(descriptor.handle_type),
                                     descriptor.native_handle, descriptor.size_bytes, descriptor.offset_bytes));
  return std::unique_ptr<plugin::ImportedMemory>(
      std::make_unique<SimMemoryHandle>(host(), device(), descriptor, std::move(import)));
}

Result<std::unique_ptr<plugin::ImportedSemaphore>> SimImporter::import_semaphore(
    const OrtExternalSemaphoreDescriptor& descriptor) {
  TENON_TRY_ASSIGN(auto timeline,
                   sim_import_semaphore(static_cast<uint32_t>(descriptor.type), descriptor.native_handle));
  return std::unique_ptr<plugin::ImportedSemaphore>(
      std::make_unique<SimSemaphoreHandle>(host(), device(), descriptor, std::move(timeline)));
}

Result<OrtValue*> SimImporter::create_tensor(const plugin::ImportedMemory& memory, const plugin::TensorView& view) {
  TENON_TRY(process_faults().hit(SimStep::create_tensor));
  const auto& import = static_cast<const SimMemoryHandle&>(memory).import();
  TENON_TRY(import->check());
  auto owner = std::make_shared<TensorOwner>();
  owner->import = import;
  return make_view(memory_info_, static_cast<std::byte*>(import->address()) + view.offset_bytes, view,
                   std::move(owner));
}

Status SimImporter::wait(plugin::ImportedSemaphore& semaphore, plugin::SyncStream& stream, uint64_t value) {
  TENON_TRY(process_faults().hit(SimStep::wait_semaphore));
  static_cast<SimSyncStream&>(stream).stream()->wait({static_cast<SimSemaphoreHandle&>(semaphore).timeline(), value});
  return Status();
}

Status SimImporter::signal(plugin::ImportedSemaphore& semaphore, plugin::SyncStream& stream, uint64_t value) {
  TENON_TRY(process_faults().hit(SimStep::signal_semaphore));
  static_cast<SimSyncStream&>(stream).stream()->signal({static_cast<SimSemaphoreHandle&>(semaphore).timeline(), value});
  return Status();
}

}  // namespace tenon::sim
