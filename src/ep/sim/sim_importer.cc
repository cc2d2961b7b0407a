#include "ep/sim/sim_importer.h"

#include <cstring>

#include "base/checked.h"
#include "ep/sim/sim_plugin_objects.h"
#include "interop/external_handle.h"
#include "interop/importer.h"

namespace tenon::sim {

namespace {

// NT handles and IPC handles name objects of this process's table.
bool is_nt(HandleType type) { return type == HandleType::kNtHandle || type == HandleType::kIpc; }

uint64_t nt_number(const ExternalHandle& handle) {
  uint64_t number = reinterpret_cast<uintptr_t>(handle.pointer);
  if (handle.type == HandleType::kIpc) std::memcpy(&number, handle.ipc.data(), sizeof(number));
  return number;
}

// Maps memory like the device's driver: files, pointers and DLPack tensors as the CPU device imports them; the fds of
// other drivers are memfds here.
Result<std::shared_ptr<ExternalMemory>> map_memory(const ExternalHandle& handle, size_t size_bytes,
                                                   size_t offset_bytes) {
  return tenon::map_memory(handle,
                           {.kind = handle.type == HandleType::kFd ? ExternalMemoryKind::kMappableFd : handle.kind,
                            .size_bytes = size_bytes,
                            .offset_bytes = offset_bytes,
                            .writable = !handle.read_only,
                            .name = "external memory"});
}

// The fds of other drivers are shared timelines here.
Result<std::shared_ptr<Timeline>> open_semaphore(const ExternalSemaphore& semaphore) {
  TENON_TRY(process_faults().hit(SimStep::import_semaphore));
  if (!is_nt(semaphore.type)) {
    ExternalSemaphore ours = semaphore;
    if (semaphore.type == HandleType::kFd) ours.kind = TimelineKind::kSharedTimelineFd;
    return tenon::open_semaphore(ours, "external semaphore");
  }
  const uint64_t number = reinterpret_cast<uintptr_t>(semaphore.pointer);
  TENON_TRY_ASSIGN(NtObject object, nt_open(number));
  TENON_INVALID_IF(object.fence == nullptr, "NT handle {:#x} names memory, not a fence.", number);
  return std::move(object.fence);
}

}  // namespace

DeviceUuid sim_device_uuid(int32_t number) {
  DeviceUuid uuid{'t', 'e', 'n', 'o', 'n', '-', 's', 'i', 'm'};
  uuid.back() = static_cast<uint8_t>(number);
  return uuid;
}

DeviceLuid sim_device_luid(int32_t number) { return {'s', 'i', 'm', 0, 0, 0, 0, static_cast<uint8_t>(number)}; }

Result<std::shared_ptr<SimImport>> SimImport::import(std::shared_ptr<SimDevice> device, const ExternalHandle& handle,
                                                     size_t size_bytes, size_t offset_bytes) {
  TENON_INVALID_IF(size_bytes == 0, "size_bytes is 0.");
  TENON_TRY(device->faults().hit(SimStep::import_memory));
  TENON_TRY(check_device_uuid(handle, sim_device_uuid(device->number())));
  TENON_TRY(check_device_luid(handle, sim_device_luid(device->number())));
  const auto end = checked_add(offset_bytes, size_bytes);
  TENON_INVALID_IF(!end, "offset_bytes ({}) plus size_bytes ({}) overflow.", offset_bytes, size_bytes);
  std::shared_ptr<SimImport> import(new SimImport(std::move(device), size_bytes));
  std::byte* backing = nullptr;
  std::shared_ptr<const void> owner;
  TENON_TRY_ASSIGN(SimMemory::Addresses addresses, SimMemory::reserve(size_bytes));
  TENON_TRY(import->device_->faults().hit(SimStep::map));
  if (is_nt(handle.type)) {
    TENON_TRY_ASSIGN(NtObject object, nt_open(nt_number(handle)));
    TENON_INVALID_IF(object.memory == nullptr, "NT handle {:#x} names a fence, not memory.", nt_number(handle));
    TENON_INVALID_IF(*end > object.size_bytes, "offset_bytes ({}) plus size_bytes ({}) exceed the object's {} bytes.",
                     offset_bytes, size_bytes, object.size_bytes);
    backing = object.memory.get() + offset_bytes;
    owner = object.memory;
  } else {
    TENON_TRY_ASSIGN(import->memory_, map_memory(handle, size_bytes, offset_bytes));
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

// The owner of one tensor of an import; it keeps the import alive.
struct TensorOwner {
  std::shared_ptr<SimImport> import;
  SimCounters::Live counted{counters().imported_tensors};
};

}  // namespace

SimImporter::SimImporter(const plugin::HostApi& host, const OrtEpDevice* ep_device, std::shared_ptr<SimDevice> device,
                         const OrtMemoryInfo* memory_info)
    : Importer(host, ep_device), sim_device_(std::move(device)), memory_info_(memory_info) {}

bool SimImporter::can_import(ExternalMemoryKind kind) const { return find_handle_kind(kind) != nullptr; }
bool SimImporter::can_import(TimelineKind kind) const { return find_handle_kind(kind) != nullptr; }

Result<std::unique_ptr<plugin::ImportedMemory>> SimImporter::import_memory(
    const ExternalHandle& handle, const OrtExternalMemoryDescriptor& descriptor) {
  TENON_TRY_ASSIGN(auto import, SimImport::import(sim_device_, handle, descriptor.size_bytes, descriptor.offset_bytes));
  return std::unique_ptr<plugin::ImportedMemory>(
      std::make_unique<SimMemoryHandle>(host(), device(), descriptor, std::move(import)));
}

Result<std::unique_ptr<plugin::ImportedSemaphore>> SimImporter::import_semaphore(
    const ExternalSemaphore& semaphore, const OrtExternalSemaphoreDescriptor& descriptor) {
  TENON_TRY_ASSIGN(auto timeline, open_semaphore(semaphore));
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
