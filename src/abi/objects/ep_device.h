// OrtHardwareDevice and OrtEpDevice: hardware that the host found, and what an EP factory can use of it.
//
// Ownership: the plugin host owns the hardware devices that it found or was offered, and the OrtEpDevices that a
// factory's GetSupportedDevices gave; a plugin owns what it made with CreateHardwareDevice. Programs only borrow.
// Threads: immutable once GetSupportedDevices has returned.
#pragma once

#include <tenon/ep.h>
#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <optional>
#include <string>

#include "abi/objects/key_value_pairs.h"
#include "abi/objects/memory_info.h"

struct OrtHardwareDevice {
  OrtHardwareDeviceType type = OrtHardwareDeviceType_CPU;
  uint32_t vendor_id = 0;
  uint32_t device_id = 0;
  std::string vendor;
  OrtKeyValuePairs metadata;
};

namespace tenon::abi {
class DeviceUse;
class PluginLibrary;
}  // namespace tenon::abi

struct OrtEpDevice {
  std::string ep_name;
  std::string ep_vendor;
  const OrtHardwareDevice* hardware = nullptr;
  OrtKeyValuePairs ep_metadata;
  OrtKeyValuePairs ep_options;
  // One of each kind at most; the later one replaces the earlier.
  std::optional<OrtMemoryInfo> default_memory;
  std::optional<OrtMemoryInfo> host_accessible_memory;
  std::optional<OrtMemoryInfo> read_only_memory;  // OrtReadOnlyAllocator: for initializers
  // Null for the built-in CPU EP.
  OrtEpFactory* factory = nullptr;
  // Calls on `factory` need the library: lock it and keep it as long as what the factory made. Empty for the CPU EP.
  std::weak_ptr<tenon::abi::PluginLibrary> library;
  // Shared by the devices of a factory that have their memory in common. Null for the CPU EP.
  std::shared_ptr<tenon::abi::DeviceUse> use;
};

namespace tenon::abi {

OrtHardwareDeviceType to_hardware_type(DeviceType type) noexcept;
OrtHardwareDevice to_ort(const HardwareDevice& device);
HardwareDevice from_ort(const OrtHardwareDevice& device);
// `library` and the version stay empty: the factory knows them.
EpDevice from_ort(const OrtEpDevice& device);

}  // namespace tenon::abi
