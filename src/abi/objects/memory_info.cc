#include "abi/objects/memory_info.h"

#include <algorithm>
#include <limits>

#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {

namespace {

// The names that CreateMemoryInfo knows, and the devices that they stand for.
struct KnownName {
  const char* name;
  const char* shown;  // what MemoryInfoGetName says
  OrtMemoryInfoDeviceType type;
  OrtDeviceMemoryType memory_type;
  uint32_t vendor_id;
};
constexpr KnownName kKnownNames[] = {
    {"Cuda", "Cuda", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0x10de},
    {"CudaPinned", "CudaPinned", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_HOST_ACCESSIBLE, 0x10de},
    {"DML", "DML", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0x1414},
    {"Hip", "Hip", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0x1002},
    {"HipPinned", "HipPinned", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_HOST_ACCESSIBLE, 0x1002},
    {"OpenVINO_GPU", "OpenVINO_GPU", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0x8086},
    {"OpenVINO_RT_NPU", "OpenVINO_RT_NPU", OrtMemoryInfoDeviceType_NPU, OrtDeviceMemoryType_DEFAULT, 0x8086},
    {"QnnHtpShared", "QnnHtpShared", OrtMemoryInfoDeviceType_CPU, OrtDeviceMemoryType_HOST_ACCESSIBLE, 0x5143},
    {"WebGPU_Buffer", "WebGPU_Buf", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0},
    {"WebGPU_Buf", "WebGPU_Buf", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0},
    {"WebNN_Tensor", "WebNN_Ten", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0},
    {"WebNN_Ten", "WebNN_Ten", OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_DEFAULT, 0},
};

DeviceType to_device_type(OrtMemoryInfoDeviceType type) {
  switch (type) {
    case OrtMemoryInfoDeviceType_CPU:
      return DeviceType::kCpu;
    case OrtMemoryInfoDeviceType_GPU:
      return DeviceType::kGpu;
    case OrtMemoryInfoDeviceType_FPGA:
    case OrtMemoryInfoDeviceType_NPU:
      return DeviceType::kNpu;
  }
  return DeviceType::kNpu;
}

}  // namespace

MemorySpace to_memory_space(const OrtMemoryInfo& info) noexcept {
  const OrtMemoryDevice& device = info.device;
  const size_t alignment = std::min<size_t>(device.alignment, std::numeric_limits<uint32_t>::max());
  return {
      .device_type = to_device_type(device.type),
      .kind = device.memory_type == OrtDeviceMemoryType_DEFAULT ? MemoryKind::kDefault : MemoryKind::kHostAccessible,
      .vendor_id = device.vendor_id,
      .device_id = device.device_id,
      .alignment = static_cast<uint32_t>(alignment),
      .unified = info.unified};
}

OrtMemoryInfo to_memory_info(const MemorySpace& space) {
  OrtMemoryInfo info;
  const bool host_accessible = space.kind == MemoryKind::kHostAccessible;
  switch (space.device_type) {
    case DeviceType::kCpu:
      break;
    case DeviceType::kGpu:
      info.name = "Gpu";
      info.device.type = OrtMemoryInfoDeviceType_GPU;
      break;
    case DeviceType::kNpu:
      info.name = "Npu";
      info.device.type = OrtMemoryInfoDeviceType_NPU;
      break;
  }
  info.mem_type = host_accessible ? OrtMemTypeCPU : OrtMemTypeDefault;
  info.device.memory_type = host_accessible ? OrtDeviceMemoryType_HOST_ACCESSIBLE : OrtDeviceMemoryType_DEFAULT;
  info.device.vendor_id = space.vendor_id;
  info.device.device_id = space.device_id;
  info.unified = space.unified;
  return info;
}

bool serves(const OrtMemoryDevice& offered, const OrtMemoryDevice& wanted) noexcept {
  return offered.type == wanted.type && offered.memory_type == wanted.memory_type &&
         offered.vendor_id == wanted.vendor_id && offered.device_id == wanted.device_id &&
         offered.alignment >= wanted.alignment;
}

bool host_reads(const OrtMemoryInfo& info) noexcept {
  return info.device.type == OrtMemoryInfoDeviceType_CPU ||
         info.device.memory_type == OrtDeviceMemoryType_HOST_ACCESSIBLE || info.unified;
}

OrtStatus* ort_api::CreateCpuMemoryInfo(enum OrtAllocatorType type, enum OrtMemType mem_type,
                                        OrtMemoryInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateCpuMemoryInfo", {{"out", out}})) return bad;
  return make_object(out, OrtMemoryInfo{.name = "Cpu", .allocator_type = type, .mem_type = mem_type, .device = {}});
}

OrtStatus* ort_api::CreateMemoryInfo(const char* name, enum OrtAllocatorType type, int id, enum OrtMemType mem_type,
                                     OrtMemoryInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateMemoryInfo", {{"name", name}, {"out", out}})) return bad;
  // The CPU is one device, whatever id a program gives it.
  if (std::string_view(name) == "Cpu") return CreateCpuMemoryInfo(type, mem_type, out);
  for (const KnownName& known : kKnownNames) {
    if (std::string_view(name) != known.name) continue;
    const OrtMemoryDevice device{known.type, known.memory_type, known.vendor_id, id, 0};
    return make_object(
        out, OrtMemoryInfo{.name = known.shown, .allocator_type = type, .mem_type = mem_type, .device = device});
  }
  return make_ort_status(ORT_INVALID_ARGUMENT, "Specified device is not supported. Try CreateMemoryInfo_V2.");
}

OrtStatus* ort_api::CreateMemoryInfo_V2(const char* name, enum OrtMemoryInfoDeviceType device_type, uint32_t vendor_id,
                                        int32_t device_id, enum OrtDeviceMemoryType mem_type, size_t alignment,
                                        enum OrtAllocatorType allocator_type, OrtMemoryInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateMemoryInfo_V2", {{"name", name}, {"out", out}})) return bad;
  if (device_type < OrtMemoryInfoDeviceType_CPU || device_type > OrtMemoryInfoDeviceType_NPU)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Invalid device type specified.");
  if (mem_type != OrtDeviceMemoryType_DEFAULT && mem_type != OrtDeviceMemoryType_HOST_ACCESSIBLE)
    return ort_error(ORT_INVALID_ARGUMENT, "Memory type {} is neither DEFAULT (0) nor HOST_ACCESSIBLE (5).",
                     static_cast<int>(mem_type));
  return make_object(
      out, OrtMemoryInfo{.name = name,
                         .allocator_type = allocator_type,
                         .mem_type = mem_type == OrtDeviceMemoryType_DEFAULT ? OrtMemTypeDefault : OrtMemTypeCPU,
                         .device = {device_type, mem_type, vendor_id, device_id, alignment}});
}

OrtStatus* ort_api::CompareMemoryInfo(const OrtMemoryInfo* info1, const OrtMemoryInfo* info2, int* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CompareMemoryInfo", {{"info1", info1}, {"info2", info2}, {"out", out}}))
    return bad;
  *out = *info1 == *info2 ? 0 : -1;
  return nullptr;
}

OrtStatus* ort_api::MemoryInfoGetName(const OrtMemoryInfo* ptr, const char** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("MemoryInfoGetName", {{"ptr", ptr}, {"out", out}})) return bad;
  *out = ptr->name.c_str();
  return nullptr;
}

OrtStatus* ort_api::MemoryInfoGetId(const OrtMemoryInfo* ptr, int* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("MemoryInfoGetId", {{"ptr", ptr}, {"out", out}})) return bad;
  *out = ptr->device.device_id;
  return nullptr;
}

OrtStatus* ort_api::MemoryInfoGetMemType(const OrtMemoryInfo* ptr, OrtMemType* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("MemoryInfoGetMemType", {{"ptr", ptr}, {"out", out}})) return bad;
  *out = ptr->mem_type;
  return nullptr;
}

OrtStatus* ort_api::MemoryInfoGetType(const OrtMemoryInfo* ptr, OrtAllocatorType* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("MemoryInfoGetType", {{"ptr", ptr}, {"out", out}})) return bad;
  *out = ptr->allocator_type;
  return nullptr;
}

void ort_api::MemoryInfoGetDeviceType(const OrtMemoryInfo* ptr, OrtMemoryInfoDeviceType* out) noexcept {
  clear(out);
  if (ptr != nullptr && out != nullptr) *out = ptr->device.type;
}

OrtDeviceMemoryType ort_api::MemoryInfoGetDeviceMemType(const OrtMemoryInfo* ptr) noexcept {
  return ptr != nullptr ? ptr->device.memory_type : OrtDeviceMemoryType_DEFAULT;
}

uint32_t ort_api::MemoryInfoGetVendorId(const OrtMemoryInfo* ptr) noexcept {
  return ptr != nullptr ? ptr->device.vendor_id : 0;
}

void ort_api::ReleaseMemoryInfo(OrtMemoryInfo* input) noexcept { delete input; }

const OrtMemoryDevice* ep_api::MemoryInfo_GetMemoryDevice(const OrtMemoryInfo* memory_info) noexcept {
  return memory_info != nullptr ? &memory_info->device : nullptr;
}

bool ep_api::MemoryDevice_AreEqual(const OrtMemoryDevice* a, const OrtMemoryDevice* b) noexcept {
  return a != nullptr && b != nullptr && *a == *b;
}

OrtMemoryInfoDeviceType ep_api::MemoryDevice_GetDeviceType(const OrtMemoryDevice* memory_device) noexcept {
  return memory_device != nullptr ? memory_device->type : OrtMemoryInfoDeviceType_CPU;
}

OrtDeviceMemoryType ep_api::MemoryDevice_GetMemoryType(const OrtMemoryDevice* memory_device) noexcept {
  return memory_device != nullptr ? memory_device->memory_type : OrtDeviceMemoryType_DEFAULT;
}

uint32_t ep_api::MemoryDevice_GetVendorId(const OrtMemoryDevice* memory_device) noexcept {
  return memory_device != nullptr ? memory_device->vendor_id : 0;
}

uint32_t ep_api::MemoryDevice_GetDeviceId(const OrtMemoryDevice* memory_device) noexcept {
  return memory_device != nullptr ? static_cast<uint32_t>(memory_device->device_id) : 0;
}

}  // namespace tenon::abi
