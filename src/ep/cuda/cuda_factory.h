// The factory of the CUDA EP: the machine's devices, and the objects that sessions make on them.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "ep/cuda/cuda_session.h"
#include "ep/sdk/plugin_factory.h"

namespace tenon::cuda {

inline constexpr const char* kCudaEpName = "TenonCudaExecutionProvider";

// Devices are numbered as the driver does. A device of an older generation than sm_80 is not offered.
class CudaFactory final : public plugin::EpFactory {
 public:
  // `driver`: the machine's, or why there is none: the factory then offers no device and says so in the log. `compiler`
  // empty: sessions claim nothing.
  static Result<std::unique_ptr<CudaFactory>> create(const plugin::HostApi& host, const OrtLogger* logger,
                                                     Result<const CudaDriver*> driver, MakeRegionCompiler compiler);

  const OrtMemoryInfo* memory_info(int ordinal, MemoryKind kind) const;
  // `session` null: shared by all sessions.
  Result<std::unique_ptr<plugin::Allocator>> make_allocator(const OrtMemoryInfo* info,
                                                            const std::shared_ptr<CudaSession>& session);

 private:
  struct Offered {
    CudaDeviceInfo info;
    plugin::HostPtr<OrtMemoryInfo> device_memory;
    // Of an integrated GPU, whose device_memory the host reads too: memory of which that is not known.
    plugin::HostPtr<OrtMemoryInfo> session_memory;
    plugin::HostPtr<OrtMemoryInfo> pinned_memory;
    const OrtHardwareDevice* own_hardware = nullptr;  // made once, where the host shows none
  };
  CudaFactory(const plugin::HostApi& host, const CudaDriver* driver, MakeRegionCompiler compiler);
  Status find_devices(const OrtLogger* logger);
  Result<plugin::HostPtr<OrtMemoryInfo>> make_memory_info(int ordinal, MemoryKind kind, const char* name) const;
  // The host's hardware device of this GPU; null when the host does not show it.
  const OrtHardwareDevice* find_hardware(std::span<const OrtHardwareDevice* const> devices,
                                         const CudaDeviceInfo& info) const;
  const Offered* offered(int ordinal) const;
  // The device that metadata of an offer names.
  Result<const Offered*> chosen(const OrtKeyValuePairs* metadata) const;

  Result<std::vector<plugin::DeviceOffer>> offer_devices(std::span<const OrtHardwareDevice* const> devices) override;
  Result<std::unique_ptr<plugin::Ep>> create_ep(const plugin::EpRequest& request) override;
  Result<std::unique_ptr<plugin::Allocator>> create_allocator(const OrtMemoryInfo* info,
                                                              const plugin::TextPairs& options) override;
  Result<std::unique_ptr<plugin::DataTransfer>> create_data_transfer() override;
  Result<std::unique_ptr<plugin::SyncStream>> create_stream(const OrtMemoryDevice* device,
                                                            const plugin::TextPairs& options) override;
  Result<std::unique_ptr<plugin::Importer>> create_importer(const OrtEpDevice* device) override;
  Status init_graphics_interop(const OrtEpDevice* device, const OrtGraphicsInteropConfig& config,
                               const plugin::TextPairs& options) override;
  Status deinit_graphics_interop(const OrtEpDevice* device) override;

  const CudaDriver* const driver_;  // null: this machine has none
  const MakeRegionCompiler compiler_;
  std::vector<Offered> devices_;
  // Devices between InitGraphicsInterop and DeinitGraphicsInterop, by ordinal, open in the graphics API's context.
  Guarded<std::map<int, std::shared_ptr<CudaMemory>>> graphics_;
};

// Implements a plugin's CreateEpFactories over the machine's driver. Every out parameter is set.
OrtStatus* create_factories(const OrtApiBase* base, const OrtLogger* logger, OrtEpFactory** factories, size_t room,
                            size_t* count, MakeRegionCompiler compiler) noexcept;

}  // namespace tenon::cuda
