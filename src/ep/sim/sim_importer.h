// The simulated device's importer: external memory and timelines of every kind. File descriptors of GPU drivers are
// memfds, NT handles are numbers of a table (nt_handles.h), a CUDA IPC handle holds such a number in its first 8 bytes.
//
// Imported memory is mapped by the device; its device address cannot be read by the host (sim_memory.h).
#pragma once

#include <memory>

#include "ep/sdk/plugin_importer.h"
#include "ep/sim/nt_handles.h"
#include "ep/sim/sim_device.h"
#include "interop/external_handle.h"

namespace tenon::sim {

// Memory that the device has mapped. Shared by the import's handle and its tensors.
class SimImport {
 public:
  // `handle` stays the caller's until it is consumed.
  static Result<std::shared_ptr<SimImport>> import(std::shared_ptr<SimDevice> device, const ExternalHandle& handle,
                                                   size_t size_bytes, size_t offset_bytes);
  // The device may use it until every stream has passed what is queued now.
  ~SimImport();
  SimImport(const SimImport&) = delete;
  SimImport& operator=(const SimImport&) = delete;

  void* address() const { return address_; }
  size_t size_bytes() const { return size_bytes_; }
  // OK while the object behind the import still has the imported bytes.
  Status check() const { return memory_ != nullptr ? memory_->check() : Status(); }

 private:
  SimImport(std::shared_ptr<SimDevice> device, size_t size_bytes)
      : device_(std::move(device)), size_bytes_(size_bytes) {}
  const std::shared_ptr<SimDevice> device_;
  const size_t size_bytes_;
  void* address_ = nullptr;
  std::shared_ptr<ExternalMemory> memory_;  // null for NT handles
  SimCounters::Live counted_{counters().imported_memories};
};

// The TenonExternalMemoryInfo.device_uuid of memory that a simulated device made.
DeviceUuid sim_device_uuid(int32_t number);
// The same for its adapter's LUID.
DeviceLuid sim_device_luid(int32_t number);

class SimImporter final : public plugin::Importer {
 public:
  SimImporter(const plugin::HostApi& host, const OrtEpDevice* ep_device, std::shared_ptr<SimDevice> device,
              const OrtMemoryInfo* memory_info);

 private:
  bool can_import(ExternalMemoryKind kind) const override;
  bool can_import(TimelineKind kind) const override;
  Result<std::unique_ptr<plugin::ImportedMemory>> import_memory(const ExternalHandle& handle,
                                                                const OrtExternalMemoryDescriptor& descriptor) override;
  Result<std::unique_ptr<plugin::ImportedSemaphore>> import_semaphore(
      const ExternalSemaphore& semaphore, const OrtExternalSemaphoreDescriptor& descriptor) override;
  Result<OrtValue*> create_tensor(const plugin::ImportedMemory& memory, const plugin::TensorView& view) override;
  Status wait(plugin::ImportedSemaphore& semaphore, plugin::SyncStream& stream, uint64_t value) override;
  Status signal(plugin::ImportedSemaphore& semaphore, plugin::SyncStream& stream, uint64_t value) override;

  const std::shared_ptr<SimDevice> sim_device_;
  const OrtMemoryInfo* const memory_info_;
  SimCounters::Live counted_{counters().importers};
};

}  // namespace tenon::sim
