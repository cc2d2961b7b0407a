// tenon/ep_importer.h over a plugin's importer.
#include <tenon/ep_importer.h>
#include <tenon/external_handles.h>

#include <cstring>
#include <utility>

#include "abi/objects/interop_api_importer.h"
#include "abi/objects/type_info.h"
#include "base/any_enum.h"
#include "ep/host/plugin_importer.h"
#include "ep/host/plugin_registry.h"

namespace tenon {

namespace {

using abi::DeviceImporter;
using abi::DeviceMemory;
using abi::DeviceSemaphore;

// After a success fds are the import's (src/interop/handle_table.h); nothing else is the handle's to free.
void take(OwnedHandle& handle) {
  if (handle.fd() >= 0) (void)handle.release_fd();
  handle.reset();
}

class Importer final : public EpImporter {
 public:
  Importer(std::string ep_name, std::shared_ptr<DeviceImporter> importer)
      : ep_name_(std::move(ep_name)), importer_(std::move(importer)) {}

  bool can_import(ExternalMemoryKind kind) const override {
    const Result<bool> can = importer_->can_import_memory(static_cast<uint32_t>(kind));
    return can.ok() && *can;
  }
  bool can_import(TimelineKind kind) const override {
    const Result<bool> can = importer_->can_import_semaphore(static_cast<uint32_t>(kind));
    return can.ok() && *can;
  }

  Result<Tensor> import_tensor(OwnedHandle& handle, const EpMemoryDescriptor& descriptor, DataType type,
                               const Shape& shape) override {
    TENON_INVALID_IF(!handle.valid(), "The handle of the memory is empty.");
    TENON_INVALID_IF(descriptor.size_bytes == 0, "EpMemoryDescriptor::size_bytes is 0.");
    TENON_UNSUPPORTED_IF(!can_import(descriptor.kind), "The EP \"{}\" imports no {} on this device.", ep_name_,
                         external_memory_kind_name(descriptor.kind));
    TenonExternalMemoryInfo info = {};
    info.version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
    info.kind = static_cast<uint32_t>(descriptor.kind);
    info.flags = descriptor.writable ? 0 : TENON_EXTERNAL_MEMORY_READ_ONLY;
    info.dedicated = descriptor.dedicated ? 1 : 0;
    std::memcpy(info.device_uuid, descriptor.device_uuid.data(), sizeof(info.device_uuid));
    if (handle.fd() >= 0) {
      info.handle.fd = handle.fd();
    } else {
      info.handle.pointer = handle.pointer();
    }
    OrtExternalMemoryDescriptor memory = {};
    memory.version = ORT_API_VERSION;
    memory.handle_type = as_enum<OrtExternalMemoryHandleType>(TENON_EXTERNAL_MEMORY_DESCRIBED);
    memory.native_handle = &info;
    memory.size_bytes = descriptor.size_bytes;
    memory.offset_bytes = descriptor.offset_bytes;
    // What can be wrong with the view is found before the handle is anybody else's.
    TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
    TENON_INVALID_IF(bytes > descriptor.size_bytes, "A {} tensor of shape {} has {} bytes; the import has {}.",
                     data_type_name(type), shape.to_string(), bytes, descriptor.size_bytes);
    TENON_TRY_ASSIGN(const std::shared_ptr<DeviceMemory> import, importer_->import_memory(memory));
    take(handle);
    OrtExternalTensorDescriptor tensor = {};
    tensor.version = ORT_API_VERSION;
    tensor.element_type = abi::to_element_type(type);
    tensor.shape = shape.begin();
    tensor.rank = static_cast<size_t>(shape.rank());
    TENON_TRY_ASSIGN(const auto value,
                     import->create_tensor(tensor, {.type = type, .shape = shape, .size_bytes = bytes}, import));
    return value->tensor;
  }

  Result<std::shared_ptr<Timeline>> import_timeline(OwnedHandle& handle, TimelineKind kind, std::string name,
                                                    TimelineCallbacks on_host) override {
    TENON_INVALID_IF(!handle.valid(), "The handle of timeline \"{}\" is empty.", name);
    TENON_UNSUPPORTED_IF(!can_import(kind), "The EP \"{}\" imports no timelines of kind {} on this device.", ep_name_,
                         static_cast<uint32_t>(kind));
    std::shared_ptr<Timeline> host;
    if (on_host.value || on_host.wait || on_host.signal) {
      TENON_TRY_ASSIGN(host, make_callback_timeline(name, std::move(on_host)));
    }
    OrtExternalSemaphoreDescriptor descriptor = {};
    descriptor.version = ORT_API_VERSION;
    descriptor.type = as_enum<OrtExternalSemaphoreType>(static_cast<uint32_t>(kind));
    descriptor.native_handle =
        handle.fd() >= 0 ? reinterpret_cast<void*>(static_cast<intptr_t>(handle.fd())) : handle.pointer();
    TENON_TRY_ASSIGN(const std::shared_ptr<DeviceSemaphore> semaphore, importer_->import_semaphore(descriptor));
    take(handle);
    return semaphore->timeline(semaphore, std::move(name), std::move(host));
  }

 private:
  const std::string ep_name_;
  const std::shared_ptr<DeviceImporter> importer_;
};

}  // namespace

Result<std::shared_ptr<EpImporter>> EpImporter::create(const std::string& ep_name, size_t device) {
  size_t index = 0;
  for (const OrtEpDevice* known : abi::PluginRegistry::instance().devices()) {
    if (known->ep_name != ep_name || index++ != device) continue;
    TENON_UNSUPPORTED_IF(known->factory == nullptr,
                         "The built-in EP works on host memory; tenon/external_memory.h imports it.");
    TENON_TRY_ASSIGN(std::shared_ptr<DeviceImporter> importer, abi::make_plugin_importer(*known));
    TENON_UNSUPPORTED_IF(importer == nullptr, "The EP \"{}\" has no importer.", ep_name);
    return std::shared_ptr<EpImporter>(std::make_shared<Importer>(ep_name, std::move(importer)));
  }
  return not_found("No registered EP \"{}\" has a device {}.", ep_name, device);
}

}  // namespace tenon
