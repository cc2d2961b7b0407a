// The CUDA EP's external resource importer (S1, S2): memory by import_memory.h, and timelines of graphics APIs.
#pragma once

#include <memory>

#include "ep/cuda/import_memory.h"
#include "ep/sdk/plugin_importer.h"

namespace tenon::cuda {

// A timeline of another API that streams of this device wait for and signal.
class SemaphoreImport {
 public:
  // `handle` stays the caller's until ep/sdk consumes it.
  static Result<std::shared_ptr<SemaphoreImport>> import(const std::shared_ptr<CudaMemory>& memory,
                                                         const ExternalSemaphore& handle);
  ~SemaphoreImport();
  SemaphoreImport(const SemaphoreImport&) = delete;
  SemaphoreImport& operator=(const SemaphoreImport&) = delete;

  CUexternalSemaphore native() const { return semaphore_; }
  const std::shared_ptr<CudaMemory>& memory() const { return memory_; }
  // A value of it, for CudaMemory::queue_wait.
  CudaMemory::Awaited awaited(uint64_t value) const { return {name_, value}; }
  // Queued; both return before the value is reached.
  Status wait(const CudaStream& stream, uint64_t value) const;
  Status signal(const CudaStream& stream, uint64_t value) const;

 private:
  explicit SemaphoreImport(std::shared_ptr<CudaMemory> memory) : memory_(std::move(memory)) {}
  const std::shared_ptr<CudaMemory> memory_;
  std::shared_ptr<const std::string> name_;
  CUexternalSemaphore semaphore_ = nullptr;
};

bool can_import(TimelineKind kind, HandleSystem system = kThisSystem);
// A handle that the program holds, while this lives: runs name semaphores by it (ep/api/run_fences.h).
class HeldSemaphore {
 public:
  HeldSemaphore(uintptr_t handle, std::shared_ptr<const SemaphoreImport> semaphore);
  ~HeldSemaphore();
  HeldSemaphore(const HeldSemaphore&) = delete;
  HeldSemaphore& operator=(const HeldSemaphore&) = delete;

 private:
  const uintptr_t handle_;
};
// Null for any other number.
std::shared_ptr<const SemaphoreImport> find_semaphore(uintptr_t handle);

class CudaImporter final : public plugin::Importer {
 public:
  CudaImporter(const plugin::HostApi& host, const OrtEpDevice* ep_device, std::shared_ptr<CudaMemory> memory,
               const CudaDeviceInfo& info, const OrtMemoryInfo* device_memory, const OrtMemoryInfo* pinned_memory);

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

  const std::shared_ptr<CudaMemory> memory_;
  DeviceUuid uuid_{};
  const std::optional<DeviceLuid> luid_;
  const OrtMemoryInfo* const device_memory_;
  const OrtMemoryInfo* const pinned_memory_;
};

}  // namespace tenon::cuda
