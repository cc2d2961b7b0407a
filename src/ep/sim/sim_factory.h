// The factory of the simulated EP: its devices, and the objects that sessions make on them.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "ep/sdk/plugin_factory.h"
#include "ep/sim/sim_plugin_objects.h"

namespace tenon::sim {

inline constexpr const char* kSimEpName = "TenonSimExecutionProvider";

// Device 0 has everything. Device 1 has no HOST_ACCESSIBLE memory and no importer. A session on the CPU device computes
// in host memory, without streams.
class SimFactory final : public plugin::EpFactory {
 public:
  static Result<std::unique_ptr<SimFactory>> create(const plugin::HostApi& host);
  ~SimFactory() override;

  // By device number; null for one that there is not.
  std::shared_ptr<SimDevice> device(int32_t number) const;
  const OrtMemoryInfo* memory_info(int32_t number, SimMemory::Kind kind) const;
  Result<std::unique_ptr<plugin::Allocator>> make_allocator(const OrtMemoryInfo* info);

 private:
  struct Memory {
    int32_t number = 0;
    SimMemory::Kind kind{};
    plugin::HostPtr<OrtMemoryInfo> info;
  };
  explicit SimFactory(const plugin::HostApi& host);
  Status add_memory(int32_t number, SimMemory::Kind kind, const char* name);
  // The number of the simulated device behind a hardware device; nullopt: the CPU.
  std::optional<int32_t> device_number(const OrtHardwareDevice* hardware) const;

  Result<std::vector<plugin::DeviceOffer>> offer_devices(std::span<const OrtHardwareDevice* const> devices) override;
  Result<std::unique_ptr<plugin::Ep>> create_ep(const plugin::EpRequest& request) override;
  Result<std::unique_ptr<plugin::Allocator>> create_allocator(const OrtMemoryInfo* info,
                                                              const plugin::TextPairs& options) override;
  Result<std::unique_ptr<plugin::DataTransfer>> create_data_transfer() override;
  Result<std::unique_ptr<plugin::SyncStream>> create_stream(const OrtMemoryDevice* device,
                                                            const plugin::TextPairs& options) override;
  Result<std::unique_ptr<plugin::Importer>> create_importer(const OrtEpDevice* device) override;
  Result<OrtCompiledModelCompatibility> validate_compiled_model(std::string_view info) override;
  Status init_graphics_interop(const OrtEpDevice* device, const OrtGraphicsInteropConfig& config,
                               const plugin::TextPairs& options) override;
  Status deinit_graphics_interop(const OrtEpDevice* device) override;

  std::vector<std::shared_ptr<SimDevice>> devices_;
  std::vector<Memory> memories_;
  std::atomic<uint64_t> streams_made_{0};
  // Devices in a graphics context, with the queue that they were given.
  Guarded<std::map<int32_t, void*>> graphics_queues_;
  SimCounters::Live counted_{counters().factories};
};

}  // namespace tenon::sim
