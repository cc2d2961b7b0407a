// The application's side of EP libraries: registering, devices, shared allocators, streams, copies.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "abi/interop_cpu.h"
#include "abi/objects/env.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/objects/value.h"
#include "base/env.h"
#include "device/copy.h"
#include "device/hardware_devices.h"
#include "ep/host/plugin_factory.h"
#include "ep/host/plugin_registry.h"
#include "ep/host/plugin_stream.h"

struct OrtDeviceEpIncompatibilityDetails {
  uint32_t reasons = 0;
  int32_t error_code = 0;
  std::string notes;
};

namespace tenon::abi {

namespace {

// The C ABI has no options when a library is registered, so TENON_OFFER_DEVICES gives them.
Result<EpLibraryOptions> library_options() {
  EpLibraryOptions options;
  const std::string text = env_value(Env::kOfferDevices);
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(';', start), text.size());
    TENON_TRY_ASSIGN(auto device, parse_hardware_device(text.substr(start, end - start)));
    options.offer.push_back(std::move(device));
    start = end + 1;
  }
  return options;
}

}  // namespace

OrtStatus* ort_api::RegisterExecutionProviderLibrary(OrtEnv* env, const char* registration_name,
                                                     const ORTCHAR_T* path) noexcept {
  if (OrtStatus* bad = check_pointers("RegisterExecutionProviderLibrary",
                                      {{"env", env}, {"registration_name", registration_name}, {"path", path}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const Result<EpLibraryOptions> options = library_options();
    if (!options.ok()) return to_ort(options.status());
    const Status status = PluginRegistry::instance().add(registration_name, path, *options, nullptr);
    if (status.ok()) {
      auto registered = env->eps.lock();
      if (*registered == nullptr) *registered = std::make_shared<EpRegistry>();
      (*registered)->add(registration_name);
    }
    // An error that the plugin itself returned keeps its code; everything else is FAIL, as in the reference.
    return status.code() == StatusCode::kDeviceError ? to_ort(status) : to_ort(status, ORT_FAIL);
  });
}

OrtStatus* ort_api::UnregisterExecutionProviderLibrary(OrtEnv* env, const char* registration_name) noexcept {
  if (OrtStatus* bad = check_pointers("UnregisterExecutionProviderLibrary",
                                      {{"env", env}, {"registration_name", registration_name}}))
    return bad;
  return guarded([&] { return to_ort(PluginRegistry::instance().remove(registration_name), ORT_FAIL); });
}

OrtStatus* ort_api::GetEpDevices(const OrtEnv* env, const OrtEpDevice* const** ep_devices,
                                 size_t* num_ep_devices) noexcept {
  clear(ep_devices), clear(num_ep_devices);
  if (OrtStatus* bad = check_pointers("GetEpDevices",
                                      {{"env", env}, {"ep_devices", ep_devices}, {"num_ep_devices", num_ep_devices}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const auto devices = PluginRegistry::instance().devices();
    *ep_devices = devices.data();
    *num_ep_devices = devices.size();
    return nullptr;
  });
}

OrtStatus* ort_api::GetNumHardwareDevices(const OrtEnv* env, size_t* num_devices) noexcept {
  clear(num_devices);
  if (OrtStatus* bad = check_pointers("GetNumHardwareDevices", {{"env", env}, {"num_devices", num_devices}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    *num_devices = PluginRegistry::instance().hardware().size();
    return nullptr;
  });
}

OrtStatus* ort_api::GetHardwareDevices(const OrtEnv* env, const OrtHardwareDevice** devices,
                                       size_t num_devices) noexcept {
  if (OrtStatus* bad = check_pointers("GetHardwareDevices", {{"env", env}, {"devices", devices}})) return bad;
  return guarded([&]() -> OrtStatus* {
    const auto hardware = PluginRegistry::instance().hardware();
    if (num_devices < hardware.size())
      return make_ort_status(ORT_INVALID_ARGUMENT,
                             "num_devices is less than the number of available hardware devices. Use "
                             "GetNumHardwareDevices() to get the required array size.");
    std::copy(hardware.begin(), hardware.end(), devices);
    return nullptr;
  });
}

OrtStatus* ort_api::GetHardwareDeviceEpIncompatibilityDetails(const OrtEnv* env, const char* ep_name,
                                                              const OrtHardwareDevice* hw,
                                                              OrtDeviceEpIncompatibilityDetails** details) noexcept {
  clear(details);
  if (OrtStatus* bad = check_pointers("GetHardwareDeviceEpIncompatibilityDetails",
                                      {{"env", env}, {"ep_name", ep_name}, {"hw", hw}, {"details", details}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    auto made = std::make_unique<OrtDeviceEpIncompatibilityDetails>();
    if (std::string_view(ep_name) != "CPUExecutionProvider") {
      const std::shared_ptr<PluginFactory> factory = PluginRegistry::instance().find(ep_name);
      if (factory == nullptr)
        return ort_error(ORT_INVALID_ARGUMENT, "No valid factory found for execution provider '{}'.", ep_name);
      const auto get = TENON_MEMBER(factory->ort(), OrtEpFactory, GetHardwareDeviceIncompatibilityDetails);
      if (!get.absent()) {
        const Status status = call(factory->who(), get, factory->ort(), hw, made.get());
        if (!status.ok()) return to_ort(status);
      }
    }
    *details = made.release();
    return nullptr;
  });
}

OrtStatus* ep_api::DeviceEpIncompatibilityDetails_SetDetails(OrtDeviceEpIncompatibilityDetails* details,
                                                             uint32_t reasons_bitmask, int32_t error_code,
                                                             const char* notes) noexcept {
  if (OrtStatus* bad = check_pointers("DeviceEpIncompatibilityDetails_SetDetails", {{"details", details}})) return bad;
  return guarded([&]() -> OrtStatus* {
    details->reasons = reasons_bitmask;
    details->error_code = error_code;
    details->notes = notes != nullptr ? notes : "";
    return nullptr;
  });
}

OrtStatus* ort_api::DeviceEpIncompatibilityDetails_GetReasonsBitmask(const OrtDeviceEpIncompatibilityDetails* details,
                                                                     uint32_t* reasons_bitmask) noexcept {
  clear(reasons_bitmask);
  if (OrtStatus* bad = check_pointers("DeviceEpIncompatibilityDetails_GetReasonsBitmask",
                                      {{"details", details}, {"reasons_bitmask", reasons_bitmask}}))
    return bad;
  *reasons_bitmask = details->reasons;
  return nullptr;
}

OrtStatus* ort_api::DeviceEpIncompatibilityDetails_GetNotes(const OrtDeviceEpIncompatibilityDetails* details,
                                                            const char** notes) noexcept {
  clear(notes);
  if (OrtStatus* bad =
          check_pointers("DeviceEpIncompatibilityDetails_GetNotes", {{"details", details}, {"notes", notes}}))
    return bad;
  // Null without notes, as the reference answers.
  *notes = details->notes.empty() ? nullptr : details->notes.c_str();
  return nullptr;
}

OrtStatus* ort_api::DeviceEpIncompatibilityDetails_GetErrorCode(const OrtDeviceEpIncompatibilityDetails* details,
                                                                int32_t* error_code) noexcept {
  clear(error_code);
  if (OrtStatus* bad = check_pointers("DeviceEpIncompatibilityDetails_GetErrorCode",
                                      {{"details", details}, {"error_code", error_code}}))
    return bad;
  *error_code = details->error_code;
  return nullptr;
}

void ort_api::ReleaseDeviceEpIncompatibilityDetails(OrtDeviceEpIncompatibilityDetails* input) noexcept { delete input; }

OrtStatus* ort_api::GetModelCompatibilityForEpDevices(const OrtEpDevice* const* ep_devices, size_t num_ep_devices,
                                                      const char* compatibility_info,
                                                      OrtCompiledModelCompatibility* out_status) noexcept {
  clear(out_status);
  if (OrtStatus* bad = check_pointers(
          "GetModelCompatibilityForEpDevices",
          {{"ep_devices", ep_devices}, {"compatibility_info", compatibility_info}, {"out_status", out_status}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    if (num_ep_devices == 0) return make_ort_status(ORT_INVALID_ARGUMENT, "num_ep_devices is 0.");
    std::vector<const OrtHardwareDevice*> hardware;
    for (size_t i = 0; i < num_ep_devices; ++i) {
      if (ep_devices[i] == nullptr || ep_devices[i]->factory != ep_devices[0]->factory)
        return make_ort_status(ORT_INVALID_ARGUMENT,
                               "All OrtEpDevice values in ep_devices must have the same execution provider.");
      hardware.push_back(ep_devices[i]->hardware);
    }
    const std::shared_ptr<PluginFactory> factory = factory_of(*ep_devices[0]);
    if (factory == nullptr) return nullptr;  // EP_NOT_APPLICABLE: the CPU EP compiles nothing ahead
    const auto validate = TENON_MEMBER(factory->ort(), OrtEpFactory, ValidateCompiledModelCompatibilityInfo);
    if (validate.absent()) return nullptr;
    return to_ort(call(factory->who(), validate, factory->ort(), hardware.data(), hardware.size(), compatibility_info,
                       out_status));
  });
}

OrtStatus* ort_api::CreateSharedAllocator(OrtEnv* env, const OrtEpDevice* ep_device, OrtDeviceMemoryType mem_type,
                                          OrtAllocatorType allocator_type, const OrtKeyValuePairs* allocator_options,
                                          OrtAllocator** allocator) noexcept {
  clear(allocator);
  if (OrtStatus* bad = check_pointers("CreateSharedAllocator", {{"env", env}, {"ep_device", ep_device}})) return bad;
  return guarded([&]() -> OrtStatus* {
    const std::shared_ptr<PluginFactory> factory = factory_of(*ep_device);
    if (factory == nullptr) return make_ort_status(ORT_INVALID_ARGUMENT, "Invalid memory type for OrtEpDevice.");
    if (allocator_type == OrtArenaAllocator)
      return make_ort_status(
          ORT_FAIL,
          "OrtAllocatorType::OrtArenaAllocator is reserved for ONNX Runtime internal usage only. The "
          "EP implements arena support internally so please use OrtDeviceAllocator and provide any "
          "arena options via the allocator options.");
    const auto shared = factory->share_allocator(*ep_device, mem_type, allocator_options);
    if (!shared.ok()) return to_ort(shared.status());
    if (allocator != nullptr && *shared != nullptr) *allocator = (*shared)->program();
    return nullptr;
  });
}

OrtStatus* ort_api::ReleaseSharedAllocator(OrtEnv* env, const OrtEpDevice* ep_device,
                                           OrtDeviceMemoryType mem_type) noexcept {
  if (OrtStatus* bad = check_pointers("ReleaseSharedAllocator", {{"env", env}, {"ep_device", ep_device}})) return bad;
  return guarded([&]() -> OrtStatus* {
    const std::shared_ptr<PluginFactory> factory = factory_of(*ep_device);
    if (factory == nullptr) return make_ort_status(ORT_INVALID_ARGUMENT, "Invalid memory type for OrtEpDevice.");
    return to_ort(factory->release_shared_allocator(*ep_device, mem_type));
  });
}

OrtStatus* ort_api::CreateSyncStreamForEpDevice(const OrtEpDevice* ep_device, const OrtKeyValuePairs* stream_options,
                                                OrtSyncStream** stream) noexcept {
  clear(stream);
  if (OrtStatus* bad = check_pointers("CreateSyncStreamForEpDevice", {{"ep_device", ep_device}, {"stream", stream}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    if (ep_device->factory == nullptr) {
      auto made = create_cpu_sync_stream(stream_options);
      if (!made.ok()) return to_ort(made.status());
      *stream = made->release();
      return nullptr;
    }
    const std::shared_ptr<PluginFactory> factory = factory_of(*ep_device);
    if (factory == nullptr) return make_ort_status(ORT_INVALID_ARGUMENT, "The library of ep_device is unloaded.");
    if (!factory->stream_aware())
      return make_ort_status(ORT_NOT_IMPLEMENTED, "The execution provider does not support streams.");
    if (!ep_device->default_memory)
      return make_ort_status(ORT_INVALID_ARGUMENT, "ep_device does not use DEFAULT memory of a non-CPU device.");
    auto made = factory->create_stream(ep_device->default_memory->device, stream_options,
                                       std::static_pointer_cast<const void>(factory));
    if (!made.ok()) return to_ort(made.status());
    if (*made == nullptr)
      return ort_error(ORT_NOT_IMPLEMENTED, "{} is stream-aware, and made no stream.", factory->who());
    // The stream owns what programs see of it, and is in turn owned by it: ReleaseSyncStream breaks that.
    OrtSyncStream* shown = (*made)->ort();
    shown->owned = std::shared_ptr<PluginStream>(std::move(*made));
    *stream = shown;
    return nullptr;
  });
}

void* ort_api::SyncStream_GetHandle(OrtSyncStream* stream) noexcept {
  return stream != nullptr && stream->stream != nullptr ? stream->stream->native_handle() : nullptr;
}

void ort_api::ReleaseSyncStream(OrtSyncStream* input) noexcept {
  if (input == nullptr) return;
  if (dynamic_cast<PluginStream*>(input->stream) == nullptr) {
    delete input;
    return;
  }
  // The struct goes with its stream; one that a session owns has no owner here, and stays.
  const std::shared_ptr<void> last = std::move(input->owned);
}

}  // namespace tenon::abi
