// The faulty EP library's own device, and its importer. It aborts when it is given an object of another library, which
// a host must prevent.
#include <tenon/external_handles.h>

#include <memory>

#include "bad_plugin.h"

namespace bad {

namespace {

// The simulated EP's device 0, so that two libraries serve one device.
constexpr uint32_t kVendor = 0x544E;
constexpr size_t kAlignment = 64;

OrtHardwareDevice* g_hardware = nullptr;
OrtMemoryInfo* g_memory = nullptr;

// The lies "null WHAT" (null, with success) and "bad WHAT" (no memory) for an object that a function gives.
template <typename T>
bool gives_other(const char* what, T** out) {
  *out = nullptr;
  if (lie((std::string("null ") + what).c_str())) return true;
  if (!lie((std::string("bad ") + what).c_str())) return false;
  *out = reinterpret_cast<T*>(uintptr_t{16});
  return true;
}

struct Notification : OrtSyncNotificationImpl {};
struct Stream : OrtSyncStreamImpl {};

void ORT_API_CALL release_stream(OrtSyncStreamImpl* self) {
  called("Stream.Release");
  delete static_cast<Stream*>(self);
}

void need_own(const OrtSyncStream* stream) {
  if (stream == nullptr) return;
  const OrtSyncStreamImpl* impl = g_ep_api->SyncStream_GetImpl(stream);
  if (impl == nullptr || impl->Release != &release_stream) std::abort();
}

OrtStatus* ORT_API_CALL create_notification(OrtSyncStreamImpl*, OrtSyncNotificationImpl** out) {
  called("CreateNotification");
  if (OrtStatus* bad = outcome("CreateNotification")) return bad;
  if (gives_other("notification", out)) return nullptr;
  auto* made = new Notification();
  made->ort_version_supported = version_of("notification");
  made->OrtSyncNotificationImpl::Release = member(
      "Notification.Release", +[](OrtSyncNotificationImpl* self) {
        called("Notification.Release");
        delete static_cast<Notification*>(self);
      });
  made->Activate = member(
      "Activate", +[](OrtSyncNotificationImpl*) {
        called("Activate");
        return outcome("Activate");
      });
  made->WaitOnDevice = member(
      "WaitOnDevice", +[](OrtSyncNotificationImpl*, OrtSyncStream* consumer) {
        called("WaitOnDevice");
        need_own(consumer);
        return outcome("WaitOnDevice");
      });
  made->WaitOnHost = member(
      "WaitOnHost", +[](OrtSyncNotificationImpl*) {
        called("WaitOnHost");
        return outcome("WaitOnHost");
      });
  *out = made;
  return nullptr;
}

OrtStatus* ORT_API_CALL create_stream(OrtEpFactory*, const OrtMemoryDevice* device, const OrtKeyValuePairs*,
                                      OrtSyncStreamImpl** out) {
  called("CreateSyncStreamForDevice");
  if (device == nullptr) std::abort();
  if (OrtStatus* bad = outcome("CreateSyncStreamForDevice")) return bad;
  if (gives_other("stream", out)) return nullptr;
  auto* made = new Stream();
  made->ort_version_supported = version_of("stream");
  made->OrtSyncStreamImpl::Release = member("Stream.Release", &release_stream);
  made->GetHandle = member(
      "GetHandle", +[](OrtSyncStreamImpl* self) -> void* {
        called("GetHandle");
        return self;
      });
  made->CreateNotification = member("CreateNotification", &create_notification);
  made->Flush = member(
      "Flush", +[](OrtSyncStreamImpl*) {
        called("Flush");
        return outcome("Flush");
      });
  made->OnSessionRunEnd = member(
      "OnSessionRunEnd", +[](OrtSyncStreamImpl*) {
        called("OnSessionRunEnd");
        return outcome("OnSessionRunEnd");
      });
  *out = made;
  return nullptr;
}

struct Allocator : OrtAllocator {};

OrtStatus* ORT_API_CALL create_allocator(OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                                         OrtAllocator** out) {
  called("CreateAllocator");
  if (OrtStatus* bad = outcome("CreateAllocator")) return bad;
  if (gives_other("allocator", out)) return nullptr;
  auto* made = new Allocator();
  made->version = version_of("allocator");
  made->Alloc = member(
      "Alloc", +[](OrtAllocator*, size_t size) -> void* {
        called("Alloc");
        return lie("no memory") ? nullptr : std::aligned_alloc(kAlignment, (size / kAlignment + 1) * kAlignment);
      });
  made->Free = member(
      "Free", +[](OrtAllocator*, void* block) {
        called("Free");
        std::free(block);
      });
  made->Info = member(
      "Info", +[](const OrtAllocator*) -> const OrtMemoryInfo* { return lie("null info") ? nullptr : g_memory; });
  made->AllocOnStream = member(
      "AllocOnStream", +[](OrtAllocator* self, size_t size, OrtSyncStream* stream) -> void* {
        called("AllocOnStream");
        need_own(stream);
        return self->Alloc(self, size);
      });
  *out = made;
  return nullptr;
}

struct Transfer : OrtDataTransferImpl {};

bool is_ours(const OrtMemoryDevice* device) {
  return g_ep_api->MemoryDevice_GetVendorId(device) == kVendor && g_ep_api->MemoryDevice_GetDeviceId(device) == 0;
}

struct Memory : OrtExternalMemoryHandle {
  void* address = nullptr;
};
struct Semaphore : OrtExternalSemaphoreHandle {};
struct Importer : OrtExternalResourceImporterImpl {
  const OrtEpDevice* device = nullptr;
};

void ORT_API_CALL release_memory(OrtExternalMemoryHandle* handle) {
  called("Memory.Release");
  delete static_cast<Memory*>(handle);
}
void ORT_API_CALL release_semaphore(OrtExternalSemaphoreHandle* handle) {
  called("Semaphore.Release");
  delete static_cast<Semaphore*>(handle);
}

// Any kind, of which only the pointer is read.
OrtStatus* ORT_API_CALL import_memory(OrtExternalResourceImporterImpl* self, const OrtExternalMemoryDescriptor* from,
                                      OrtExternalMemoryHandle** out) {
  called("ImportMemory");
  if (OrtStatus* bad = outcome("ImportMemory")) return bad;
  if (gives_other("memory", out)) return nullptr;
  auto* made = new Memory();
  made->version = version_of("memory");
  made->ep_device = static_cast<Importer*>(self)->device;
  made->descriptor = *from;
  made->Release = member("Memory.Release", &release_memory);
  const auto* info = static_cast<const TenonExternalMemoryInfo*>(from->native_handle);
  made->address = static_cast<char*>(info->handle.pointer) + from->offset_bytes;
  *out = made;
  return nullptr;
}

OrtStatus* ORT_API_CALL create_tensor(OrtExternalResourceImporterImpl*, const OrtExternalMemoryHandle* handle,
                                      const OrtExternalTensorDescriptor* wanted, OrtValue** out) {
  called("CreateTensorFromMemory");
  if (OrtStatus* bad = outcome("CreateTensorFromMemory")) return bad;
  if (gives_other("tensor", out)) return nullptr;
  if (lie("tensor of nobody")) {
    static char zeros[4096];
    *out = reinterpret_cast<OrtValue*>(zeros);
    return nullptr;
  }
  const auto& memory = *static_cast<const Memory*>(handle);
  auto* address = static_cast<char*>(memory.address) + wanted->offset_bytes;
  int64_t dims[8] = {};
  size_t rank = wanted->rank, count = 1;
  for (size_t i = 0; i < rank && i < 8; ++i) dims[i] = wanted->shape[i];
  if (lie("tensor of half the size")) dims[0] /= 2;
  if (lie("tensor of another rank")) dims[rank++] = 1;
  for (size_t i = 0; i < rank; ++i) count *= static_cast<size_t>(dims[i]);
  const auto type = lie("tensor of another type") ? ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 : wanted->element_type;
  if (lie("tensor of strings")) {
    OrtAllocator* allocator = nullptr;
    if (OrtStatus* bad = g_api->GetAllocatorWithDefaultOptions(&allocator)) return bad;
    return g_api->CreateTensorAsOrtValue(allocator, dims, rank, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, out);
  }
  if (lie("tensor of another device")) {
    OrtMemoryInfo* other = nullptr;
    if (OrtStatus* bad =
            g_api->CreateMemoryInfo_V2("Other", OrtMemoryInfoDeviceType_GPU, kVendor, 7, OrtDeviceMemoryType_DEFAULT,
                                       kAlignment, OrtDeviceAllocator, &other))
      return bad;
    OrtStatus* made = g_api->CreateTensorWithDataAsOrtValue(other, address, count * 4, dims, rank, type, out);
    g_api->ReleaseMemoryInfo(other);
    return made;
  }
  return g_api->CreateTensorWithDataAsOrtValue(g_memory, address, count * 4, dims, rank, type, out);
}

OrtStatus* ORT_API_CALL import_semaphore(OrtExternalResourceImporterImpl* self,
                                         const OrtExternalSemaphoreDescriptor* from, OrtExternalSemaphoreHandle** out) {
  called("ImportSemaphore");
  if (OrtStatus* bad = outcome("ImportSemaphore")) return bad;
  if (gives_other("semaphore", out)) return nullptr;
  auto* made = new Semaphore();
  made->version = version_of("semaphore");
  made->ep_device = static_cast<Importer*>(self)->device;
  made->descriptor = *from;
  made->Release = member("Semaphore.Release", &release_semaphore);
  *out = made;
  return nullptr;
}

OrtStatus* ORT_API_CALL create_importer(OrtEpFactory*, const OrtEpDevice* device,
                                        OrtExternalResourceImporterImpl** out) {
  called("CreateImporter");
  if (device == nullptr) std::abort();
  if (OrtStatus* bad = outcome("CreateImporter")) return bad;
  if (gives_other("importer", out)) return nullptr;
  using Table = OrtExternalResourceImporterImpl;
  auto* made = new Importer();
  made->device = device;
  made->ort_version_supported = version_of("importer");
  made->Table::CanImportMemory = member(
      "CanImportMemory", +[](const Table*, OrtExternalMemoryHandleType) {
        called("CanImportMemory");
        return !lie("imports no memory");
      });
  made->Table::ImportMemory = member("ImportMemory", &import_memory);
  made->Table::ReleaseMemory = member(
      "ReleaseMemory", +[](Table*, OrtExternalMemoryHandle* handle) {
        called("ReleaseMemory");
        delete static_cast<Memory*>(handle);
      });
  made->Table::CreateTensorFromMemory = member("CreateTensorFromMemory", &create_tensor);
  made->Table::CanImportSemaphore = member(
      "CanImportSemaphore", +[](const Table*, OrtExternalSemaphoreType) {
        called("CanImportSemaphore");
        return true;
      });
  made->Table::ImportSemaphore = member("ImportSemaphore", &import_semaphore);
  made->Table::ReleaseSemaphore = member(
      "ReleaseSemaphore", +[](Table*, OrtExternalSemaphoreHandle* handle) {
        called("ReleaseSemaphore");
        delete static_cast<Semaphore*>(handle);
      });
  made->Table::WaitSemaphore = member(
      "WaitSemaphore", +[](Table*, OrtExternalSemaphoreHandle*, OrtSyncStream* stream, uint64_t) {
        called("WaitSemaphore");
        need_own(stream);
        return outcome("WaitSemaphore");
      });
  made->Table::SignalSemaphore = member(
      "SignalSemaphore", +[](Table*, OrtExternalSemaphoreHandle*, OrtSyncStream* stream, uint64_t) {
        called("SignalSemaphore");
        need_own(stream);
        return outcome("SignalSemaphore");
      });
  made->Table::Release = member(
      "Importer.Release", +[](Table* self) {
        called("Importer.Release");
        delete static_cast<Importer*>(self);
      });
  *out = made;
  return nullptr;
}

}  // namespace

bool has_device() { return std::getenv("TENON_BAD_PLUGIN_DEVICE") != nullptr; }

OrtStatus* make_device(OrtEpFactory* factory, OrtEpDevice** made) {
  OrtKeyValuePairs* metadata = nullptr;
  g_api->CreateKeyValuePairs(&metadata);
  if (const char* unified = std::getenv("TENON_BAD_PLUGIN_UNIFIED"))
    g_api->AddKeyValuePair(metadata, "tenon.unified_memory", unified);
  if (const char* fences = std::getenv("TENON_BAD_PLUGIN_RUN_FENCES"))
    g_api->AddKeyValuePair(metadata, "tenon.run_fences", fences);
  OrtStatus* bad =
      g_ep_api->CreateHardwareDevice(OrtHardwareDeviceType_GPU, kVendor, 0, "Tenon's tests", metadata, &g_hardware);
  if (bad == nullptr)
    bad = g_api->CreateMemoryInfo_V2("BadMemory", OrtMemoryInfoDeviceType_GPU, kVendor, 0, OrtDeviceMemoryType_DEFAULT,
                                     kAlignment, OrtDeviceAllocator, &g_memory);
  if (bad == nullptr) bad = g_ep_api->CreateEpDevice(factory, g_hardware, metadata, nullptr, made);
  if (bad == nullptr) bad = g_ep_api->EpDevice_AddAllocatorInfo(*made, g_memory);
  g_api->ReleaseKeyValuePairs(metadata);
  return bad;
}

void set_device_members(OrtEpFactory& factory) {
  factory.CreateAllocator = member("CreateAllocator", &create_allocator);
  factory.ReleaseAllocator = member(
      "ReleaseAllocator", +[](OrtEpFactory*, OrtAllocator* allocator) {
        called("ReleaseAllocator");
        if (!lie("bad allocator")) delete static_cast<Allocator*>(allocator);
      });
  factory.CreateDataTransfer = +[](OrtEpFactory*, OrtDataTransferImpl** out) -> OrtStatus* {
    called("CreateDataTransfer");
    auto* made = new Transfer();
    made->ort_version_supported = version_of("transfer");
    made->OrtDataTransferImpl::Release = +[](OrtDataTransferImpl* self) { delete static_cast<Transfer*>(self); };
    made->CanCopy = +[](const OrtDataTransferImpl*, const OrtMemoryDevice* src, const OrtMemoryDevice* dst) {
      call_back("CanCopy");
      return is_ours(src) || is_ours(dst);
    };
    made->CopyTensors = +[](OrtDataTransferImpl*, const OrtValue** src, OrtValue** dst, OrtSyncStream** streams,
                            size_t count) -> OrtStatus* {
      called("CopyTensors");
      for (size_t i = 0; i < count; ++i) {
        if (streams != nullptr) need_own(streams[i]);
        size_t size = 0;
        const void* from = nullptr;
        void* to = nullptr;
        if (OrtStatus* bad = g_api->GetTensorSizeInBytes(src[i], &size)) return bad;
        if (OrtStatus* bad = g_api->GetTensorData(src[i], &from)) return bad;
        if (OrtStatus* bad = g_api->GetTensorMutableData(dst[i], &to)) return bad;
        std::memcpy(to, from, size);
      }
      return outcome("CopyTensors");
    };
    *out = made;
    return nullptr;
  };
  factory.IsStreamAware = +[](const OrtEpFactory*) { return true; };
  factory.CreateSyncStreamForDevice = member("CreateSyncStreamForDevice", &create_stream);
  factory.CreateExternalResourceImporterForDevice = member("CreateImporter", &create_importer);
  factory.InitGraphicsInterop = member(
      "InitGraphicsInterop", +[](OrtEpFactory*, const OrtEpDevice*, const OrtGraphicsInteropConfig*) {
        called("InitGraphicsInterop");
        return outcome("InitGraphicsInterop");
      });
  factory.DeinitGraphicsInterop = member(
      "DeinitGraphicsInterop", +[](OrtEpFactory*, const OrtEpDevice*) {
        called("DeinitGraphicsInterop");
        return outcome("DeinitGraphicsInterop");
      });
  // Only a host that reads past what the version has meets these.
  if (lie("factory of version 23")) {
    auto* begin = reinterpret_cast<char*>(&factory) + offsetof(OrtEpFactory, GetHardwareDeviceIncompatibilityDetails);
    std::memset(begin, 0x5A, sizeof(OrtEpFactory) - offsetof(OrtEpFactory, GetHardwareDeviceIncompatibilityDetails));
  }
}

void release_device() {
  if (g_memory != nullptr) g_api->ReleaseMemoryInfo(g_memory);
  if (g_hardware != nullptr) g_ep_api->ReleaseHardwareDevice(g_hardware);
  g_memory = nullptr;
  g_hardware = nullptr;
}

}  // namespace bad
