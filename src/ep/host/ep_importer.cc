// tenon/importer.h over a plugin's importer.
#include <tenon/importer.h>

#include <utility>

#include "abi/objects/interop_api_importer.h"
#include "abi/objects/type_info.h"
#include "base/any_enum.h"
#include "ep/host/plugin_importer.h"
#include "ep/host/plugin_registry.h"
#include "interop/external_handle.h"
#include "interop/importer.h"

namespace tenon {

namespace {

using abi::DeviceImporter;
using abi::DeviceMemory;
using abi::DeviceSemaphore;

// The caller's handle as a plugin gets it: a duplicate of an fd, because the plugin takes that on success and a later
// step of the host's may still fail; else the handle itself.
template <typename Handle>
class Lent {
 public:
  static Result<Lent> lend(const Handle& handle) {
    Lent lent(handle);
    if (handle.type == HandleType::kFd) {
      TENON_TRY_ASSIGN(lent.copy_, OwnedHandle::duplicate_fd(handle.fd));
      lent.handle_.fd = lent.copy_.fd();
    }
    return lent;
  }
  const Handle& handle() const { return handle_; }
  // The plugin's import has succeeded: what its kind's row says became of the duplicate.
  void imported() {
    if (find_handle_kind(handle_.kind)->ownership == HandleOwnership::kConsumed) (void)copy_.release_fd();
  }

 private:
  explicit Lent(const Handle& handle) : handle_(handle) {}
  Handle handle_;
  OwnedHandle copy_;
};

class EpMemory final : public ExternalMemory {
 public:
  explicit EpMemory(ExternalMemoryDescriptor descriptor) : descriptor_(std::move(descriptor)) {}
  void hold(std::shared_ptr<DeviceMemory> memory) { memory_ = std::move(memory); }

  void* data() const override { return nullptr; }
  size_t size_bytes() const override { return descriptor_.size_bytes; }
  ExternalMemoryKind kind() const override { return descriptor_.kind; }
  const std::string& name() const override { return descriptor_.name; }
  bool writable() const override { return descriptor_.writable; }
  Status check() const override { return Status(); }

 private:
  Result<Tensor> make_view(const std::shared_ptr<ExternalMemory>&, DataType type, const Shape& shape,
                           size_t offset_bytes) const override {
    TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
    OrtExternalTensorDescriptor tensor = {};
    tensor.version = ORT_API_VERSION;
    tensor.element_type = abi::to_element_type(type);
    tensor.shape = shape.begin();
    tensor.rank = shape.dims().size();
    tensor.offset_bytes = offset_bytes;
    TENON_TRY_ASSIGN(
        const auto value,
        memory_->create_tensor(
            tensor, {.type = type, .shape = shape, .offset_bytes = offset_bytes, .size_bytes = bytes}, memory_));
    return value->tensor;
  }

  const ExternalMemoryDescriptor descriptor_;
  std::shared_ptr<DeviceMemory> memory_;
};

class EpImporter final : public Importer {
 public:
  EpImporter(std::string ep_name, std::shared_ptr<DeviceImporter> importer)
      : ep_name_(std::move(ep_name)), importer_(std::move(importer)) {}

  bool can_import(ExternalMemoryKind kind) const override {
    const Result<bool> can = importer_->can_import_memory(static_cast<uint32_t>(kind));
    return can.ok() && *can;
  }
  bool can_import(TimelineKind kind) const override {
    const Result<bool> can = importer_->can_import_semaphore(static_cast<uint32_t>(kind));
    return can.ok() && *can;
  }

  Result<std::shared_ptr<ExternalMemory>> import_memory(OwnedHandle& owned,
                                                        const ExternalMemoryDescriptor& descriptor) override {
    TENON_UNSUPPORTED_IF(!can_import(descriptor.kind), "The EP \"{}\" imports no {} on this device.", ep_name_,
                         external_memory_kind_name(descriptor.kind));
    TENON_TRY_ASSIGN(const ExternalHandle handle, read_external_handle(owned, descriptor));
    auto memory = std::make_shared<EpMemory>(descriptor);
    TENON_TRY_ASSIGN(auto lent, Lent<ExternalHandle>::lend(handle));
    TenonExternalMemoryInfo info = external_memory_info(lent.handle());
    OrtExternalMemoryDescriptor described = {};
    described.version = ORT_API_VERSION;
    described.handle_type = as_enum<OrtExternalMemoryHandleType>(TENON_EXTERNAL_MEMORY_DESCRIBED);
    described.native_handle = &info;
    described.size_bytes = descriptor.size_bytes;
    described.offset_bytes = descriptor.offset_bytes;
    TENON_TRY_ASSIGN(auto import, importer_->import_memory(described));
    lent.imported();
    memory->hold(std::move(import));
    consume(owned, handle);
    return std::shared_ptr<ExternalMemory>(std::move(memory));
  }

  Result<std::shared_ptr<Timeline>> import_timeline(OwnedHandle& owned, TimelineKind kind, std::string name,
                                                    TimelineCallbacks on_host) override {
    TENON_UNSUPPORTED_IF(!can_import(kind), "The EP \"{}\" imports no {} on this device.", ep_name_,
                         timeline_kind_name(kind));
    TENON_TRY_ASSIGN(const ExternalSemaphore handle, read_external_semaphore(owned, kind, name));
    std::shared_ptr<Timeline> host;
    if (on_host.value || on_host.wait || on_host.signal) {
      TENON_TRY_ASSIGN(host, make_callback_timeline(name, std::move(on_host)));
    }
    TENON_TRY_ASSIGN(auto lent, Lent<ExternalSemaphore>::lend(handle));
    OrtExternalSemaphoreDescriptor descriptor = {};
    descriptor.version = ORT_API_VERSION;
    descriptor.type = as_enum<OrtExternalSemaphoreType>(static_cast<uint32_t>(kind));
    descriptor.native_handle = handle.type == HandleType::kFd
                                   ? reinterpret_cast<void*>(static_cast<intptr_t>(lent.handle().fd))
                                   : handle.pointer;
    TENON_TRY_ASSIGN(const std::shared_ptr<DeviceSemaphore> semaphore, importer_->import_semaphore(descriptor));
    lent.imported();
    TENON_TRY_ASSIGN(auto timeline, semaphore->timeline(semaphore, std::move(name), std::move(host)));
    consume(owned, handle);
    return timeline;
  }

 private:
  const std::string ep_name_;
  const std::shared_ptr<DeviceImporter> importer_;
};

}  // namespace

Result<std::shared_ptr<Importer>> Importer::create(const std::string& ep_name, size_t device) {
  size_t index = 0;
  for (const OrtEpDevice* known : abi::PluginRegistry::instance().devices()) {
    if (known->ep_name != ep_name || index++ != device) continue;
    if (known->factory == nullptr) return std::shared_ptr<Importer>(std::shared_ptr<void>(), &host());
    TENON_TRY_ASSIGN(std::shared_ptr<DeviceImporter> importer, abi::make_plugin_importer(*known));
    TENON_UNSUPPORTED_IF(importer == nullptr, "The EP \"{}\" has no importer.", ep_name);
    return std::shared_ptr<Importer>(std::make_shared<EpImporter>(ep_name, std::move(importer)));
  }
  return not_found("No registered EP \"{}\" has a device {}.", ep_name, device);
}

}  // namespace tenon
