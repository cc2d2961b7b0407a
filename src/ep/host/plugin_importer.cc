#include "ep/host/plugin_importer.h"

#include <map>
#include <utility>

#include "abi/objects/status.h"
#include "base/any_enum.h"
#include "base/guarded.h"
#include "base/log.h"
#include "device/memory_space.h"
#include "ep/host/device_use.h"
#include "ep/host/ep_timeline.h"
#include "ep/host/plugin_library.h"
#include "ep/host/plugin_member.h"
#include "interop/external_handle.h"

namespace tenon::abi {

namespace {

using Impl = OrtExternalResourceImporterImpl;

// For messages: `EP "x"`.
std::string who_of(const OrtEpDevice& device) { return format("EP \"{}\"", device.ep_name); }

std::string space_text(const OrtMemoryDevice& device) { return to_memory_space({.device = device}).to_string(); }

Result<std::shared_ptr<PluginLibrary>> library_of(const OrtEpDevice& device) {
  auto library = device.library.lock();
  TENON_INVALID_IF(library == nullptr, "The library of {} is not registered any more.", who_of(device));
  return library;
}

void warn(const Status& status) {
  if (!status.ok()) log_warning("interop", "{}", status.message());
}

#define TENON_IMPORTER_MEMBER_(name)                                   \
  PluginMember<decltype(OrtExternalResourceImporterImpl::name)> name = \
      TENON_MEMBER(impl, OrtExternalResourceImporterImpl, name)

// Read once: an importer's functions stay what they are, and imports come by the frame.
struct ImporterMembers {
  explicit ImporterMembers(Impl* from) : impl(from) {}
  Impl* impl;
  TENON_IMPORTER_MEMBER_(Release);
  TENON_IMPORTER_MEMBER_(CanImportMemory);
  TENON_IMPORTER_MEMBER_(ImportMemory);
  TENON_IMPORTER_MEMBER_(ReleaseMemory);
  TENON_IMPORTER_MEMBER_(CreateTensorFromMemory);
  TENON_IMPORTER_MEMBER_(CanImportSemaphore);
  TENON_IMPORTER_MEMBER_(ImportSemaphore);
  TENON_IMPORTER_MEMBER_(ReleaseSemaphore);
  TENON_IMPORTER_MEMBER_(WaitSemaphore);
  TENON_IMPORTER_MEMBER_(SignalSemaphore);
};
#undef TENON_IMPORTER_MEMBER_

class PluginImporter final : public DeviceImporter {
 public:
  PluginImporter(std::string who, Impl* impl, const OrtEpDevice& device, std::shared_ptr<PluginLibrary> keep)
      : keep_(std::move(keep)),
        use_(device.use, UseKind::kImporter),
        who_(std::move(who)),
        impl_(impl),
        members_(impl),
        ep_device_(device),
        device_(device.default_memory ? device.default_memory->device : OrtMemoryDevice{}),
        unified_(device.default_memory && device.default_memory->unified) {}
  ~PluginImporter() override {
    if (!members_.Release.absent()) warn(call_value(who_, members_.Release, impl_));
  }

  Result<bool> can_import_memory(uint32_t kind) const override {
    return call_value(who_, members_.CanImportMemory, impl_, as_enum<OrtExternalMemoryHandleType>(kind));
  }
  Result<bool> can_import_semaphore(uint32_t kind) const override {
    return call_value(who_, members_.CanImportSemaphore, impl_, as_enum<OrtExternalSemaphoreType>(kind));
  }
  Result<std::shared_ptr<DeviceMemory>> import_memory(const OrtExternalMemoryDescriptor& descriptor) override;
  Result<std::shared_ptr<DeviceSemaphore>> import_semaphore(const OrtExternalSemaphoreDescriptor& descriptor) override;

  const std::string& who() const { return who_; }
  Impl* impl() const { return impl_; }
  const ImporterMembers& members() const { return members_; }
  const OrtEpDevice& device() const { return ep_device_; }
  MemorySpace space() const { return to_memory_space({.device = device_}); }
  bool unified() const { return unified_; }
  // A stream of another device cannot order this one's work, and one of another library is no stream that this one
  // knows, whatever device it is for.
  Status check_stream(const OrtSyncStream& stream) const {
    TENON_INVALID_IF(stream.library != keep_.get(),
                     "The stream belongs to {}, and the semaphore was imported by {}: only a stream of the same EP "
                     "library can wait for it or signal it.",
                     stream.who, who_);
    TENON_INVALID_IF(stream.device.type != device_.type || stream.device.vendor_id != device_.vendor_id ||
                         stream.device.device_id != device_.device_id,
                     "The stream belongs to another device ({}) than the importer of {} ({}).",
                     space_text(stream.device), who_, space_text(device_));
    return Status();
  }

 private:
  const std::shared_ptr<PluginLibrary> keep_;
  const DeviceUse::Use use_;
  const std::string who_;
  Impl* const impl_;
  const ImporterMembers members_;
  const OrtEpDevice& ep_device_;  // the library's
  const OrtMemoryDevice device_;
  const bool unified_;
};

// Releases a plugin's handle: through the handle itself, as ONNX Runtime does, which has no importer there.
template <typename Handle, typename Member>
void release_handle(const std::string& who, Impl* impl, Handle* handle,
                    const PluginMember<decltype(Handle::Release)>& own, const Member& importers) {
  if (own) {
    warn(call_value(who, own, handle));
  } else if (!importers.absent()) {
    warn(call_value(who, importers, impl, handle));
  }
}

class PluginMemory final : public DeviceMemory {
 public:
  PluginMemory(std::shared_ptr<PluginImporter> importer, bool read_only)
      : importer_(std::move(importer)), read_only_(read_only) {}
  // Made before the import: after that, the caller's handle is the plugin's.
  void hold(OrtExternalMemoryHandle* handle) { handle_ = handle; }
  ~PluginMemory() override {
    if (handle_ == nullptr) return;
    release_handle(importer_->who(), importer_->impl(), handle_,
                   TENON_MEMBER_OF_(handle_, handle_->version, OrtExternalMemoryHandle, Release),
                   importer_->members().ReleaseMemory);
  }

  Result<std::unique_ptr<OrtValue>> create_tensor(const OrtExternalTensorDescriptor& descriptor,
                                                  const ImportedView& view,
                                                  const std::shared_ptr<DeviceMemory>& self) override {
    Impl* impl = importer_->impl();
    const auto& member = importer_->members().CreateTensorFromMemory;
    OrtValue* made = nullptr;
    TENON_TRY(call(importer_->who(), member, impl, handle_, &descriptor, &made));
    if (!is_value(made))
      return device_error("{}: {} gives {}, with success.", importer_->who(), member.name,
                          made == nullptr ? "no tensor" : "a pointer that leads to no value");
    std::unique_ptr<OrtValue> value(made);
    const Tensor& tensor = value->tensor;
    if (!value->is_tensor() || tensor.type() != view.type || !(tensor.shape() == view.shape))
      return device_error("{}: {} gives another value than the {} tensor of shape {} that was asked for.",
                          importer_->who(), member.name, data_type_name(view.type), view.shape.to_string());
    const MemorySpace& space = tensor.space();
    const MemorySpace own = importer_->space();
    const bool foreign =
        space.device_type != own.device_type || space.vendor_id != own.vendor_id || space.device_id != own.device_id;
    if (foreign && space.device_type != DeviceType::kCpu)
      return device_error("{}: {} gives a tensor in {} for an import of the device {}.", importer_->who(), member.name,
                          space.to_string(), own.to_string());
    // ONNX Runtime lets the program keep the import alive; here the tensor does, whatever the plugin's own does.
    struct Owners {
      std::shared_ptr<const void> plugins;
      std::shared_ptr<DeviceMemory> import;
    };
    auto owners = std::make_shared<Owners>(tensor.owner(), self);
    MemorySpace at = space;
    at.unified = at.unified || (importer_->unified() && same_memory(space, own));
    TENON_TRY_ASSIGN(Tensor held, Tensor::view(tensor.type(), tensor.shape(), tensor.data(), tensor.capacity_bytes(),
                                               std::move(owners), at));
    // Drivers protect few of their mappings, and plugins are not asked to: the host marks the tensor.
    value->tensor = read_only_ || tensor.read_only() ? held.as_read_only() : std::move(held);
    return value;
  }

 private:
  const std::shared_ptr<PluginImporter> importer_;
  OrtExternalMemoryHandle* handle_ = nullptr;
  const bool read_only_;
};

class PluginSemaphore final : public DeviceSemaphore {
 public:
  explicit PluginSemaphore(std::shared_ptr<PluginImporter> importer) : importer_(std::move(importer)) {}
  void hold(OrtExternalSemaphoreHandle* handle) { handle_ = handle; }
  ~PluginSemaphore() override {
    if (handle_ == nullptr) return;
    release_handle(importer_->who(), importer_->impl(), handle_,
                   TENON_MEMBER_OF_(handle_, handle_->version, OrtExternalSemaphoreHandle, Release),
                   importer_->members().ReleaseSemaphore);
  }

  Status wait(OrtSyncStream& stream, uint64_t value) override {
    TENON_TRY(importer_->check_stream(stream));
    return call(importer_->who(), importer_->members().WaitSemaphore, importer_->impl(), handle_, &stream, value);
  }
  Status signal(OrtSyncStream& stream, uint64_t value) override {
    TENON_TRY(importer_->check_stream(stream));
    return call(importer_->who(), importer_->members().SignalSemaphore, importer_->impl(), handle_, &stream, value);
  }
  Result<std::shared_ptr<Timeline>> timeline(const std::shared_ptr<DeviceSemaphore>& self, std::string name,
                                             std::shared_ptr<Timeline> on_host) override {
    TENON_TRY_ASSIGN(auto made, EpTimeline::create(std::move(name), importer_->device(), self, std::move(on_host)));
    return std::shared_ptr<Timeline>(std::move(made));
  }
  OrtExternalSemaphoreHandle* native() const override { return handle_; }

 private:
  const std::shared_ptr<PluginImporter> importer_;
  OrtExternalSemaphoreHandle* handle_ = nullptr;
};

Result<std::shared_ptr<DeviceMemory>> PluginImporter::import_memory(const OrtExternalMemoryDescriptor& descriptor) {
  const auto& member = members_.ImportMemory;
  OrtExternalMemoryHandle* handle = nullptr;
  // The plugin refuses a handle that cannot be read here; it may know more kinds.
  const Result<ExternalHandle> native =
      read_external_handle(static_cast<uint32_t>(descriptor.handle_type), descriptor.native_handle);
  auto memory = std::make_shared<PluginMemory>(std::static_pointer_cast<PluginImporter>(shared_from_this()),
                                               native.ok() && native->read_only);
  TENON_TRY(call(who_, member, impl_, &descriptor, &handle));
  TENON_TRY(check_object(who_, "OrtExternalMemoryHandle", handle, member.name));
  memory->hold(handle);
  return std::shared_ptr<DeviceMemory>(std::move(memory));
}

Result<std::shared_ptr<DeviceSemaphore>> PluginImporter::import_semaphore(
    const OrtExternalSemaphoreDescriptor& descriptor) {
  const auto& member = members_.ImportSemaphore;
  OrtExternalSemaphoreHandle* handle = nullptr;
  auto semaphore = std::make_shared<PluginSemaphore>(std::static_pointer_cast<PluginImporter>(shared_from_this()));
  TENON_TRY(call(who_, member, impl_, &descriptor, &handle));
  TENON_TRY(check_object(who_, "OrtExternalSemaphoreHandle", handle, member.name));
  semaphore->hold(handle);
  return std::shared_ptr<DeviceSemaphore>(std::move(semaphore));
}

// Graphics interop of a device: initialised, or a call of the plugin is about to change that. The library makes an
// address mean the same device.
struct GraphicsDevice {
  std::weak_ptr<PluginLibrary> library;
  bool changing = false;
};
using GraphicsDevices = std::map<const OrtEpDevice*, GraphicsDevice>;
Guarded<GraphicsDevices>& graphics_devices() {
  static Guarded<GraphicsDevices> devices;
  return devices;
}

// Null when it is not initialised.
GraphicsDevice* find_graphics(GraphicsDevices& devices, const OrtEpDevice& device,
                              const std::shared_ptr<PluginLibrary>& library) {
  const auto found = devices.find(&device);
  return found != devices.end() && found->second.library.lock() == library ? &found->second : nullptr;
}

// After the plugin's call: the device is initialised, or it is not.
void set_graphics(const OrtEpDevice& device, bool initialised) {
  auto devices = graphics_devices().lock();
  if (initialised) {
    (*devices)[&device].changing = false;
  } else {
    devices->erase(&device);
  }
}

}  // namespace

Result<std::shared_ptr<DeviceImporter>> make_plugin_importer(const OrtEpDevice& device) {
  TENON_TRY_ASSIGN(auto library, library_of(device));
  const std::string who = format("{} of {}", who_of(device), library->who());
  const auto member = TENON_MEMBER(device.factory, OrtEpFactory, CreateExternalResourceImporterForDevice);
  if (member.absent()) return std::shared_ptr<DeviceImporter>();
  Impl* impl = nullptr;
  Status status = call(who, member, device.factory, &device, &impl);
  // A factory may have the member and still say that this device has no importer.
  if (status.code() == StatusCode::kUnsupported || (status.ok() && impl == nullptr))
    return std::shared_ptr<DeviceImporter>();
  TENON_TRY(status);
  TENON_TRY(check_object(who, "OrtExternalResourceImporterImpl", impl, member.name));
  return std::shared_ptr<DeviceImporter>(std::make_shared<PluginImporter>(who, impl, device, std::move(library)));
}

Status init_graphics_interop(const OrtEpDevice& device, const OrtGraphicsInteropConfig& config) {
  TENON_TRY_ASSIGN(auto library, library_of(device));
  const auto member = TENON_MEMBER(device.factory, OrtEpFactory, InitGraphicsInterop);
  TENON_TRY(member.check(who_of(device)));
  {
    // Listed before the call, which runs with no lock held: of two at once, the second one is refused.
    auto devices = graphics_devices().lock();
    TENON_INVALID_IF(find_graphics(*devices, device, library) != nullptr,
                     "Graphics interop of {} is initialised already; it ends with DeinitGraphicsInteropForEpDevice.",
                     who_of(device));
    TENON_TRY(device.use->check_untouched(who_of(device)));
    (*devices)[&device] = {.library = library, .changing = true};
  }
  Status status = call(who_of(device), member, device.factory, &device, &config);
  set_graphics(device, status.ok());
  return status;
}

Status deinit_graphics_interop(const OrtEpDevice& device) {
  TENON_TRY_ASSIGN(auto library, library_of(device));
  const auto member = TENON_MEMBER(device.factory, OrtEpFactory, DeinitGraphicsInterop);
  TENON_TRY(member.check(who_of(device)));
  {
    auto devices = graphics_devices().lock();
    GraphicsDevice* const found = find_graphics(*devices, device, library);
    if (found == nullptr) return Status();
    TENON_INVALID_IF(found->changing, "Another call initialises or ends the graphics interop of {}.", who_of(device));
    TENON_TRY(device.use->check_idle(who_of(device)));
    found->changing = true;
  }
  Status status = call(who_of(device), member, device.factory, &device);
  if (status.ok()) device.use->reset();
  set_graphics(device, !status.ok());
  return status;
}

}  // namespace tenon::abi
