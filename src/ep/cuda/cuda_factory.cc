#include "ep/cuda/cuda_factory.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "base/version.h"
#include "ep/api/binding_alignment.h"
#include "ep/api/in_place.h"
#include "ep/api/run_fences.h"
#include "ep/api/unified_memory.h"
#include "ep/cuda/cuda_ep.h"
#include "ep/cuda/cuda_importer.h"
#include "ep/cuda/cuda_plugin_objects.h"
#include "ep/cuda/graphics_interop.h"
#include "ep/cuda/kernel_alignment.h"
#include "ep/cuda/lap.h"
#include "interop/external_handle.h"

namespace tenon::cuda {

using plugin::HostApi;

namespace {

constexpr int kOldestCapability = 80;
// Blocks are aligned to 256 bytes, but a promise here would make stock hosts copy whatever programs bind: their memory
// infos promise nothing.
constexpr size_t kAlignment = 0;
constexpr const char* kOrdinalKey = "cuda_device_id";

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  return result;
}

}  // namespace

CudaFactory::CudaFactory(const HostApi& host, const CudaDriver* driver, MakeRegionCompiler compiler)
    : EpFactory(host,
                {.ep_name = kCudaEpName, .vendor = "Tenon", .vendor_id = kNvidiaVendorId, .version = project_version()},
                {.streams = true, .importer = true, .graphics_interop = true}),
      driver_(driver),
      compiler_(std::move(compiler)) {}

Result<std::unique_ptr<CudaFactory>> CudaFactory::create(const HostApi& host, const OrtLogger* logger,
                                                         Result<const CudaDriver*> driver,
                                                         MakeRegionCompiler compiler) {
  std::unique_ptr<CudaFactory> factory(new CudaFactory(host, driver.ok() ? *driver : nullptr, std::move(compiler)));
  Status found = driver.ok() ? factory->find_devices(logger) : driver.status();
  // A machine without CUDA is no reason for the library to fail: the EP is there, and has no device.
  if (!found.ok())
    host.log(logger, ORT_LOGGING_LEVEL_WARNING, tenon::format("{} offers no device: {}", kCudaEpName, found.message()));
  return factory;
}

Status CudaFactory::find_devices(const OrtLogger* logger) {
  int count = 0;
  TENON_CUDA_TRY(*driver_, DeviceGetCount, &count);
  if (count == 0) return not_found("The CUDA driver shows no device.");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    TENON_TRY_ASSIGN(CudaDeviceInfo info, describe_device(*driver_, ordinal));
    if (info.compute_capability < kOldestCapability) {
      host().log(logger, ORT_LOGGING_LEVEL_WARNING,
                 tenon::format("CUDA device {} ({}) has compute capability {}.{}; {} needs 8.0 or newer.", ordinal,
                               info.name, info.compute_capability / 10, info.compute_capability % 10, kCudaEpName));
      continue;
    }
    Offered offered{.info = std::move(info)};
    TENON_TRY_ASSIGN(offered.device_memory, make_memory_info(ordinal, MemoryKind::kDefault, "TenonCuda"));
    TENON_TRY_ASSIGN(offered.pinned_memory, make_memory_info(ordinal, MemoryKind::kHostAccessible, "TenonCudaPinned"));
    if (offered.info.integrated) {
      TENON_TRY_ASSIGN(offered.session_memory, make_memory_info(ordinal, MemoryKind::kDefault, "TenonCudaSession"));
    }
    devices_.push_back(std::move(offered));
  }
  return devices_.empty() ? not_found("No CUDA device of this machine is new enough.") : Status();
}

Result<plugin::HostPtr<OrtMemoryInfo>> CudaFactory::make_memory_info(int ordinal, MemoryKind kind,
                                                                     const char* name) const {
  const bool pinned = kind == MemoryKind::kHostAccessible;
  OrtMemoryInfo* info = nullptr;
  TENON_ORT_TRY(host(), CreateMemoryInfo_V2, name, OrtMemoryInfoDeviceType_GPU, kNvidiaVendorId, ordinal,
                pinned ? OrtDeviceMemoryType_HOST_ACCESSIBLE : OrtDeviceMemoryType_DEFAULT, kAlignment,
                OrtDeviceAllocator, &info);
  return host().own(info, host().ort().ReleaseMemoryInfo);
}

const CudaFactory::Offered* CudaFactory::offered(int ordinal) const {
  for (const Offered& device : devices_)
    if (device.info.ordinal == ordinal) return &device;
  return nullptr;
}

Result<const CudaFactory::Offered*> CudaFactory::chosen(const OrtKeyValuePairs* metadata) const {
  for (const auto& [key, value] : host().read_pairs(metadata)) {
    if (key != kOrdinalKey) continue;
    int ordinal = -1;
    (void)std::from_chars(value.data(), value.data() + value.size(), ordinal);
    const Offered* device = offered(ordinal);
    TENON_INVALID_IF(device == nullptr, "There is no CUDA device \"{}\".", value);
    return device;
  }
  return invalid_argument("The device of {} has no \"{}\" in its metadata.", kCudaEpName, kOrdinalKey);
}

const OrtMemoryInfo* CudaFactory::memory_info(int ordinal, MemoryKind kind) const {
  const Offered* device = offered(ordinal);
  if (device == nullptr) return nullptr;
  return (kind == MemoryKind::kDefault ? device->device_memory : device->pinned_memory).get();
}

const OrtHardwareDevice* CudaFactory::find_hardware(std::span<const OrtHardwareDevice* const> devices,
                                                    const CudaDeviceInfo& info) const {
  const OrtApi& ort = host().ort();
  std::vector<const OrtHardwareDevice*> unknown;
  for (const OrtHardwareDevice* hardware : devices) {
    if (ort.HardwareDevice_Type(hardware) != OrtHardwareDeviceType_GPU ||
        ort.HardwareDevice_VendorId(hardware) != kNvidiaVendorId)
      continue;
    std::string address;
    for (const auto& [key, value] : host().read_pairs(ort.HardwareDevice_Metadata(hardware)))
      if (key == "pci_bus_id") address = lower(value);
    if (address == lower(info.pci_bus_id)) return hardware;
    if (address.empty()) unknown.push_back(hardware);
  }
  // Where the host tells no address, only one of each is clear.
  return unknown.size() == 1 && devices_.size() == 1 ? unknown[0] : nullptr;
}

Result<std::vector<plugin::DeviceOffer>> CudaFactory::offer_devices(std::span<const OrtHardwareDevice* const> devices) {
  std::vector<plugin::DeviceOffer> offers;
  for (Offered& device : devices_) {
    const CudaDeviceInfo& info = device.info;
    const OrtHardwareDevice* hardware = find_hardware(devices, info);
    if (hardware == nullptr && device.own_hardware == nullptr) {
      // Hosts find GPUs through sysfs, which virtual machines and containers often lack.
      TENON_TRY_ASSIGN(device.own_hardware,
                       make_hardware_device(OrtHardwareDeviceType_GPU, static_cast<uint32_t>(info.ordinal),
                                            {{"pci_bus_id", lower(info.pci_bus_id)},
                                             {"Discrete", info.integrated ? "0" : "1"},
                                             {"Description", info.name}}));
    }
    DeviceUuid uuid;
    std::copy(info.uuid.begin(), info.uuid.end(), uuid.begin());
    plugin::DeviceOffer offer{
        .hardware = hardware != nullptr ? hardware : device.own_hardware,
        .metadata = {{kOrdinalKey, std::to_string(info.ordinal)},
                     {"cuda_device_name", info.name},
                     {"cuda_compute_capability",
                      tenon::format("{}.{}", info.compute_capability / 10, info.compute_capability % 10)},
                     {"cuda_device_uuid", uuid_text(uuid)},
                     {kRunFencesKey, "1"},
                     {kBindingAlignmentKey, std::to_string(kBindingAlignment)},
                     {kInPlaceKey, "1"}},
        .allocators = {device.device_memory.get(), device.pinned_memory.get()}};
    if (info.luid) offer.metadata.emplace_back("cuda_device_luid", luid_text(*info.luid));
    if (info.integrated) offer.metadata.emplace_back(kUnifiedMemoryKey, kUnifiedAllocators);
    offers.push_back(std::move(offer));
  }
  return offers;
}

Result<std::unique_ptr<plugin::Ep>> CudaFactory::create_ep(const plugin::EpRequest& request) {
  TENON_INVALID_IF(request.metadata.empty(), "A session of {} gets no device metadata.", kCudaEpName);
  if (request.devices.size() > 1)
    host().log(request.logger, ORT_LOGGING_LEVEL_INFO,
               tenon::format("{} runs a session on the first of the {} devices that it is given.", kCudaEpName,
                             request.devices.size()));
  TENON_TRY_ASSIGN(const Offered* device, chosen(request.metadata[0]));
  TENON_TRY_ASSIGN(const plugin::TextPairs entries, host().session_entries(request.session_options));
  const std::string prefix = option_prefix();
  const std::string_view prefixes[] = {prefix, "ep.cuda."};
  TENON_TRY_ASSIGN(CudaOptions options, CudaOptions::parse(prefixes, entries));
  for (const std::string& warning : options.warnings)
    host().log(request.logger, ORT_LOGGING_LEVEL_WARNING, tenon::format("{}: {}", kCudaEpName, warning));
  TENON_INVALID_IF(options.device_id && *options.device_id != device->info.ordinal,
                   "Option \"device_id\" is {}, but the session runs on CUDA device {}.", *options.device_id,
                   device->info.ordinal);
  Lap lap;
  TENON_TRY_ASSIGN(auto memory, CudaMemory::of(*driver_, device->info.ordinal));
  const double context_ms = lap.ms();
  TENON_TRY_ASSIGN(auto session, CudaSession::create(host(), std::move(memory), std::move(options), request.logger));
  std::unique_ptr<RegionCompiler> compiler;
  if (compiler_) {
    TENON_TRY_CONTEXT(session->until_code_loads(), "while making a session");
    TENON_TRY_ASSIGN(compiler, compiler_(session));
  }
  TENON_TRY_ASSIGN(auto ep, CudaEp::create(*this, session, std::move(compiler)));
  TENON_TRACE(kPlan, "CUDA: context {:.1f} ms, the session's own parts {:.1f} ms.", context_ms, lap.ms());
  return std::unique_ptr<plugin::Ep>(std::move(ep));
}

Result<std::unique_ptr<plugin::Allocator>> CudaFactory::make_allocator(const OrtMemoryInfo* info,
                                                                       const std::shared_ptr<CudaSession>& session) {
  const OrtMemoryDevice* memory_device = host().ep().MemoryInfo_GetMemoryDevice(info);
  TENON_INVALID_IF(memory_device == nullptr, "The memory info of an allocator has no device.");
  const MemorySpace space = plugin::memory_space(host(), memory_device);
  const OrtMemoryInfo* ours = space.vendor_id == kNvidiaVendorId && space.device_type == DeviceType::kGpu
                                  ? memory_info(space.device_id, space.kind)
                                  : nullptr;
  TENON_UNSUPPORTED_IF(ours == nullptr, "{} has no memory at {}.", kCudaEpName, space.to_string());
  std::unique_ptr<plugin::Allocator> allocator;
  const bool own = session != nullptr &&
                   (session->options().external_allocator.given() || session->options().memory_limit_bytes != SIZE_MAX);
  const Offered& device = *offered(space.device_id);
  if (space.kind == MemoryKind::kHostAccessible || (device.info.integrated && !own)) {
    // An integrated GPU has no memory of its own: page-locked memory is what both address, at one address.
    allocator = std::make_unique<PinnedAllocator>(host(), ours, *driver_, space.device_id);
  } else if (own) {
    allocator = std::make_unique<SessionAllocator>(
        host(), device.session_memory != nullptr ? device.session_memory.get() : ours, session);
  } else {
    allocator = std::make_unique<PoolAllocator>(host(), ours, *driver_, space.device_id);
  }
  return allocator;
}

Result<std::unique_ptr<plugin::Allocator>> CudaFactory::create_allocator(const OrtMemoryInfo* info,
                                                                         const plugin::TextPairs&) {
  return make_allocator(info, nullptr);
}

Result<std::unique_ptr<plugin::DataTransfer>> CudaFactory::create_data_transfer() {
  if (devices_.empty()) return std::unique_ptr<plugin::DataTransfer>();
  std::vector<int> ordinals;
  ordinals.reserve(devices_.size());
  for (const Offered& device : devices_) ordinals.push_back(device.info.ordinal);
  return std::unique_ptr<plugin::DataTransfer>(
      std::make_unique<CudaDataTransfer>(host(), *driver_, std::move(ordinals)));
}

Result<std::unique_ptr<plugin::SyncStream>> CudaFactory::create_stream(const OrtMemoryDevice* device,
                                                                       const plugin::TextPairs&) {
  const MemorySpace space = plugin::memory_space(host(), device);
  TENON_UNSUPPORTED_IF(space.vendor_id != kNvidiaVendorId || offered(space.device_id) == nullptr,
                       "{} has no streams for {}.", kCudaEpName, space.to_string());
  TENON_TRY_ASSIGN(auto memory, CudaMemory::of(*driver_, space.device_id));
  TENON_TRY_ASSIGN(auto stream, CudaStream::create(memory->device()));
  memory->streams().add(stream);
  return std::unique_ptr<plugin::SyncStream>(
      std::make_unique<CudaSyncStream>(host(), std::move(memory), std::move(stream)));
}

Result<std::unique_ptr<plugin::Importer>> CudaFactory::create_importer(const OrtEpDevice* ep_device) {
  TENON_TRY_ASSIGN(const Offered* device, chosen(host().ort().EpDevice_EpMetadata(ep_device)));
  TENON_TRY_ASSIGN(auto memory, CudaMemory::of(*driver_, device->info.ordinal));
  return std::unique_ptr<plugin::Importer>(std::make_unique<CudaImporter>(
      host(), ep_device, std::move(memory), device->info, device->device_memory.get(), device->pinned_memory.get()));
}

Status CudaFactory::init_graphics_interop(const OrtEpDevice* ep_device, const OrtGraphicsInteropConfig& config,
                                          const plugin::TextPairs& options) {
  TENON_TRY_ASSIGN(const Offered* device, chosen(host().ort().EpDevice_EpMetadata(ep_device)));
  const int ordinal = device->info.ordinal;
  TENON_TRY_ASSIGN(
      const CUctxCigParam shared,
      read_graphics_config(*driver_, ordinal, tenon::format("CUDA device {} ({})", ordinal, device->info.name), config,
                           options));
  auto graphics = graphics_.lock();
  TENON_INVALID_IF(graphics->contains(ordinal),
                   "Graphics interop of CUDA device {} is initialised already; it ends with DeinitGraphicsInterop.",
                   ordinal);
  TENON_TRY_ASSIGN((*graphics)[ordinal], CudaMemory::in_graphics(*driver_, ordinal, shared));
  return Status();
}

Status CudaFactory::deinit_graphics_interop(const OrtEpDevice* ep_device) {
  TENON_TRY_ASSIGN(const Offered* device, chosen(host().ort().EpDevice_EpMetadata(ep_device)));
  // Sessions, streams, importers and tensors that live keep the context; what comes after them does not.
  auto ended = graphics_.lock()->extract(device->info.ordinal);
  return Status();
}

OrtStatus* create_factories(const OrtApiBase* base, const OrtLogger* logger, OrtEpFactory** factories, size_t room,
                            size_t* count, MakeRegionCompiler compiler) noexcept {
  using plugin::EpFactory;
  return EpFactory::create_single(
      base, factories, room, count, [&](const HostApi& host) -> Result<std::unique_ptr<EpFactory>> {
        TENON_TRY_ASSIGN(auto factory, CudaFactory::create(host, logger, cuda_driver(), std::move(compiler)));
        return std::unique_ptr<EpFactory>(std::move(factory));
      });
}

}  // namespace tenon::cuda
