// Hardware devices and EP devices: made by plugins, read by programs.
#include <algorithm>
#include <set>
#include <utility>

#include "abi/objects/ep_device.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "base/guarded.h"
#include "ep/host/plugin_factory.h"

namespace tenon::abi {

namespace {

Guarded<std::set<const OrtEpDevice*>>& loose_devices() {
  static Guarded<std::set<const OrtEpDevice*>> devices;
  return devices;
}

template <typename T>
const T* pointer_to(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}

OrtStatus* no_capacity(const OrtEpDevice& device) {
  return ort_error(ORT_NOT_IMPLEMENTED, "The EP \"{}\" does not support device memory capacity queries.",
                   device.ep_name);
}

}  // namespace

bool take_ep_device(OrtEpDevice* device) { return loose_devices().lock()->erase(device) != 0; }

OrtHardwareDeviceType to_hardware_type(DeviceType type) noexcept {
  switch (type) {
    case DeviceType::kGpu:
      return OrtHardwareDeviceType_GPU;
    case DeviceType::kNpu:
      return OrtHardwareDeviceType_NPU;
    case DeviceType::kCpu:
      break;
  }
  return OrtHardwareDeviceType_CPU;
}

OrtHardwareDevice to_ort(const HardwareDevice& device) {
  OrtHardwareDevice made;
  made.type = to_hardware_type(device.type);
  made.vendor_id = device.vendor_id;
  made.device_id = device.device_id;
  made.vendor = device.vendor;
  for (const auto& [key, value] : device.metadata) made.metadata.set(key, value);
  return made;
}

HardwareDevice from_ort(const OrtHardwareDevice& device) {
  HardwareDevice made;
  made.type = device.type == OrtHardwareDeviceType_GPU   ? DeviceType::kGpu
              : device.type == OrtHardwareDeviceType_NPU ? DeviceType::kNpu
                                                         : DeviceType::kCpu;
  made.vendor_id = device.vendor_id;
  made.device_id = device.device_id;
  made.vendor = device.vendor;
  made.metadata.insert(device.metadata.entries().begin(), device.metadata.entries().end());
  return made;
}

EpDevice from_ort(const OrtEpDevice& device) {
  EpDevice made;
  made.ep_name = device.ep_name;
  made.ep_vendor = device.ep_vendor;
  if (device.hardware != nullptr) made.hardware = from_ort(*device.hardware);
  made.metadata.insert(device.ep_metadata.entries().begin(), device.ep_metadata.entries().end());
  made.options.insert(device.ep_options.entries().begin(), device.ep_options.entries().end());
  for (const auto* info : {&device.default_memory, &device.host_accessible_memory}) {
    if (info->has_value()) made.memory.push_back(to_memory_space(**info));
  }
  return made;
}

OrtHardwareDeviceType ort_api::HardwareDevice_Type(const OrtHardwareDevice* device) noexcept {
  return device != nullptr ? device->type : OrtHardwareDeviceType_CPU;
}
uint32_t ort_api::HardwareDevice_VendorId(const OrtHardwareDevice* device) noexcept {
  return device != nullptr ? device->vendor_id : 0;
}
const char* ort_api::HardwareDevice_Vendor(const OrtHardwareDevice* device) noexcept {
  return device != nullptr ? device->vendor.c_str() : "";
}
uint32_t ort_api::HardwareDevice_DeviceId(const OrtHardwareDevice* device) noexcept {
  return device != nullptr ? device->device_id : 0;
}
const OrtKeyValuePairs* ort_api::HardwareDevice_Metadata(const OrtHardwareDevice* device) noexcept {
  return device != nullptr ? &device->metadata : nullptr;
}

const char* ort_api::EpDevice_EpName(const OrtEpDevice* ep_device) noexcept {
  return ep_device != nullptr ? ep_device->ep_name.c_str() : "";
}
const char* ort_api::EpDevice_EpVendor(const OrtEpDevice* ep_device) noexcept {
  return ep_device != nullptr ? ep_device->ep_vendor.c_str() : "";
}
const OrtKeyValuePairs* ort_api::EpDevice_EpMetadata(const OrtEpDevice* ep_device) noexcept {
  return ep_device != nullptr ? &ep_device->ep_metadata : nullptr;
}
const OrtKeyValuePairs* ort_api::EpDevice_EpOptions(const OrtEpDevice* ep_device) noexcept {
  return ep_device != nullptr ? &ep_device->ep_options : nullptr;
}
const OrtHardwareDevice* ort_api::EpDevice_Device(const OrtEpDevice* ep_device) noexcept {
  return ep_device != nullptr ? ep_device->hardware : nullptr;
}
const OrtMemoryInfo* ort_api::EpDevice_MemoryInfo(const OrtEpDevice* ep_device,
                                                  OrtDeviceMemoryType memory_type) noexcept {
  if (ep_device == nullptr) return nullptr;
  return memory_type == OrtDeviceMemoryType_HOST_ACCESSIBLE ? pointer_to(ep_device->host_accessible_memory)
                                                            : pointer_to(ep_device->default_memory);
}

// The factory's own code and message go back as they are. It gets places of the host's, so that a failure leaves the
// caller's untouched.
OrtStatus* ort_api::EpDevice_GetMemoryCapacity(const OrtEpDevice* ep_device, OrtDeviceMemoryType memory_type,
                                               uint64_t* out_1, uint64_t* out_2) noexcept {
  if (OrtStatus* bad = check_pointers("EpDevice_GetMemoryCapacity", {{"ep_device", ep_device}})) return bad;
  if (out_1 == nullptr && out_2 == nullptr)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Both outputs of EpDevice_GetMemoryCapacity are null.");
  return guarded([&]() -> OrtStatus* {
    const std::shared_ptr<PluginFactory> factory = factory_of(*ep_device);
    if (factory == nullptr) return no_capacity(*ep_device);
    const auto get = TENON_MEMBER(factory->ort(), OrtEpFactory, GetDeviceMemoryCapacity);
    if (get.absent()) return no_capacity(*ep_device);
    uint64_t first = 0, second = 0;
    const Result<OrtStatus*> said =
        call_value(factory->who(), get, factory->ort(), ep_device, memory_type, out_1 != nullptr ? &first : nullptr,
                   out_2 != nullptr ? &second : nullptr);
    if (!said.ok()) return to_ort(said.status());
    if (*said != nullptr) {
      if (is_readable(*said, sizeof(OrtStatus))) return *said;
      return ort_error(ORT_EP_FAIL, "{}: {} gives a status at {}, which is no memory.", factory->who(), get.name,
                       static_cast<const void*>(*said));
    }
    if (out_1 != nullptr) *out_1 = first;
    if (out_2 != nullptr) *out_2 = second;
    return nullptr;
  });
}

OrtStatus* ep_api::CreateHardwareDevice(OrtHardwareDeviceType type, uint32_t vendor_id, uint32_t device_id,
                                        const char* vendor_name, const OrtKeyValuePairs* metadata,
                                        OrtHardwareDevice** hardware_device) noexcept {
  clear(hardware_device);
  if (OrtStatus* bad =
          check_pointers("CreateHardwareDevice", {{"vendor_name", vendor_name}, {"hardware_device", hardware_device}}))
    return bad;
  if (type < OrtHardwareDeviceType_CPU || type > OrtHardwareDeviceType_NPU)
    return ort_error(ORT_INVALID_ARGUMENT, "The hardware device type {} is not known.", static_cast<int>(type));
  return make_object(hardware_device, type, vendor_id, device_id, std::string(vendor_name),
                     metadata != nullptr ? *metadata : OrtKeyValuePairs());
}

void ep_api::ReleaseHardwareDevice(OrtHardwareDevice* input) noexcept { delete input; }

OrtStatus* ep_api::CreateEpDevice(OrtEpFactory* ep_factory, const OrtHardwareDevice* hardware_device,
                                  const OrtKeyValuePairs* ep_metadata, const OrtKeyValuePairs* ep_options,
                                  OrtEpDevice** ep_device) noexcept {
  clear(ep_device);
  if (OrtStatus* bad =
          check_pointers("CreateEpDevice",
                         {{"ep_factory", ep_factory}, {"hardware_device", hardware_device}, {"ep_device", ep_device}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    auto names = PluginFactory::read_names("CreateEpDevice", ep_factory);
    if (!names.ok()) return to_ort(names.status());
    auto device = std::make_unique<OrtEpDevice>();
    device->ep_name = std::move(names->name);
    device->ep_vendor = std::move(names->vendor);
    device->hardware = hardware_device;
    if (ep_metadata != nullptr) device->ep_metadata = *ep_metadata;
    if (ep_options != nullptr) device->ep_options = *ep_options;
    device->factory = ep_factory;
    loose_devices().lock()->insert(device.get());
    *ep_device = device.release();
    return nullptr;
  });
}

void ep_api::ReleaseEpDevice(OrtEpDevice* input) noexcept {
  // One that GetSupportedDevices has given away is the host's.
  if (input != nullptr && take_ep_device(input)) delete input;
}

OrtStatus* ep_api::EpDevice_AddAllocatorInfo(OrtEpDevice* ep_device,
                                             const OrtMemoryInfo* allocator_memory_info) noexcept {
  if (OrtStatus* bad = check_pointers("EpDevice_AddAllocatorInfo",
                                      {{"ep_device", ep_device}, {"allocator_memory_info", allocator_memory_info}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const OrtMemoryInfo& info = *allocator_memory_info;
    if (info.allocator_type == OrtReadOnlyAllocator) {
      ep_device->read_only_memory = info;
    } else if (info.device.memory_type == OrtDeviceMemoryType_HOST_ACCESSIBLE) {
      ep_device->host_accessible_memory = info;
    } else {
      ep_device->default_memory = info;
    }
    return nullptr;
  });
}

}  // namespace tenon::abi
