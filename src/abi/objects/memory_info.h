// OrtMemoryInfo and OrtMemoryDevice: memory spaces of the C ABI, converted from and to tenon::MemorySpace.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/types.h>

#include <string>

// A memory space of one device. Part of an OrtMemoryInfo; programs only borrow it.
struct OrtMemoryDevice {
  OrtMemoryInfoDeviceType type = OrtMemoryInfoDeviceType_CPU;
  OrtDeviceMemoryType memory_type = OrtDeviceMemoryType_DEFAULT;
  uint32_t vendor_id = 0;
  int32_t device_id = 0;
  size_t alignment = 0;

  friend bool operator==(const OrtMemoryDevice&, const OrtMemoryDevice&) = default;
};

struct OrtMemoryInfo {
  std::string name = "Cpu";
  OrtAllocatorType allocator_type = OrtDeviceAllocator;
  OrtMemType mem_type = OrtMemTypeDefault;
  OrtMemoryDevice device;
  // The host reads this DEFAULT memory too: the EP device's metadata says so (ep/api/unified_memory.h).
  bool unified = false;

  // As the C ABI knows it: without `unified`.
  friend bool operator==(const OrtMemoryInfo& a, const OrtMemoryInfo& b) {
    return a.name == b.name && a.allocator_type == b.allocator_type && a.mem_type == b.mem_type && a.device == b.device;
  }
};

namespace tenon::abi {

// FPGA devices, of which Tenon knows nothing, count as NPUs.
MemorySpace to_memory_space(const OrtMemoryInfo& info) noexcept;
// A plain CPU space is "Cpu" with a device allocator; others are named by their device type ("Gpu", "Npu").
OrtMemoryInfo to_memory_info(const MemorySpace& space);
// Whether memory of `offered` serves who asks for `wanted`: the same device and kind, at least as much aligned. An
// alignment of 0 asks for none.
bool serves(const OrtMemoryDevice& offered, const OrtMemoryDevice& wanted) noexcept;
// HOST_ACCESSIBLE memory, and all of the CPU device's: what the host may read.
bool host_reads(const OrtMemoryInfo& info) noexcept;

}  // namespace tenon::abi
