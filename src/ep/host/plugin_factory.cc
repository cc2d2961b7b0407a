#include "ep/host/plugin_factory.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "ep/api/unified_memory.h"
#include "ep/host/plugin_provider.h"

namespace tenon::abi {

namespace {

// As many as ONNX Runtime makes room for.
constexpr size_t kMostDevices = 8;

const OrtMemoryInfo* memory_of(const OrtEpDevice& device, OrtDeviceMemoryType kind) {
  const auto& info =
      kind == OrtDeviceMemoryType_HOST_ACCESSIBLE ? device.host_accessible_memory : device.default_memory;
  return info ? &*info : nullptr;
}

bool same_device(const OrtMemoryDevice& a, const OrtMemoryDevice& b) {
  return a.type == b.type && a.vendor_id == b.vendor_id && a.device_id == b.device_id;
}

// Whether all of the device's DEFAULT memory is the host's too. Errors: a value that is not known.
Result<bool> read_unified(const std::string& who, const OrtEpDevice& device) {
  const char* value = device.ep_metadata.find(kUnifiedMemoryKey);
  if (value == nullptr || std::string_view(value) == "0" || std::string_view(value) == kUnifiedAllocators) return false;
  if (std::string_view(value) == kUnifiedAll) return true;
  return device_error("{}: the metadata of a device has \"{}\" = \"{}\"; the values are 0, 1 and {}.", who,
                      kUnifiedMemoryKey, value, kUnifiedAllocators);
}

bool declares_unified(const OrtEpDevice& device, const OrtMemoryInfo& memory) {
  const char* value = device.ep_metadata.find(kUnifiedMemoryKey);
  return value != nullptr && std::string_view(value) != "0" && device.default_memory &&
         device.default_memory->device == memory.device && device.default_memory->name == memory.name;
}

bool has_memory_of(const OrtEpDevice& device, const OrtMemoryDevice& memory) {
  for (const auto* info : {&device.default_memory, &device.host_accessible_memory})
    if (info->has_value() && same_device((*info)->device, memory)) return true;
  return false;
}

}  // namespace

Result<PluginFactory::Names> PluginFactory::read_names(const std::string& who, OrtEpFactory* factory) {
  Names names;
  const auto get_name = TENON_MEMBER(factory, OrtEpFactory, GetName);
  TENON_TRY_ASSIGN(const char* name, call_value(who, get_name, factory));
  TENON_TRY_ASSIGN(names.name, checked_text(who, get_name.name, name));
  if (names.name.empty()) return device_error("{}: {} gives an empty name.", who, get_name.name);
  const auto get_vendor = TENON_MEMBER(factory, OrtEpFactory, GetVendor);
  TENON_TRY_ASSIGN(const char* vendor, call_value(who, get_vendor, factory));
  TENON_TRY_ASSIGN(names.vendor, checked_text(who, get_vendor.name, vendor));
  const auto get_version = TENON_MEMBER(factory, OrtEpFactory, GetVersion);
  if (!get_version.too_new()) {
    TENON_TRY_ASSIGN(const char* version, call_value(who, get_version, factory));
    TENON_TRY_ASSIGN(names.version, checked_text(who, get_version.name, version));
  }
  return names;
}

PluginFactory::PluginFactory(PluginLibrary& library, OrtEpFactory* factory)
    : library_(library), factory_(factory), who_(library.who()) {}

PluginFactory::~PluginFactory() {
  std::exchange(*allocators_.lock(), {}).clear();
  transfer_.reset();
}

std::shared_ptr<PluginFactory> PluginFactory::shared() { return {library_.shared_from_this(), this}; }

Result<std::unique_ptr<PluginFactory>> PluginFactory::create(PluginLibrary& library, OrtEpFactory* factory) {
  std::unique_ptr<PluginFactory> made(new PluginFactory(library, factory));
  // The functions that every session needs are checked before anything else is called.
  TENON_TRY(TENON_MEMBER(factory, OrtEpFactory, CreateEp).check(made->who_));
  TENON_TRY(TENON_MEMBER(factory, OrtEpFactory, ReleaseEp).check(made->who_));
  TENON_TRY(made->find_devices());
  TENON_TRY_ASSIGN(Names names, read_names(made->who_, factory));
  made->name_ = std::move(names.name);
  made->who_ = format("EP \"{}\" of {}", made->name_, library.who());
  for (const auto& device : made->ort_devices_) {
    device->ep_metadata.set("library_path", library.path());
    if (!names.version.empty()) device->ep_metadata.set("version", names.version);
    EpDevice& shown = made->devices_.emplace_back(from_ort(*device));
    shown.ep_version = names.version;
    shown.library = library.name();
  }
  TENON_TRY(made->create_shared_allocators());
  TENON_TRY_ASSIGN(made->transfer_, made->create_transfer(nullptr));
  return made;
}

Status PluginFactory::find_devices() {
  std::vector<const OrtHardwareDevice*> hardware;
  for (const auto& device : library_.hardware()) hardware.push_back(device.get());
  std::array<OrtEpDevice*, kMostDevices> found = {};
  size_t count = 0;
  const auto get_devices = TENON_MEMBER(factory_, OrtEpFactory, GetSupportedDevices);
  const Status status =
      call(who_, get_devices, factory_, hardware.data(), hardware.size(), found.data(), found.size(), &count);
  // Whatever it says, what it made and put here is the host's.
  bool all_real = true;
  for (OrtEpDevice* device : found) {
    if (device == nullptr) continue;
    if (take_ep_device(device)) {
      ort_devices_.emplace_back(device);
    } else {
      all_real = false;
    }
  }
  TENON_TRY(status);
  if (count > found.size())
    return device_error("{}: {} says that it gives {} devices where there is room for {}.", who_, get_devices.name,
                        count, found.size());
  if (!all_real)
    return device_error("{}: {} gives a device twice, or one that CreateEpDevice did not make.", who_,
                        get_devices.name);
  if (count != ort_devices_.size())
    return device_error("{}: {} says that it gives {} devices and gives {}.", who_, get_devices.name, count,
                        ort_devices_.size());
  for (const auto& device : ort_devices_) {
    if (device->factory != factory_)
      return device_error("{}: {} gives a device of another factory.", who_, get_devices.name);
    device->library = library_.weak_from_this();
    TENON_TRY_ASSIGN(const bool all_unified, read_unified(who_, *device));
    if (device->default_memory) device->default_memory->unified = all_unified;
    if (device->default_memory) device->use = use_of(device->default_memory->device);
    if (device->use == nullptr) device->use = std::make_shared<DeviceUse>();
  }
  return {};
}

std::shared_ptr<DeviceUse> PluginFactory::use_of(const OrtMemoryDevice& memory) const {
  for (const auto& device : ort_devices_)
    if (device->use != nullptr && has_memory_of(*device, memory)) return device->use;
  return nullptr;
}

Status PluginFactory::create_shared_allocators() {
  for (const auto& device : ort_devices_) {
    for (OrtDeviceMemoryType kind : {OrtDeviceMemoryType_DEFAULT, OrtDeviceMemoryType_HOST_ACCESSIBLE}) {
      if (memory_of(*device, kind) == nullptr) continue;
      TENON_TRY(share_allocator(*device, kind, nullptr).status());
    }
  }
  return {};
}

Result<std::shared_ptr<PluginAllocator>> PluginFactory::share_allocator(const OrtEpDevice& device,
                                                                        OrtDeviceMemoryType kind,
                                                                        const OrtKeyValuePairs* options) {
  const OrtMemoryInfo* info = memory_of(device, kind);
  TENON_INVALID_IF(info == nullptr, "Invalid memory type for OrtEpDevice.");
  (void)exchange_shared_allocator(device, kind, nullptr);
  TENON_TRY_ASSIGN(auto allocator, create_allocator(*info, options, nullptr));
  (void)exchange_shared_allocator(device, kind, allocator);
  return allocator;
}

Status PluginFactory::release_shared_allocator(const OrtEpDevice& device, OrtDeviceMemoryType kind) {
  TENON_INVALID_IF(memory_of(device, kind) == nullptr, "Invalid memory type for OrtEpDevice.");
  TENON_INVALID_IF(exchange_shared_allocator(device, kind, nullptr) == nullptr,
                   "No allocator for this device has been registered for sharing.");
  return {};
}

std::shared_ptr<PluginAllocator> PluginFactory::exchange_shared_allocator(const OrtEpDevice& device,
                                                                          OrtDeviceMemoryType kind,
                                                                          std::shared_ptr<PluginAllocator> next) {
  std::shared_ptr<PluginAllocator> earlier;
  auto shared = allocators_.lock();
  const auto found = std::find_if(shared->begin(), shared->end(), [&](const SharedAllocator& one) {
    return one.device == &device && one.kind == kind;
  });
  if (found != shared->end()) {
    earlier = std::move(found->allocator);
    shared->erase(found);
  }
  if (next != nullptr) shared->push_back({&device, kind, std::move(next)});
  return earlier;
}

std::shared_ptr<PluginAllocator> PluginFactory::find_shared_allocator(const OrtMemoryInfo& info) {
  auto shared = allocators_.lock();
  std::shared_ptr<PluginAllocator> serving;
  for (const SharedAllocator& one : *shared) {
    if (one.allocator->info().device == info.device) return one.allocator;
    if (serving == nullptr && serves(one.allocator->info().device, info.device)) serving = one.allocator;
  }
  return serving;
}

std::vector<std::shared_ptr<DeviceAllocator>> PluginFactory::shared_allocators(size_t device) {
  std::vector<std::shared_ptr<DeviceAllocator>> found;
  if (device >= ort_devices_.size()) return found;
  auto shared = allocators_.lock();
  for (const SharedAllocator& one : *shared) {
    if (one.device == ort_devices_[device].get()) found.push_back(one.allocator);
  }
  return found;
}

bool PluginFactory::stream_aware() const {
  const auto member = TENON_MEMBER(factory_, OrtEpFactory, IsStreamAware);
  if (member.absent()) return false;
  const Result<bool> aware = call_value(who_, member, static_cast<const OrtEpFactory*>(factory_));
  return aware.ok() && *aware;
}

Result<std::shared_ptr<PluginAllocator>> PluginFactory::create_allocator(const OrtMemoryInfo& info,
                                                                         const OrtKeyValuePairs* options,
                                                                         std::shared_ptr<const void> keep) {
  const auto create = TENON_MEMBER(factory_, OrtEpFactory, CreateAllocator);
  if (create.absent()) return std::shared_ptr<PluginAllocator>();
  // Before there is an allocator that could not be released.
  TENON_TRY(TENON_MEMBER(factory_, OrtEpFactory, ReleaseAllocator).check(who_));
  OrtAllocator* allocator = nullptr;
  TENON_TRY(call(who_, create, factory_, &info, options, &allocator));
  return adopt_allocator(allocator, std::move(keep));
}

Result<std::shared_ptr<PluginAllocator>> PluginFactory::adopt_allocator(OrtAllocator* allocator,
                                                                        std::shared_ptr<const void> keep) {
  if (allocator == nullptr) return std::shared_ptr<PluginAllocator>();
  const auto release = TENON_MEMBER(factory_, OrtEpFactory, ReleaseAllocator);
  TENON_TRY(release.check(who_));
  const auto give_back = [who = who_, release, factory = factory_](OrtAllocator* released) {
    const Status status = call_value(who, release, factory, released);
    if (!status.ok()) log_warning("plugin", "{}", status.message());
  };
  TENON_TRY_ASSIGN(auto made,
                   PluginAllocator::create(who_, allocator, give_back, std::move(keep), library_.weak_from_this()));
  made->count_in(use_of(made->info().device));
  for (const auto& device : ort_devices_)
    if (declares_unified(*device, made->info())) made->share_with_host();
  return made;
}

Result<std::unique_ptr<PluginTransfer>> PluginFactory::create_transfer(std::shared_ptr<const void> keep) {
  const auto create = TENON_MEMBER(factory_, OrtEpFactory, CreateDataTransfer);
  if (create.too_new()) return std::unique_ptr<PluginTransfer>();
  OrtDataTransferImpl* impl = nullptr;
  TENON_TRY(call(who_, create, factory_, &impl));
  if (impl == nullptr) return std::unique_ptr<PluginTransfer>();
  return PluginTransfer::create(who_, impl, library_, std::move(keep));
}

Result<std::unique_ptr<PluginStream>> PluginFactory::create_stream(const OrtMemoryDevice& device,
                                                                   const OrtKeyValuePairs* options,
                                                                   std::shared_ptr<const void> keep) {
  const auto create = TENON_MEMBER(factory_, OrtEpFactory, CreateSyncStreamForDevice);
  if (create.absent()) return std::unique_ptr<PluginStream>();
  OrtSyncStreamImpl* impl = nullptr;
  TENON_TRY(call(who_, create, factory_, &device, options, &impl));
  if (impl == nullptr) return std::unique_ptr<PluginStream>();
  return PluginStream::create(who_, impl, device, *this, std::move(keep));
}

Result<std::unique_ptr<DeviceProvider>> PluginFactory::create_provider(const EpChoice& choice,
                                                                       std::span<const size_t> devices,
                                                                       const SessionOptions& options) {
  if (devices.empty())
    return unsupported(
        "{} offers no device on this machine, so no session can use it. If it only asks for another vendor's hardware, "
        "offer it a device when its library is registered (EpLibraryOptions::offer, --offer).",
        who_);
  return PluginProvider::create(shared(), choice, devices, options);
}

std::shared_ptr<PluginFactory> factory_of(const OrtEpDevice& device) {
  const std::shared_ptr<PluginLibrary> library = device.library.lock();
  if (library == nullptr) return nullptr;
  for (auto& factory : library->factories()) {
    if (factory->ort() == device.factory) return factory;
  }
  return nullptr;
}

}  // namespace tenon::abi
