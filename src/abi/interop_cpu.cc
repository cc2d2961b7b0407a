#include "abi/interop_cpu.h"

#include <tenon/external_memory.h>

#include <cstring>
#include <utility>

#include "abi/objects/status.h"
#include "interop/importer.h"

namespace tenon::abi {

namespace {

class CpuMemory final : public DeviceMemory {
 public:
  // Made before the import, which takes the caller's handle and must be the last step that can fail.
  void hold(std::shared_ptr<ExternalMemory> memory) { memory_ = std::move(memory); }

  Result<std::unique_ptr<OrtValue>> create_tensor(const OrtExternalTensorDescriptor&, const ImportedView& view,
                                                  const std::shared_ptr<DeviceMemory>&) override {
    // The tensor holds the import itself: nothing of the C ABI is needed to keep it alive.
    TENON_TRY_ASSIGN(Tensor tensor, ExternalMemory::create_tensor(memory_, view.type, view.shape, view.offset_bytes));
    return std::make_unique<OrtValue>(make_value(std::move(tensor)));
  }

 private:
  std::shared_ptr<ExternalMemory> memory_;
};

class CpuSemaphore final : public DeviceSemaphore {
 public:
  void hold(std::shared_ptr<Timeline> timeline) { timeline_ = std::move(timeline); }

  Status wait(OrtSyncStream& stream, uint64_t value) override {
    TENON_TRY_ASSIGN(CpuStream * cpu, cpu_stream(stream));
    return cpu->queue().wait({timeline_, value});
  }
  Status signal(OrtSyncStream& stream, uint64_t value) override {
    TENON_TRY_ASSIGN(CpuStream * cpu, cpu_stream(stream));
    return cpu->queue().signal({timeline_, value});
  }

  Result<std::shared_ptr<Timeline>> timeline(const std::shared_ptr<DeviceSemaphore>&, std::string,
                                             std::shared_ptr<Timeline>) override {
    return timeline_;
  }

 private:
  static Result<CpuStream*> cpu_stream(OrtSyncStream& stream) {
    CpuStream* cpu = CpuStream::from(stream);
    TENON_INVALID_IF(cpu == nullptr,
                     "The stream belongs to {}, and the semaphore was imported by the CPU EP: only a stream of the CPU "
                     "device can wait for it or signal it.",
                     stream.who);
    return cpu;
  }

  std::shared_ptr<Timeline> timeline_;
};

class CpuImporter final : public DeviceImporter {
 public:
  Result<bool> can_import_memory(uint32_t kind) const override { return tenon::can_import_memory(kind); }
  Result<bool> can_import_semaphore(uint32_t kind) const override { return tenon::can_import_semaphore(kind); }

  Result<std::shared_ptr<DeviceMemory>> import_memory(const OrtExternalMemoryDescriptor& descriptor) override {
    auto memory = std::make_shared<CpuMemory>();
    TENON_TRY_ASSIGN(auto import, tenon::import_memory(kind_of(&descriptor.handle_type), descriptor.native_handle,
                                                       descriptor.size_bytes, descriptor.offset_bytes));
    memory->hold(std::move(import));
    return std::shared_ptr<DeviceMemory>(std::move(memory));
  }

  Result<std::shared_ptr<DeviceSemaphore>> import_semaphore(const OrtExternalSemaphoreDescriptor& descriptor) override {
    auto semaphore = std::make_shared<CpuSemaphore>();
    TENON_TRY_ASSIGN(auto import, tenon::import_semaphore(kind_of(&descriptor.type), descriptor.native_handle));
    semaphore->hold(std::move(import));
    return std::shared_ptr<DeviceSemaphore>(std::move(semaphore));
  }

 private:
  static uint32_t kind_of(const void* field) {
    uint32_t kind = 0;
    std::memcpy(&kind, field, sizeof(kind));
    return kind;
  }
};

}  // namespace

std::shared_ptr<DeviceImporter> make_cpu_importer() { return std::make_shared<CpuImporter>(); }

std::shared_ptr<DeviceSemaphore> make_cpu_semaphore(std::shared_ptr<Timeline> timeline) {
  auto semaphore = std::make_shared<CpuSemaphore>();
  semaphore->hold(std::move(timeline));
  return semaphore;
}

}  // namespace tenon::abi
