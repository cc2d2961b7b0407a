// OrtInteropApi: checks arguments, calls the device's importer, and wraps its results (S1).
#include "abi/interop_api.h"

#include <tenon/external_handles.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "abi/interop_cpu.h"
#include "abi/objects/interop_api_importer.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/objects/type_info.h"
#include "base/guarded.h"
#include "ep/api/run_fences.h"
#include "ep/host/plugin_importer.h"
#include "ep/host/plugin_registry.h"
#include "interop/external_handle.h"
#include "interop/importer.h"

namespace tenon::abi {

namespace {

constexpr uint32_t kFirstVersion = 24;          // of the importer's structs
constexpr uint32_t kFirstGraphicsVersion = 25;  // of OrtGraphicsInteropConfig

// The objects behind a program's handles. The ABI's structs begin them, so that the program may read the descriptor.
struct MemoryHandle : OrtExternalMemoryHandle {
  std::shared_ptr<DeviceImporter> importer;
  std::shared_ptr<DeviceMemory> memory;
  std::string kind;  // for messages: the name of what was imported
};
struct SemaphoreHandle : OrtExternalSemaphoreHandle {
  std::shared_ptr<DeviceImporter> importer;
  std::shared_ptr<DeviceSemaphore> semaphore;
};

// The semaphores that programs hold: runs name them by number, which may be any. Timelines are made when a run first
// asks for one.
struct HeldSemaphore {
  std::shared_ptr<DeviceSemaphore> semaphore;
  std::shared_ptr<Timeline> on_host;  // what the host waits for and signals; null where only the device can
  std::shared_ptr<Timeline> timeline;
};
Guarded<std::map<uintptr_t, HeldSemaphore>>& held_semaphores() {
  static auto* const held = new Guarded<std::map<uintptr_t, HeldSemaphore>>;
  return *held;
}

uintptr_t number_of(const OrtExternalSemaphoreHandle* handle) { return reinterpret_cast<uintptr_t>(handle); }

void ORT_API_CALL release_memory(OrtExternalMemoryHandle* handle) noexcept {
  delete static_cast<MemoryHandle*>(handle);
}
void ORT_API_CALL release_semaphore(OrtExternalSemaphoreHandle* handle) noexcept {
  // The semaphore and its timeline go after the lock: a plugin's release may take its time.
  HeldSemaphore last;
  {
    auto held = held_semaphores().lock();
    if (const auto found = held->find(number_of(handle)); found != held->end()) {
      last = std::move(found->second);
      held->erase(found);
    }
  }
  delete static_cast<SemaphoreHandle*>(handle);
}

Status check_version(const char* type, uint32_t version, uint32_t first = kFirstVersion) {
  TENON_INVALID_IF(version < first || version > ORT_API_VERSION, "{}.version ({}) is unknown; {} to {} are known.",
                   type, version, first, static_cast<uint32_t>(ORT_API_VERSION));
  return Status();
}

// Enums are read as integers: a program may pass any.
uint32_t integer_of(const void* field) {
  uint32_t value = 0;
  std::memcpy(&value, field, sizeof(value));
  return value;
}

Result<MemoryHandle*> import(const OrtExternalResourceImporter& from, const OrtExternalMemoryDescriptor& descriptor) {
  TENON_TRY(check_version("OrtExternalMemoryDescriptor", descriptor.version));
  const uint32_t kind = integer_of(&descriptor.handle_type);
  TENON_TRY_ASSIGN(const bool can, from.importer->can_import_memory(kind));
  TENON_UNSUPPORTED_IF(!can, "External memory of handle_type {:#x} cannot be imported by EP \"{}\" on this device.",
                       kind, from.device->ep_name);
  TENON_INVALID_IF(descriptor.size_bytes == 0, "OrtExternalMemoryDescriptor.size_bytes is 0.");
  TENON_INVALID_IF(descriptor.offset_bytes + descriptor.size_bytes < descriptor.size_bytes,
                   "OrtExternalMemoryDescriptor.offset_bytes ({}) plus size_bytes ({}) overflow.",
                   descriptor.offset_bytes, descriptor.size_bytes);
  // Before the import, which may take what native_handle points to, and after which nothing may fail.
  auto handle = std::make_unique<MemoryHandle>();
  const Result<ExternalHandle> native = read_external_handle(kind, descriptor.native_handle);
  handle->kind = external_memory_kind_name(native.ok() ? native->kind : static_cast<ExternalMemoryKind>(kind));
  handle->version = ORT_API_VERSION;
  handle->ep_device = from.device;
  handle->descriptor = descriptor;
  handle->Release = &release_memory;
  handle->importer = from.importer;
  TENON_TRY_ASSIGN(handle->memory, from.importer->import_memory(descriptor));
  return handle.release();
}

// The handle of the semaphore that `import` gives. `on_host`: the program's timeline behind it, where it is one.
template <typename Import>
Result<SemaphoreHandle*> make_handle(const OrtExternalResourceImporter& from,
                                     const OrtExternalSemaphoreDescriptor& descriptor, const Import& import,
                                     std::shared_ptr<Timeline> on_host) {
  // Everything that may fail comes before the import.
  auto handle = std::make_unique<SemaphoreHandle>();
  handle->version = ORT_API_VERSION;
  handle->ep_device = from.device;
  handle->descriptor = descriptor;
  handle->Release = &release_semaphore;
  handle->importer = from.importer;
  std::map<uintptr_t, HeldSemaphore> held;
  HeldSemaphore& ours = held[number_of(handle.get())];
  ours.on_host = std::move(on_host);
  TENON_TRY_ASSIGN(handle->semaphore, import());
  ours.semaphore = handle->semaphore;
  held_semaphores().lock()->merge(held);
  return handle.release();
}

Result<SemaphoreHandle*> import(const OrtExternalResourceImporter& from,
                                const OrtExternalSemaphoreDescriptor& descriptor,
                                std::shared_ptr<Timeline> on_host = nullptr) {
  TENON_TRY(check_version("OrtExternalSemaphoreDescriptor", descriptor.version));
  const uint32_t kind = integer_of(&descriptor.type);
  TENON_TRY_ASSIGN(const bool can, from.importer->can_import_semaphore(kind));
  TENON_UNSUPPORTED_IF(!can, "External semaphores of type {:#x} cannot be imported by EP \"{}\" on this device.", kind,
                       from.device->ep_name);
  return make_handle(from, descriptor, [&] { return from.importer->import_semaphore(descriptor); }, std::move(on_host));
}

// The callbacks of a timeline of ours, for a device whose importer is a plugin's. `user_data` is a Held*.
struct Held {
  std::shared_ptr<Timeline> timeline;
};

int32_t answer(const Status& status) {
  constexpr int32_t kOtherFailure = TENON_TIMELINE_LOST + 1;
  if (status.ok()) return TENON_TIMELINE_OK;
  return status.code() == StatusCode::kDeviceLost ? TENON_TIMELINE_LOST : kOtherFailure;
}

TenonTimelineCallbacks callbacks_of(Held* held) {
  return {.version = TENON_TIMELINE_CALLBACKS_VERSION,
          .reserved = 0,
          .user_data = held,
          .value = [](void* self, uint64_t* out) -> int32_t {
            const Result<uint64_t> reached = static_cast<Held*>(self)->timeline->value();
            if (reached.ok()) *out = *reached;
            return answer(reached.status());
          },
          .wait = [](void* self, uint64_t value, int64_t timeout_ns) -> int32_t {
            const Result<bool> reached = wait_until(*static_cast<Held*>(self)->timeline, value, timeout_ns);
            return reached.ok() && !*reached ? TENON_TIMELINE_TIMEOUT : answer(reached.status());
          },
          .signal = [](void* self, uint64_t value) -> int32_t {
            return answer(static_cast<Held*>(self)->timeline->signal(value));
          },
          .release = [](void* self) { delete static_cast<Held*>(self); }};
}

Result<ImportedView> check_tensor(const OrtExternalTensorDescriptor& descriptor, size_t import_size_bytes) {
  TENON_TRY(check_version("OrtExternalTensorDescriptor", descriptor.version));
  ImportedView view;
  const uint32_t type = integer_of(&descriptor.element_type);
  view.type = type <= ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0 ? from_element_type(descriptor.element_type)
                                                               : DataType::kUndefined;
  TENON_INVALID_IF(data_type_bits(view.type) == 0 || holds_addresses(view.type),
                   "OrtExternalTensorDescriptor.element_type ({}) has no size; imported memory holds numbers only.",
                   type);
  TENON_TRY_ASSIGN(view.shape, to_shape(descriptor.shape, descriptor.rank));
  view.offset_bytes = descriptor.offset_bytes;
  TENON_TRY_ASSIGN(view.size_bytes, check_imported_tensor(view.type, view.shape, view.offset_bytes, import_size_bytes,
                                                          "external memory"));
  return view;
}

Result<OrtValue*> create_tensor(const OrtExternalResourceImporter& importer, const OrtExternalMemoryHandle& handle,
                                const OrtExternalTensorDescriptor& descriptor) {
  TENON_INVALID_IF(handle.Release != &release_memory || handle.ep_device != importer.device,
                   "The memory handle was not imported by an importer of this device.");
  const auto& ours = static_cast<const MemoryHandle&>(handle);
  TENON_TRY_ASSIGN(const ImportedView view, check_tensor(descriptor, handle.descriptor.size_bytes));
  TENON_TRY_ASSIGN(auto value, ours.memory->create_tensor(descriptor, view, ours.memory));
  if (value->tensor.read_only()) {
    value->read_only_import =
        std::make_shared<const std::string>(format("a read-only import ({}, {} bytes) of EP \"{}\"", ours.kind,
                                                   handle.descriptor.size_bytes, importer.device->ep_name));
  }
  return value.release();
}

Result<DeviceSemaphore*> semaphore_of(const OrtExternalResourceImporter& importer,
                                      const OrtExternalSemaphoreHandle& handle) {
  TENON_INVALID_IF(handle.Release != &release_semaphore || handle.ep_device != importer.device,
                   "The semaphore handle was not imported by an importer of this device.");
  return static_cast<const SemaphoreHandle&>(handle).semaphore.get();
}

Status check_graphics(const OrtEpDevice& device, const OrtGraphicsInteropConfig& config) {
  TENON_TRY(check_version("OrtGraphicsInteropConfig", config.version, kFirstGraphicsVersion));
  const uint32_t api = integer_of(&config.graphics_api);
  TENON_INVALID_IF(api != ORT_GRAPHICS_API_D3D12 && api != ORT_GRAPHICS_API_VULKAN,
                   "OrtGraphicsInteropConfig.graphics_api ({}) names no graphics API.", api);
  TENON_UNSUPPORTED_IF(device.factory == nullptr, "The CPU device has no graphics interop.");
  return Status();
}

// S1.1: a device that GetEpDevices does not list is not looked at; its library may be gone.
Status check_device(const OrtEpDevice* device) {
  const auto devices = PluginRegistry::instance().devices();
  TENON_INVALID_IF(std::find(devices.begin(), devices.end(), device) == devices.end(),
                   "ep_device is none of the devices that GetEpDevices lists.");
  return Status();
}

// Sets *out from a Result, or gives its status.
template <typename T, typename Out>
OrtStatus* give(Result<T> result, Out** out) {
  if (!result.ok()) return to_ort(result.status());
  *out = std::move(result).value();
  return nullptr;
}

}  // namespace

Result<Fence> fence_of_handle(uintptr_t handle, uint64_t value) {
  auto held = held_semaphores().lock();
  const auto found = held->find(handle);
  TENON_INVALID_IF(found == held->end(), "{:#x} is no semaphore handle of this process, or one that is released.",
                   handle);
  HeldSemaphore& semaphore = found->second;
  if (semaphore.timeline == nullptr) {
    TENON_TRY_ASSIGN(
        semaphore.timeline,
        semaphore.semaphore->timeline(semaphore.semaphore, format("semaphore {:#x}", handle), semaphore.on_host));
  }
  return Fence{semaphore.timeline, value};
}

Result<OrtExternalSemaphoreHandle*> import_timeline(const OrtExternalResourceImporter& importer,
                                                    std::shared_ptr<Timeline> timeline) {
  OrtExternalSemaphoreDescriptor descriptor = {};
  descriptor.version = ORT_API_VERSION;
  const uint32_t kind = TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS;
  std::memcpy(&descriptor.type, &kind, sizeof(kind));
  SemaphoreHandle* handle = nullptr;
  if (importer.device->factory == nullptr) {
    const auto no_import = [&] { return Result<std::shared_ptr<DeviceSemaphore>>(make_cpu_semaphore(timeline)); };
    TENON_TRY_ASSIGN(handle, make_handle(importer, descriptor, no_import, timeline));
    return handle;
  }
  auto held = std::make_unique<Held>(timeline);
  TenonTimelineCallbacks callbacks = callbacks_of(held.get());
  descriptor.native_handle = &callbacks;
  TENON_TRY_ASSIGN(handle, import(importer, descriptor, std::move(timeline)));
  (void)held.release();  // the import's, which calls `release`
  handle->descriptor.native_handle = nullptr;
  return handle;
}

OrtStatus* interop_api::CreateExternalResourceImporterForDevice(const OrtEpDevice* ep_device,
                                                                OrtExternalResourceImporter** out_importer) noexcept {
  clear(out_importer);
  if (OrtStatus* bad = check_pointers("CreateExternalResourceImporterForDevice",
                                      {{"ep_device", ep_device}, {"out_importer", out_importer}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    if (const Status known = check_device(ep_device); !known.ok()) return to_ort(known);
    auto importer = ep_device->factory == nullptr ? Result<std::shared_ptr<DeviceImporter>>(make_cpu_importer())
                                                  : make_plugin_importer(*ep_device);
    if (!importer.ok()) return to_ort(importer.status());
    if (*importer != nullptr) *out_importer = new OrtExternalResourceImporter{std::move(*importer), ep_device};
    return nullptr;
  });
}

void interop_api::ReleaseExternalResourceImporter(OrtExternalResourceImporter* input) noexcept { delete input; }

OrtStatus* interop_api::CanImportMemory(const OrtExternalResourceImporter* importer,
                                        OrtExternalMemoryHandleType handle_type, bool* out_supported) noexcept {
  clear(out_supported);
  if (OrtStatus* bad = check_pointers("CanImportMemory", {{"importer", importer}, {"out_supported", out_supported}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const Result<bool> can = importer->importer->can_import_memory(integer_of(&handle_type));
    if (can.ok()) *out_supported = *can;
    return to_ort(can.status());
  });
}

OrtStatus* interop_api::ImportMemory(OrtExternalResourceImporter* importer, const OrtExternalMemoryDescriptor* desc,
                                     OrtExternalMemoryHandle** out_handle) noexcept {
  clear(out_handle);
  if (OrtStatus* bad =
          check_pointers("ImportMemory", {{"importer", importer}, {"desc", desc}, {"out_handle", out_handle}}))
    return bad;
  return guarded([&] { return give(import(*importer, *desc), out_handle); });
}

void interop_api::ReleaseExternalMemoryHandle(OrtExternalMemoryHandle* input) noexcept {
  if (input != nullptr) input->Release(input);
}

OrtStatus* interop_api::CreateTensorFromMemory(OrtExternalResourceImporter* importer,
                                               const OrtExternalMemoryHandle* mem_handle,
                                               const OrtExternalTensorDescriptor* tensor_desc,
                                               OrtValue** out_tensor) noexcept {
  clear(out_tensor);
  if (OrtStatus* bad = check_pointers("CreateTensorFromMemory", {{"importer", importer},
                                                                 {"mem_handle", mem_handle},
                                                                 {"tensor_desc", tensor_desc},
                                                                 {"out_tensor", out_tensor}}))
    return bad;
  return guarded([&] { return give(create_tensor(*importer, *mem_handle, *tensor_desc), out_tensor); });
}

OrtStatus* interop_api::CanImportSemaphore(const OrtExternalResourceImporter* importer, OrtExternalSemaphoreType type,
                                           bool* out_supported) noexcept {
  clear(out_supported);
  if (OrtStatus* bad = check_pointers("CanImportSemaphore", {{"importer", importer}, {"out_supported", out_supported}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const Result<bool> can = importer->importer->can_import_semaphore(integer_of(&type));
    if (can.ok()) *out_supported = *can;
    return to_ort(can.status());
  });
}

OrtStatus* interop_api::ImportSemaphore(OrtExternalResourceImporter* importer,
                                        const OrtExternalSemaphoreDescriptor* desc,
                                        OrtExternalSemaphoreHandle** out_handle) noexcept {
  clear(out_handle);
  if (OrtStatus* bad =
          check_pointers("ImportSemaphore", {{"importer", importer}, {"desc", desc}, {"out_handle", out_handle}}))
    return bad;
  return guarded([&] { return give(import(*importer, *desc), out_handle); });
}

void interop_api::ReleaseExternalSemaphoreHandle(OrtExternalSemaphoreHandle* input) noexcept {
  if (input != nullptr) input->Release(input);
}

namespace {

// `entry`: the run's configuration entry that does the same without a stream.
OrtStatus* check_queueing(const char* function, const void* importer, const void* semaphore, const void* stream,
                          const char* entry) noexcept {
  if (OrtStatus* bad = check_pointers(function, {{"importer", importer}, {"semaphore_handle", semaphore}})) return bad;
  if (stream != nullptr) return nullptr;
  return ort_error(
      ORT_INVALID_ARGUMENT,
      "Argument \"stream\" of {} is null. It takes a stream of CreateSyncStreamForEpDevice; without one, a run "
      "takes the semaphore itself: AddRunConfigEntry with \"{}\" and \"HANDLE:VALUE\" (TENON_{} of "
      "tenon/external_handles.h).",
      function, entry, entry == std::string_view(kRunWaitsKey) ? "RUN_WAITS" : "RUN_SIGNALS");
}

}  // namespace

OrtStatus* interop_api::WaitSemaphore(OrtExternalResourceImporter* importer,
                                      OrtExternalSemaphoreHandle* semaphore_handle, OrtSyncStream* stream,
                                      uint64_t value) noexcept {
  if (OrtStatus* bad = check_queueing("WaitSemaphore", importer, semaphore_handle, stream, kRunWaitsKey)) return bad;
  return guarded([&] {
    const auto semaphore = semaphore_of(*importer, *semaphore_handle);
    return to_ort(semaphore.ok() ? (*semaphore)->wait(*stream, value) : semaphore.status());
  });
}

OrtStatus* interop_api::SignalSemaphore(OrtExternalResourceImporter* importer,
                                        OrtExternalSemaphoreHandle* semaphore_handle, OrtSyncStream* stream,
                                        uint64_t value) noexcept {
  if (OrtStatus* bad = check_queueing("SignalSemaphore", importer, semaphore_handle, stream, kRunSignalsKey))
    return bad;
  return guarded([&] {
    const auto semaphore = semaphore_of(*importer, *semaphore_handle);
    return to_ort(semaphore.ok() ? (*semaphore)->signal(*stream, value) : semaphore.status());
  });
}

OrtStatus* interop_api::InitGraphicsInteropForEpDevice(const OrtEpDevice* ep_device,
                                                       const OrtGraphicsInteropConfig* config) noexcept {
  if (OrtStatus* bad = check_pointers("InitGraphicsInteropForEpDevice", {{"ep_device", ep_device}, {"config", config}}))
    return bad;
  return guarded([&] {
    Status status = check_device(ep_device);
    if (status.ok()) status = check_graphics(*ep_device, *config);
    if (status.ok()) status = init_graphics_interop(*ep_device, *config);
    return to_ort(status);
  });
}

OrtStatus* interop_api::DeinitGraphicsInteropForEpDevice(const OrtEpDevice* ep_device) noexcept {
  if (OrtStatus* bad = check_pointers("DeinitGraphicsInteropForEpDevice", {{"ep_device", ep_device}})) return bad;
  return guarded([&] {
    Status status = check_device(ep_device);
    if (status.ok())
      status = ep_device->factory != nullptr ? deinit_graphics_interop(*ep_device)
                                             : unsupported("The CPU device has no graphics interop.");
    return to_ort(status);
  });
}

}  // namespace tenon::abi
