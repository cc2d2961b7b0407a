// A plugin's factory as a C++ class behind OrtEpFactory.
//
// Ownership: CreateEpFactories hands the factory to the host, ReleaseEpFactory takes it back. The factory outlives
// everything that it creates.
// Threads: the host calls every function from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ep/sdk/plugin_ep.h"
#include "ep/sdk/plugin_importer.h"
#include "ep/sdk/plugin_memory.h"
#include "ep/sdk/plugin_stream.h"

namespace tenon::plugin {

struct FactoryIdentity {
  std::string ep_name;
  std::string vendor;
  uint32_t vendor_id = 0;
  std::string version;  // semantic version of the EP
};

// A device that the EP offers. Hardware devices are the host's, or made with make_hardware_device().
struct DeviceOffer {
  const OrtHardwareDevice* hardware = nullptr;
  TextPairs metadata;
  TextPairs options;
  std::vector<const OrtMemoryInfo*> allocators;
};

// The request of a session for an EP; everything is valid during create_ep() only, the hardware devices longer.
struct EpRequest {
  std::span<const OrtHardwareDevice* const> devices;
  std::span<const OrtKeyValuePairs* const> metadata;
  const OrtSessionOptions* session_options = nullptr;
  const OrtLogger* logger = nullptr;
};

class EpFactory : private OrtEpFactory {
 public:
  // Members of the table that are null unless the factory says that it has them.
  struct Features {
    bool streams = false;
    bool importer = false;
    bool compiled_model_validation = false;
    bool graphics_interop = false;  // in hosts of API 25 and newer
  };

  EpFactory(const HostApi& host, FactoryIdentity identity, Features features);
  virtual ~EpFactory() = default;
  EpFactory(const EpFactory&) = delete;
  EpFactory& operator=(const EpFactory&) = delete;

  // The body of a plugin's CreateEpFactories: `make` gives its one factory. Every out parameter is set.
  static OrtStatus* create_single(
      const OrtApiBase* base, OrtEpFactory** factories, size_t room, size_t* count,
      const std::function<Result<std::unique_ptr<EpFactory>>(const HostApi& host)>& make) noexcept;
  static OrtEpFactory* release_to_host(std::unique_ptr<EpFactory> factory);
  static std::unique_ptr<EpFactory> take_back(OrtEpFactory* factory);

  const HostApi& host() const { return host_; }
  const FactoryIdentity& identity() const { return identity_; }
  // "ep.tenonsimexecutionprovider."
  std::string option_prefix() const;

 protected:
  // Devices beyond what the host has room for are dropped by the SDK, last first.
  virtual Result<std::vector<DeviceOffer>> offer_devices(std::span<const OrtHardwareDevice* const> devices) = 0;
  virtual Result<std::unique_ptr<Ep>> create_ep(const EpRequest& request) = 0;
  // For a memory info that the factory added to a device; others are refused.
  virtual Result<std::unique_ptr<Allocator>> create_allocator(const OrtMemoryInfo* info, const TextPairs& options) = 0;
  // Null: there is none.
  virtual Result<std::unique_ptr<DataTransfer>> create_data_transfer() { return std::unique_ptr<DataTransfer>(); }
  virtual Result<std::unique_ptr<SyncStream>> create_stream(const OrtMemoryDevice* device, const TextPairs& options);
  // Null: this device has none.
  virtual Result<std::unique_ptr<Importer>> create_importer(const OrtEpDevice* device);
  virtual Result<OrtCompiledModelCompatibility> validate_compiled_model(std::string_view info);
  // S1.9. The configuration's version and graphics API are known ones; `options` are its additional options. No host
  // keeps the order for the EP: a second init without a deinit between has to be refused.
  virtual Status init_graphics_interop(const OrtEpDevice* device, const OrtGraphicsInteropConfig& config,
                                       const TextPairs& options);
  // Also called without an init before it: then nothing is to be done.
  virtual Status deinit_graphics_interop(const OrtEpDevice* device);

  // A hardware device of the plugin's own. The factory keeps it until it is released.
  Result<const OrtHardwareDevice*> make_hardware_device(OrtHardwareDeviceType type, uint32_t device_id,
                                                        const TextPairs& metadata);

 private:
  void set_graphics_members();
  Status get_supported_devices(std::span<const OrtHardwareDevice* const> devices, std::span<OrtEpDevice*> room,
                               size_t* count);

  const HostApi host_;
  const FactoryIdentity identity_;
  std::vector<HostPtr<OrtHardwareDevice>> own_devices_;
};

}  // namespace tenon::plugin
