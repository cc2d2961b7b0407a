// Execution providers (EPs) beside the built-in CPU one: libraries that implement ONNX Runtime's EP ABI, and their
// devices.
//
//   tenon::Status status = tenon::register_ep_library("openvino", "libonnxruntime_providers_openvino_plugin.so");
//   tenon::SessionOptions options{.eps = {{.ep_name = "OpenVINOExecutionProvider"}}};
//
// Threads: every function from any thread; the registry is the process's.
// Errors: a library that cannot be loaded, lacks a member that the host must call, or fails is a status that names the
// library and the member; the process goes on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tenon/copy_ledger.h"
#include "tenon/tensor.h"
#include "tenon/types.h"

namespace tenon {

// A piece of hardware as the host found it, or as an EP made it itself (CreateHardwareDevice).
struct HardwareDevice {
  DeviceType type = DeviceType::kCpu;
  uint32_t vendor_id = 0;  // PCI vendor id (Intel's and AMD's for CPUs)
  std::string vendor;
  uint32_t device_id = 0;
  std::map<std::string, std::string> metadata;
};

// One device that one EP can use.
struct EpDevice {
  std::string ep_name;  // "CPUExecutionProvider"
  std::string ep_vendor;
  std::string ep_version;
  std::string library;  // the name it was registered under; empty for the built-in EP
  HardwareDevice hardware;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> options;  // the device's own defaults
  std::vector<MemorySpace> memory;             // of the allocators that it offers
};

// An EP that a session may use. Sessions take them in order of preference; the CPU EP is always the last.
struct EpChoice {
  std::string ep_name;
  std::map<std::string, std::string> options = {};
  // Which of the EP's devices, counted in the order of ep_devices(); empty: its first.
  std::vector<size_t> devices = {};
};

struct EpLibraryOptions {
  // Devices that the library's EPs are shown after those that the host found: an EP that asks for a certain vendor's
  // hardware, or for a GPU, is then free to try what is there (a CPU of another vendor, Vulkan on the CPU).
  std::vector<HardwareDevice> offer = {};
};

// Loads the library at `path` and registers its EPs. A name is registered once; it names the library from then on. A
// relative path is looked up beside libtenon, then in the working folder.
TENON_API Status register_ep_library(const std::string& name, const std::string& path,
                                     const EpLibraryOptions& options = {});
// The library is unloaded when the last session that uses it is gone. kNotFound for a name that is not registered.
TENON_API Status unregister_ep_library(const std::string& name);
// The built-in CPU EP's device first, whose hardware is this machine's CPU, then the libraries' in the order of their
// registration.
TENON_API std::vector<EpDevice> ep_devices();

// Copies a tensor to one of another memory space, by the host or by a registered EP's data transfer; done on return.
// Recorded in `ledger` (may be null) as kCallerAsked. Errors: those of other types or sizes; kUnsupported when nobody
// can.
TENON_API Status copy(const Tensor& dst, const Tensor& src, CopyLedger* ledger = nullptr);

}  // namespace tenon
