#include "ep/sdk/plugin_memory.h"

#include "ep/sdk/plugin_stream.h"

namespace tenon::plugin {

Allocator::Allocator(const HostApi& host, const OrtMemoryInfo* info) : OrtAllocator{}, host_(host), info_(info) {
  version = host.version();
  OrtAllocator::Alloc = [](OrtAllocator* table, size_t size) noexcept -> void* {
    try {
      return static_cast<Allocator*>(table)->allocate(size);
    } catch (...) {
      return nullptr;
    }
  };
  OrtAllocator::Free = [](OrtAllocator* table, void* memory) noexcept {
    if (memory != nullptr) static_cast<Allocator*>(table)->free(memory);
  };
  OrtAllocator::Info = [](const OrtAllocator* table) noexcept -> const OrtMemoryInfo* {
    return static_cast<const Allocator*>(table)->info_;
  };
  OrtAllocator::Reserve = [](OrtAllocator* table, size_t size) noexcept -> void* {
    try {
      return static_cast<Allocator*>(table)->reserve(size);
    } catch (...) {
      return nullptr;
    }
  };
  OrtAllocator::AllocOnStream = [](OrtAllocator* table, size_t size, OrtSyncStream* stream) noexcept -> void* {
    try {
      auto& allocator = *static_cast<Allocator*>(table);
      // The order on another library's stream is not known here; the memory is then usable by everyone at once.
      return allocator.allocate_on(size, SyncStream::from(allocator.host_, stream) != nullptr ? stream : nullptr);
    } catch (...) {
      return nullptr;
    }
  };
  OrtAllocator::GetStats = [](const OrtAllocator* table, OrtKeyValuePairs** out) noexcept -> OrtStatus* {
    const auto& allocator = *static_cast<const Allocator*>(table);
    return allocator.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(out == nullptr, "The result pointer of GetStats is null.");
      *out = allocator.host_.make_pairs(allocator.stats()).release();
      return Status();
    });
  };
}

OrtAllocator* Allocator::release_to_host(std::unique_ptr<Allocator> allocator) { return allocator.release(); }

std::unique_ptr<Allocator> Allocator::take_back(OrtAllocator* allocator) {
  return std::unique_ptr<Allocator>(static_cast<Allocator*>(allocator));
}

MemorySpace memory_space(OrtMemoryInfoDeviceType device_type, OrtDeviceMemoryType memory_type, uint32_t vendor_id,
                         uint32_t device_id) {
  MemorySpace space;
  switch (device_type) {
    case OrtMemoryInfoDeviceType_CPU:
      space.device_type = DeviceType::kCpu;
      break;
    case OrtMemoryInfoDeviceType_NPU:
      space.device_type = DeviceType::kNpu;
      break;
    default:
      space.device_type = DeviceType::kGpu;
  }
  space.kind = memory_type == OrtDeviceMemoryType_HOST_ACCESSIBLE ? MemoryKind::kHostAccessible : MemoryKind::kDefault;
  space.vendor_id = vendor_id;
  space.device_id = static_cast<int32_t>(device_id);
  return space;
}

MemorySpace memory_space(const HostApi& host, const OrtMemoryDevice* device) {
  const OrtEpApi& ep = host.ep();
  return memory_space(ep.MemoryDevice_GetDeviceType(device), ep.MemoryDevice_GetMemoryType(device),
                      ep.MemoryDevice_GetVendorId(device), ep.MemoryDevice_GetDeviceId(device));
}

DataTransfer::DataTransfer(const HostApi& host) : OrtDataTransferImpl{}, host_(host) {
  ort_version_supported = host.version();
  OrtDataTransferImpl::Release = [](OrtDataTransferImpl* table) noexcept { delete static_cast<DataTransfer*>(table); };
  OrtDataTransferImpl::CanCopy = [](const OrtDataTransferImpl* table, const OrtMemoryDevice* src,
                                    const OrtMemoryDevice* dst) noexcept -> bool {
    const auto& transfer = *static_cast<const DataTransfer*>(table);
    if (src == nullptr || dst == nullptr) return false;
    return transfer.can_copy(memory_space(transfer.host_, src), memory_space(transfer.host_, dst));
  };
  OrtDataTransferImpl::CopyTensors = [](OrtDataTransferImpl* table, const OrtValue** src, OrtValue** dst,
                                        OrtSyncStream** streams, size_t count) noexcept -> OrtStatus* {
    auto& transfer = *static_cast<DataTransfer*>(table);
    return transfer.host_.guarded([&] { return transfer.copy_tensors(src, dst, streams, count); });
  };
}

OrtDataTransferImpl* DataTransfer::release_to_host(std::unique_ptr<DataTransfer> transfer) {
  return transfer.release();
}

Status DataTransfer::copy_tensors(const OrtValue** src, OrtValue** dst, OrtSyncStream** streams, size_t count) {
  TENON_INVALID_IF(count != 0 && (src == nullptr || dst == nullptr), "The list of tensors to copy is null.");
  for (size_t i = 0; streams != nullptr && i < count; ++i)
    TENON_TRY(SyncStream::check_own(host_, streams[i], "the data transfer"));
  for (size_t i = 0; i < count; ++i) {
    TENON_INVALID_IF(src[i] == nullptr || dst[i] == nullptr, "Tensor {} of {} to copy is null.", i, count);
    size_t src_bytes = 0, dst_bytes = 0;
    TENON_ORT_TRY(host_, GetTensorSizeInBytes, src[i], &src_bytes);
    TENON_ORT_TRY(host_, GetTensorSizeInBytes, dst[i], &dst_bytes);
    TENON_INVALID_IF(src_bytes != dst_bytes, "Tensor {} to copy has {} bytes, and its destination has {}.", i,
                     src_bytes, dst_bytes);
    if (src_bytes == 0) continue;
    const void* src_data = nullptr;
    void* dst_data = nullptr;
    TENON_ORT_TRY(host_, GetTensorData, src[i], &src_data);
    TENON_ORT_TRY(host_, GetTensorMutableData, dst[i], &dst_data);
    if (src_data == nullptr || dst_data == nullptr)
      return resource_exhausted("There is no memory for the {} of a copy of {} bytes (tensor {} of {}).",
                                dst_data == nullptr ? "destination" : "source", dst_bytes, i, count);
    const OrtMemoryDevice* src_device = host_.ep().Value_GetMemoryDevice(src[i]);
    const OrtMemoryDevice* dst_device = host_.ep().Value_GetMemoryDevice(dst[i]);
    TENON_INVALID_IF(src_device == nullptr || dst_device == nullptr, "Tensor {} to copy tells no memory device.", i);
    TENON_TRY_CONTEXT(copy(src_data, memory_space(host_, src_device), dst_data, memory_space(host_, dst_device),
                           src_bytes, streams != nullptr ? streams[i] : nullptr),
                      "while copying tensor {} of {}", i, count);
  }
  return Status();
}

}  // namespace tenon::plugin
