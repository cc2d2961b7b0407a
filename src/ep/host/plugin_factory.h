// An OrtEpFactory behind the core's EpFactory.
//
// Lifetime: part of its PluginLibrary. Threads: any after create(); a plugin's factory functions are called from one
// thread at a time.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "abi/objects/ep_device.h"
#include "base/guarded.h"
#include "ep/host/device_use.h"
#include "ep/host/plugin_library.h"
#include "ep/host/plugin_memory.h"
#include "ep/host/plugin_stream.h"
#include "runtime/ep_registry.h"

namespace tenon::abi {

class PluginFactory final : public EpFactory {
 public:
  // Calls GetSupportedDevices, GetName, GetVendor, GetVersion and CreateDataTransfer, as ONNX Runtime does.
  static Result<std::unique_ptr<PluginFactory>> create(PluginLibrary& library, OrtEpFactory* factory);
  ~PluginFactory() override;

  const std::string& name() const override { return name_; }
  std::span<const EpDevice> devices() const override { return devices_; }
  Result<std::unique_ptr<DeviceProvider>> create_provider(const EpChoice& choice, std::span<const size_t> devices,
                                                          const SessionOptions& options) override;
  std::vector<std::shared_ptr<DeviceAllocator>> shared_allocators(size_t device) override;
  DataTransfer* transfer() override { return transfer_.get(); }

  OrtEpFactory* ort() const { return factory_; }
  uint32_t version() const { return factory_->ort_version_supported; }
  // For messages: `EP "name" of EP library "x"`.
  const std::string& who() const { return who_; }
  PluginLibrary& library() const { return library_; }
  std::shared_ptr<PluginFactory> shared();
  std::span<const std::unique_ptr<OrtEpDevice>> ort_devices() const { return ort_devices_; }
  bool stream_aware() const;
  // The counter of the device whose memory this is; null for memory that no device of the factory names.
  std::shared_ptr<DeviceUse> use_of(const OrtMemoryDevice& memory) const;

  // A new allocator from the factory; null when it makes none (plain host memory serves).
  Result<std::shared_ptr<PluginAllocator>> create_allocator(const OrtMemoryInfo& info, const OrtKeyValuePairs* options,
                                                            std::shared_ptr<const void> keep);
  // Takes an allocator over that the factory or its EP made; null for null.
  Result<std::shared_ptr<PluginAllocator>> adopt_allocator(OrtAllocator* allocator, std::shared_ptr<const void> keep);
  // Makes the allocator of a device that the process shares, by the C ABI's rules; one that is there is released first.
  // Null when the factory makes none.
  Result<std::shared_ptr<PluginAllocator>> share_allocator(const OrtEpDevice& device, OrtDeviceMemoryType kind,
                                                           const OrtKeyValuePairs* options);
  // kInvalidArgument when there is none.
  Status release_shared_allocator(const OrtEpDevice& device, OrtDeviceMemoryType kind);
  // The one for this memory, or else one that serves it.
  std::shared_ptr<PluginAllocator> find_shared_allocator(const OrtMemoryInfo& info);
  // A new transfer; null when the factory makes none.
  Result<std::unique_ptr<PluginTransfer>> create_transfer(std::shared_ptr<const void> keep);
  // A new stream; null when the factory makes none.
  Result<std::unique_ptr<PluginStream>> create_stream(const OrtMemoryDevice& device, const OrtKeyValuePairs* options,
                                                      std::shared_ptr<const void> keep);
  struct Names {
    std::string name;
    std::string vendor;
    std::string version;
  };
  static Result<Names> read_names(const std::string& who, OrtEpFactory* factory);

 private:
  PluginFactory(PluginLibrary& library, OrtEpFactory* factory);
  Status find_devices();
  Status create_shared_allocators();
  // Lists `next` (none when null) instead of the one that is returned, whose end is the plugin's code: it may take long
  // and call back, so no lock is held then.
  std::shared_ptr<PluginAllocator> exchange_shared_allocator(const OrtEpDevice& device, OrtDeviceMemoryType kind,
                                                             std::shared_ptr<PluginAllocator> next);

  PluginLibrary& library_;
  OrtEpFactory* const factory_;
  std::string who_;
  std::string name_;
  std::vector<std::unique_ptr<OrtEpDevice>> ort_devices_;
  std::vector<EpDevice> devices_;
  struct SharedAllocator {
    const OrtEpDevice* device = nullptr;
    OrtDeviceMemoryType kind = OrtDeviceMemoryType_DEFAULT;
    std::shared_ptr<PluginAllocator> allocator;
  };
  Guarded<std::vector<SharedAllocator>> allocators_;
  std::unique_ptr<PluginTransfer> transfer_;
};

// The factory of a device, alive while it is held; null for the CPU EP, and when the library is gone.
std::shared_ptr<PluginFactory> factory_of(const OrtEpDevice& device);

// The devices that CreateEpDevice made and that nobody has released or taken over. True when `device` was one, which
// then is the caller's.
bool take_ep_device(OrtEpDevice* device);

}  // namespace tenon::abi
