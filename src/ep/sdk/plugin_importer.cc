#include "ep/sdk/plugin_importer.h"

#include "base/checked.h"
#include "ep/api/run_fences.h"
#include "interop/importer.h"

namespace tenon::plugin {

namespace {

void ORT_API_CALL release_memory(OrtExternalMemoryHandle* handle) noexcept {
  delete static_cast<ImportedMemory*>(handle);
}
void ORT_API_CALL release_semaphore(OrtExternalSemaphoreHandle* handle) noexcept {
  delete static_cast<ImportedSemaphore*>(handle);
}

Status check_version(uint32_t version, const char* what) {
  TENON_INVALID_IF(version < kOldestApiVersion || version > kOurApiVersion,
                   "Field version of the {} is {}; versions {} to {} are known.", what, version, kOldestApiVersion,
                   kOurApiVersion);
  return Status();
}

// The owner that keeps an import alive while the host has a tensor of it; the host frees the tensor through it.
class ViewOwner : private OrtAllocator {
 public:
  ViewOwner(const HostApi& host, const OrtMemoryInfo* info, std::shared_ptr<const void> owner)
      : OrtAllocator{}, info_(info), owner_(std::move(owner)) {
    version = host.version();
    OrtAllocator::Alloc = [](OrtAllocator*, size_t) noexcept -> void* { return nullptr; };
    OrtAllocator::Reserve = OrtAllocator::Alloc;
    OrtAllocator::Free = [](OrtAllocator* table, void*) noexcept { delete static_cast<ViewOwner*>(table); };
    OrtAllocator::Info = [](const OrtAllocator* table) noexcept { return static_cast<const ViewOwner*>(table)->info_; };
  }
  OrtAllocator* table() { return this; }

 private:
  const OrtMemoryInfo* const info_;
  const std::shared_ptr<const void> owner_;
};

}  // namespace

ImportedMemory::ImportedMemory(const HostApi& host, const OrtEpDevice* device, const OrtExternalMemoryDescriptor& from)
    : OrtExternalMemoryHandle{} {
  version = host.version();
  ep_device = device;
  descriptor = from;
  Release = &release_memory;
}

ImportedSemaphore::ImportedSemaphore(const HostApi& host, const OrtEpDevice* device,
                                     const OrtExternalSemaphoreDescriptor& from)
    : OrtExternalSemaphoreHandle{} {
  version = host.version();
  ep_device = device;
  descriptor = from;
  Release = &release_semaphore;
}

Status check_memory_descriptor(const OrtExternalMemoryDescriptor* descriptor) {
  TENON_INVALID_IF(descriptor == nullptr, "The memory descriptor is null.");
  TENON_TRY(check_version(descriptor->version, "memory descriptor"));
  TENON_INVALID_IF(descriptor->size_bytes == 0, "Field size_bytes is 0.");
  TENON_INVALID_IF(!checked_add(descriptor->offset_bytes, descriptor->size_bytes),
                   "Field offset_bytes ({}) plus size_bytes ({}) overflow.", descriptor->offset_bytes,
                   descriptor->size_bytes);
  return Status();
}

Status check_semaphore_descriptor(const OrtExternalSemaphoreDescriptor* descriptor) {
  TENON_INVALID_IF(descriptor == nullptr, "The semaphore descriptor is null.");
  TENON_TRY(check_version(descriptor->version, "semaphore descriptor"));
  return Status();
}

Result<TensorView> check_tensor_descriptor(const OrtExternalTensorDescriptor* descriptor, size_t import_bytes) {
  TENON_INVALID_IF(descriptor == nullptr, "The tensor descriptor is null.");
  TENON_TRY(check_version(descriptor->version, "tensor descriptor"));
  TensorView view;
  view.type = data_type(descriptor->element_type);
  TENON_INVALID_IF(data_type_bits(view.type) == 0 || holds_addresses(view.type),
                   "Field element_type is {} ({}); only tensors of numbers can be made from imported memory.",
                   static_cast<int64_t>(descriptor->element_type), data_type_name(view.type));
  TENON_INVALID_IF(descriptor->rank != 0 && descriptor->shape == nullptr, "Field shape is null, but rank is {}.",
                   descriptor->rank);
  TENON_INVALID_IF(descriptor->rank > Shape::kMaxRank, "Field rank is {}; at most {} dimensions are supported.",
                   descriptor->rank, Shape::kMaxRank);
  view.shape = Shape(std::span<const int64_t>(descriptor->shape, descriptor->rank));
  view.offset_bytes = descriptor->offset_bytes;
  TENON_TRY_ASSIGN(view.size_bytes,
                   check_imported_tensor(view.type, view.shape, view.offset_bytes, import_bytes, "external memory"));
  return view;
}

Importer::Importer(const HostApi& host, const OrtEpDevice* device)
    : OrtExternalResourceImporterImpl{}, host_(host), device_(device) {
  using Table = OrtExternalResourceImporterImpl;
  ort_version_supported = host.version();
  Table::CanImportMemory = [](const Table* table, OrtExternalMemoryHandleType kind) noexcept -> bool {
    return static_cast<const Importer*>(table)->takes(static_cast<uint32_t>(kind));
  };
  Table::ImportMemory = [](Table* table, const OrtExternalMemoryDescriptor* descriptor,
                           OrtExternalMemoryHandle** out) noexcept -> OrtStatus* {
    auto& importer = *static_cast<Importer*>(table);
    return importer.host_.guarded([&] { return importer.import_memory_checked(descriptor, out); });
  };
  Table::ReleaseMemory = [](Table*, OrtExternalMemoryHandle* handle) noexcept {
    if (handle != nullptr) release_memory(handle);
  };
  Table::CreateTensorFromMemory = [](Table* table, const OrtExternalMemoryHandle* handle,
                                     const OrtExternalTensorDescriptor* descriptor,
                                     OrtValue** out) noexcept -> OrtStatus* {
    auto& importer = *static_cast<Importer*>(table);
    return importer.host_.guarded([&] { return importer.create_tensor_checked(handle, descriptor, out); });
  };
  Table::CanImportSemaphore = [](const Table* table, OrtExternalSemaphoreType kind) noexcept -> bool {
    return static_cast<const Importer*>(table)->can_import(static_cast<TimelineKind>(kind));
  };
  Table::ImportSemaphore = [](Table* table, const OrtExternalSemaphoreDescriptor* descriptor,
                              OrtExternalSemaphoreHandle** out) noexcept -> OrtStatus* {
    auto& importer = *static_cast<Importer*>(table);
    return importer.host_.guarded([&] { return importer.import_semaphore_checked(descriptor, out); });
  };
  Table::ReleaseSemaphore = [](Table*, OrtExternalSemaphoreHandle* handle) noexcept {
    if (handle != nullptr) release_semaphore(handle);
  };
  Table::WaitSemaphore = [](Table* table, OrtExternalSemaphoreHandle* handle, OrtSyncStream* stream,
                            uint64_t value) noexcept -> OrtStatus* {
    auto& importer = *static_cast<Importer*>(table);
    return importer.host_.guarded([&] { return importer.queue(handle, stream, value, true); });
  };
  Table::SignalSemaphore = [](Table* table, OrtExternalSemaphoreHandle* handle, OrtSyncStream* stream,
                              uint64_t value) noexcept -> OrtStatus* {
    auto& importer = *static_cast<Importer*>(table);
    return importer.host_.guarded([&] { return importer.queue(handle, stream, value, false); });
  };
  Table::Release = [](Table* table) noexcept { delete static_cast<Importer*>(table); };
}

OrtExternalResourceImporterImpl* Importer::release_to_host(std::unique_ptr<Importer> importer) {
  return importer.release();
}

// A described handle says inside what it is.
bool Importer::takes(uint32_t handle_type) const {
  return handle_type == TENON_EXTERNAL_MEMORY_DESCRIBED || can_import(static_cast<ExternalMemoryKind>(handle_type));
}

Status Importer::import_memory_checked(const OrtExternalMemoryDescriptor* descriptor, OrtExternalMemoryHandle** out) {
  TENON_INVALID_IF(out == nullptr, "The result pointer of ImportMemory is null.");
  *out = nullptr;
  TENON_INVALID_IF(descriptor == nullptr, "The memory descriptor is null.");
  const auto type = static_cast<uint32_t>(descriptor->handle_type);
  const auto check_kind = [](bool can, ExternalMemoryKind kind) -> Status {
    TENON_UNSUPPORTED_IF(!can, "External memory of {} cannot be imported by this device.",
                         external_memory_kind_name(kind));
    return Status();
  };
  // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): the value is the program's, of any kind.
  TENON_TRY(check_kind(takes(type), static_cast<ExternalMemoryKind>(type)));
  TENON_TRY(check_memory_descriptor(descriptor));
  TENON_TRY_ASSIGN(const ExternalHandle handle, read_external_handle(type, descriptor->native_handle));
  TENON_TRY(check_kind(can_import(handle.kind), handle.kind));
  TENON_TRY_ASSIGN(auto memory, import_memory(handle, *descriptor));
  consume(handle);
  *out = memory.release();
  return Status();
}

Status Importer::import_semaphore_checked(const OrtExternalSemaphoreDescriptor* descriptor,
                                          OrtExternalSemaphoreHandle** out) {
  TENON_INVALID_IF(out == nullptr, "The result pointer of ImportSemaphore is null.");
  *out = nullptr;
  TENON_INVALID_IF(descriptor == nullptr, "The semaphore descriptor is null.");
  const auto type = static_cast<uint32_t>(descriptor->type);
  TENON_UNSUPPORTED_IF(!can_import(static_cast<TimelineKind>(type)),
                       "Semaphore type {} cannot be imported by this device.", type);
  TENON_TRY(check_semaphore_descriptor(descriptor));
  TENON_TRY_ASSIGN(const ExternalSemaphore handle, read_external_semaphore(type, descriptor->native_handle));
  TENON_TRY_ASSIGN(auto semaphore, import_semaphore(handle, *descriptor));
  consume(handle);
  *out = semaphore.release();
  return Status();
}

Status Importer::create_tensor_checked(const OrtExternalMemoryHandle* handle,
                                       const OrtExternalTensorDescriptor* descriptor, OrtValue** out) {
  TENON_INVALID_IF(out == nullptr, "The result pointer of CreateTensorFromMemory is null.");
  *out = nullptr;
  TENON_INVALID_IF(handle == nullptr, "The memory handle is null.");
  TENON_INVALID_IF(handle->Release != &release_memory, "The memory handle belongs to another importer.");
  TENON_TRY_ASSIGN(const TensorView view, check_tensor_descriptor(descriptor, handle->descriptor.size_bytes));
  TENON_TRY_ASSIGN(*out, create_tensor(*static_cast<const ImportedMemory*>(handle), view));
  return Status();
}

Status Importer::queue(OrtExternalSemaphoreHandle* handle, OrtSyncStream* stream, uint64_t value, bool is_wait) {
  TENON_INVALID_IF(handle == nullptr, "The semaphore handle is null.");
  TENON_INVALID_IF(handle->Release != &release_semaphore, "The semaphore handle belongs to another importer.");
  TENON_INVALID_IF(
      stream == nullptr,
      "The stream of the semaphore's {0} is null: give a stream of CreateSyncStreamForEpDevice, or let a run "
      "{0} it with its entry \"{1}\".",
      is_wait ? "wait" : "signal", is_wait ? kRunWaitsKey : kRunSignalsKey);
  TENON_TRY(
      SyncStream::check_own(host_, stream, format("the importer of EP \"{}\"", host_.ort().EpDevice_EpName(device_))));
  SyncStream& ours = *SyncStream::from(host_, stream);
  auto& semaphore = *static_cast<ImportedSemaphore*>(handle);
  return is_wait ? wait(semaphore, ours, value) : signal(semaphore, ours, value);
}

Result<OrtValue*> Importer::make_view(const OrtMemoryInfo* info, void* data, const TensorView& view,
                                      std::shared_ptr<const void> owner) const {
  auto deleter = std::make_unique<ViewOwner>(host_, info, std::move(owner));
  OrtValue* value = nullptr;
  TENON_ORT_TRY(host_, CreateTensorWithDataAndDeleterAsOrtValue, deleter->table(), data, view.size_bytes,
                view.shape.begin(), view.shape.rank(), ort_element_type(view.type), &value);
  (void)deleter.release();  // the host frees the tensor's memory through it
  return value;
}

}  // namespace tenon::plugin
