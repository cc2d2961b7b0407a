#include "ep/sdk/plugin_factory.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "ep/api/abi_since.h"

namespace tenon::plugin {

EpFactory::EpFactory(const HostApi& host, FactoryIdentity identity, Features features)
    : OrtEpFactory{}, host_(host), identity_(std::move(identity)) {
  ort_version_supported = host.version();
  OrtEpFactory::GetName = [](const OrtEpFactory* table) noexcept -> const char* {
    return static_cast<const EpFactory*>(table)->identity_.ep_name.c_str();
  };
  OrtEpFactory::GetVendor = [](const OrtEpFactory* table) noexcept -> const char* {
    return static_cast<const EpFactory*>(table)->identity_.vendor.c_str();
  };
  OrtEpFactory::GetVendorId = [](const OrtEpFactory* table) noexcept -> uint32_t {
    return static_cast<const EpFactory*>(table)->identity_.vendor_id;
  };
  OrtEpFactory::GetVersion = [](const OrtEpFactory* table) noexcept -> const char* {
    return static_cast<const EpFactory*>(table)->identity_.version.c_str();
  };
  OrtEpFactory::GetSupportedDevices = [](OrtEpFactory* table, const OrtHardwareDevice* const* devices,
                                         size_t device_count, OrtEpDevice** ep_devices, size_t room,
                                         size_t* count) noexcept -> OrtStatus* {
    auto& factory = *static_cast<EpFactory*>(table);
    return factory.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(count == nullptr, "The result pointer of GetSupportedDevices is null.");
      *count = 0;
      TENON_INVALID_IF((devices == nullptr && device_count != 0) || (ep_devices == nullptr && room != 0),
                       "A list of devices is null, but its length is not 0.");
      return factory.get_supported_devices({devices, device_count}, {ep_devices, room}, count);
    });
  };
  OrtEpFactory::CreateEp = [](OrtEpFactory* table, const OrtHardwareDevice* const* devices,
                              const OrtKeyValuePairs* const* metadata, size_t device_count,
                              const OrtSessionOptions* session_options, const OrtLogger* logger,
                              OrtEp** ep) noexcept -> OrtStatus* {
    auto& factory = *static_cast<EpFactory*>(table);
    return factory.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(ep == nullptr, "The result pointer of CreateEp is null.");
      *ep = nullptr;
      TENON_INVALID_IF(device_count == 0 || devices == nullptr, "CreateEp gets no device.");
      EpRequest request{.devices = {devices, device_count},
                        .metadata = {metadata, metadata != nullptr ? device_count : 0},
                        .session_options = session_options,
                        .logger = logger};
      TENON_TRY_ASSIGN(std::unique_ptr<Ep> created, factory.create_ep(request));
      *ep = Ep::release_to_host(std::move(created));
      return Status();
    });
  };
  OrtEpFactory::ReleaseEp = [](OrtEpFactory*, OrtEp* ep) noexcept { (void)Ep::take_back(ep); };
  OrtEpFactory::CreateAllocator = [](OrtEpFactory* table, const OrtMemoryInfo* info, const OrtKeyValuePairs* options,
                                     OrtAllocator** allocator) noexcept -> OrtStatus* {
    auto& factory = *static_cast<EpFactory*>(table);
    return factory.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(allocator == nullptr, "The result pointer of CreateAllocator is null.");
      *allocator = nullptr;
      TENON_INVALID_IF(info == nullptr, "CreateAllocator gets no memory info.");
      TENON_TRY_ASSIGN(auto created, factory.create_allocator(info, factory.host_.read_pairs(options)));
      *allocator = Allocator::release_to_host(std::move(created));
      return Status();
    });
  };
  OrtEpFactory::ReleaseAllocator = [](OrtEpFactory*, OrtAllocator* allocator) noexcept {
    (void)Allocator::take_back(allocator);
  };
  OrtEpFactory::CreateDataTransfer = [](OrtEpFactory* table, OrtDataTransferImpl** out) noexcept -> OrtStatus* {
    auto& factory = *static_cast<EpFactory*>(table);
    return factory.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(out == nullptr, "The result pointer of CreateDataTransfer is null.");
      *out = nullptr;
      TENON_TRY_ASSIGN(auto created, factory.create_data_transfer());
      *out = DataTransfer::release_to_host(std::move(created));
      return Status();
    });
  };
  if (features.streams) {
    OrtEpFactory::IsStreamAware = [](const OrtEpFactory*) noexcept { return true; };
    OrtEpFactory::CreateSyncStreamForDevice = [](OrtEpFactory* table, const OrtMemoryDevice* device,
                                                 const OrtKeyValuePairs* options,
                                                 OrtSyncStreamImpl** out) noexcept -> OrtStatus* {
      auto& factory = *static_cast<EpFactory*>(table);
      return factory.host_.guarded([&]() -> Status {
        TENON_INVALID_IF(out == nullptr, "The result pointer of CreateSyncStreamForDevice is null.");
        *out = nullptr;
        TENON_INVALID_IF(device == nullptr, "CreateSyncStreamForDevice gets no memory device.");
        TENON_TRY_ASSIGN(auto created, factory.create_stream(device, factory.host_.read_pairs(options)));
        *out = SyncStream::release_to_host(std::move(created));
        return Status();
      });
    };
  } else {
    OrtEpFactory::IsStreamAware = [](const OrtEpFactory*) noexcept { return false; };
  }
  if (features.importer) {
    OrtEpFactory::CreateExternalResourceImporterForDevice =
        [](OrtEpFactory* table, const OrtEpDevice* device,
           OrtExternalResourceImporterImpl** out) noexcept -> OrtStatus* {
      auto& factory = *static_cast<EpFactory*>(table);
      return factory.host_.guarded([&]() -> Status {
        TENON_INVALID_IF(out == nullptr, "The result pointer of CreateExternalResourceImporterForDevice is null.");
        *out = nullptr;
        TENON_INVALID_IF(device == nullptr, "CreateExternalResourceImporterForDevice gets no device.");
        TENON_TRY_ASSIGN(auto created, factory.create_importer(device));
        *out = Importer::release_to_host(std::move(created));
        return Status();
      });
    };
  }
  if (features.compiled_model_validation) {
    OrtEpFactory::ValidateCompiledModelCompatibilityInfo =
        [](OrtEpFactory* table, const OrtHardwareDevice* const*, size_t, const char* info,
           OrtCompiledModelCompatibility* out) noexcept -> OrtStatus* {
      auto& factory = *static_cast<EpFactory*>(table);
      return factory.host_.guarded([&]() -> Status {
        TENON_INVALID_IF(out == nullptr, "The result pointer of ValidateCompiledModelCompatibilityInfo is null.");
        *out = OrtCompiledModelCompatibility_EP_NOT_APPLICABLE;
        TENON_INVALID_IF(info == nullptr, "The compatibility info is null.");
        TENON_TRY_ASSIGN(*out, factory.validate_compiled_model(info));
        return Status();
      });
    };
  }
  if (features.graphics_interop && host_.version() >= abi_since::kOrtEpFactory_InitGraphicsInterop)
    set_graphics_members();
}

void EpFactory::set_graphics_members() {
  OrtEpFactory::InitGraphicsInterop = [](OrtEpFactory* table, const OrtEpDevice* device,
                                         const OrtGraphicsInteropConfig* config) noexcept -> OrtStatus* {
    auto& factory = *static_cast<EpFactory*>(table);
    return factory.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(device == nullptr || config == nullptr,
                       "InitGraphicsInterop gets no device, or no configuration.");
      TENON_INVALID_IF(config->version < abi_since::kOrtEpFactory_InitGraphicsInterop,
                       "OrtGraphicsInteropConfig.version ({}) is unknown; the first is {}.", config->version,
                       abi_since::kOrtEpFactory_InitGraphicsInterop);
      int32_t api = 0;  // hosts pass on what the program says, also what is no graphics API
      std::memcpy(&api, &config->graphics_api, sizeof(api));
      TENON_INVALID_IF(api != ORT_GRAPHICS_API_D3D12 && api != ORT_GRAPHICS_API_VULKAN,
                       "OrtGraphicsInteropConfig.graphics_api ({}) names no graphics API.", api);
      return factory.init_graphics_interop(device, *config, factory.host_.read_pairs(config->additional_options));
    });
  };
  OrtEpFactory::DeinitGraphicsInterop = [](OrtEpFactory* table, const OrtEpDevice* device) noexcept -> OrtStatus* {
    auto& factory = *static_cast<EpFactory*>(table);
    return factory.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(device == nullptr, "DeinitGraphicsInterop gets no device.");
      return factory.deinit_graphics_interop(device);
    });
  };
}

OrtStatus* EpFactory::create_single(
    const OrtApiBase* base, OrtEpFactory** factories, size_t room, size_t* count,
    const std::function<Result<std::unique_ptr<EpFactory>>(const HostApi& host)>& make) noexcept {
  if (count != nullptr) *count = 0;
  Result<HostApi> host = HostApi::connect(base);
  if (!host.ok()) {
    // A host that is too old still has the first function of its oldest table.
    const OrtApi* oldest = base != nullptr && base->GetApi != nullptr ? base->GetApi(1) : nullptr;
    return oldest != nullptr ? oldest->CreateStatus(ORT_NOT_IMPLEMENTED, host.status().message().c_str()) : nullptr;
  }
  return host->guarded([&]() -> Status {
    TENON_INVALID_IF(factories == nullptr || count == nullptr, "The result pointers of CreateEpFactories are null.");
    TENON_INVALID_IF(room == 0, "The host has no room for a factory.");
    TENON_TRY_ASSIGN(std::unique_ptr<EpFactory> factory, make(*host));
    factories[0] = release_to_host(std::move(factory));
    *count = 1;
    return Status();
  });
}

OrtEpFactory* EpFactory::release_to_host(std::unique_ptr<EpFactory> factory) { return factory.release(); }

std::unique_ptr<EpFactory> EpFactory::take_back(OrtEpFactory* factory) {
  return std::unique_ptr<EpFactory>(static_cast<EpFactory*>(factory));
}

std::string EpFactory::option_prefix() const {
  std::string name = identity_.ep_name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return "ep." + name + ".";
}

Status EpFactory::get_supported_devices(std::span<const OrtHardwareDevice* const> devices, std::span<OrtEpDevice*> room,
                                        size_t* count) {
  TENON_TRY_ASSIGN(const std::vector<DeviceOffer> offers, offer_devices(devices));
  // The host owns what lies in `room` only when this succeeds.
  std::vector<HostPtr<OrtEpDevice>> created;
  for (const DeviceOffer& offer : offers) {
    if (created.size() == room.size()) break;
    const auto metadata = host_.make_pairs(offer.metadata);
    const auto options = host_.make_pairs(offer.options);
    OrtEpDevice* device = nullptr;
    TENON_ORT_EP_TRY(host_, CreateEpDevice, this, offer.hardware, metadata.get(), options.get(), &device);
    created.push_back(host_.own(device, host_.ep().ReleaseEpDevice));
    for (const OrtMemoryInfo* info : offer.allocators) TENON_ORT_EP_TRY(host_, EpDevice_AddAllocatorInfo, device, info);
  }
  for (size_t i = 0; i < created.size(); ++i) room[i] = created[i].release();
  *count = created.size();
  return Status();
}

Result<const OrtHardwareDevice*> EpFactory::make_hardware_device(OrtHardwareDeviceType type, uint32_t device_id,
                                                                 const TextPairs& metadata) {
  const auto pairs = host_.make_pairs(metadata);
  OrtHardwareDevice* device = nullptr;
  TENON_ORT_EP_TRY(host_, CreateHardwareDevice, type, identity_.vendor_id, device_id, identity_.vendor.c_str(),
                   pairs.get(), &device);
  own_devices_.push_back(host_.own(device, host_.ep().ReleaseHardwareDevice));
  return static_cast<const OrtHardwareDevice*>(device);
}

Result<std::unique_ptr<SyncStream>> EpFactory::create_stream(const OrtMemoryDevice*, const TextPairs&) {
  return unsupported("{} has no streams.", identity_.ep_name);
}

Result<std::unique_ptr<Importer>> EpFactory::create_importer(const OrtEpDevice*) { return std::unique_ptr<Importer>(); }

Result<OrtCompiledModelCompatibility> EpFactory::validate_compiled_model(std::string_view) {
  return OrtCompiledModelCompatibility_EP_NOT_APPLICABLE;
}

Status EpFactory::init_graphics_interop(const OrtEpDevice*, const OrtGraphicsInteropConfig&, const TextPairs&) {
  return unsupported("{} has no graphics interop.", identity_.ep_name);
}

Status EpFactory::deinit_graphics_interop(const OrtEpDevice*) {
  return unsupported("{} has no graphics interop.", identity_.ep_name);
}

}  // namespace tenon::plugin
