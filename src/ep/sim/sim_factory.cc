#include "ep/sim/sim_factory.h"

#include "base/version.h"
#include "ep/sim/sim_ep.h"
#include "ep/sim/sim_importer.h"

namespace tenon::sim {

using plugin::HostApi;

namespace {

constexpr int32_t kDevices = 2;
constexpr size_t kAlignment = 64;

// Devices are the process's: two factories of one library show the same ones.
std::shared_ptr<SimDevice> shared_device(int32_t number) {
  static Guarded<std::vector<std::weak_ptr<SimDevice>>> all(std::in_place, kDevices);
  auto devices = all.lock();
  auto& slot = (*devices)[number];
  std::shared_ptr<SimDevice> device = slot.lock();
  if (device == nullptr) slot = device = SimDevice::create(number);
  return device;
}

}  // namespace

Result<std::unique_ptr<SimFactory>> SimFactory::create(const HostApi& host) {
  std::unique_ptr<SimFactory> factory(new SimFactory(host));
  for (int32_t number = 0; number < kDevices; ++number) {
    factory->devices_.push_back(shared_device(number));
    TENON_TRY(factory->add_memory(number, SimMemory::Kind::kDefault, "TenonSim"));
  }
  TENON_TRY(factory->add_memory(0, SimMemory::Kind::kHostAccessible, "TenonSim host accessible"));
  return factory;
}

SimFactory::SimFactory(const HostApi& host)
    : EpFactory(host,
                {.ep_name = kSimEpName, .vendor = "Tenon", .vendor_id = kSimVendorId, .version = project_version()},
                {.streams = true, .importer = true, .compiled_model_validation = true, .graphics_interop = true}) {}

Status SimFactory::add_memory(int32_t number, SimMemory::Kind kind, const char* name) {
  OrtMemoryInfo* info = nullptr;
  TENON_ORT_TRY(host(), CreateMemoryInfo_V2, name, OrtMemoryInfoDeviceType_GPU, kSimVendorId, number,
                kind == SimMemory::Kind::kDefault ? OrtDeviceMemoryType_DEFAULT : OrtDeviceMemoryType_HOST_ACCESSIBLE,
                kAlignment, OrtDeviceAllocator, &info);
  memories_.push_back({number, kind, host().own(info, host().ort().ReleaseMemoryInfo)});
  return Status();
}

std::shared_ptr<SimDevice> SimFactory::device(int32_t number) const {
  for (const auto& device : devices_)
    if (device->number() == number) return device;
  return nullptr;
}

const OrtMemoryInfo* SimFactory::memory_info(int32_t number, SimMemory::Kind kind) const {
  for (const Memory& memory : memories_)
    if (memory.number == number && memory.kind == kind) return memory.info.get();
  return nullptr;
}

std::optional<int32_t> SimFactory::device_number(const OrtHardwareDevice* hardware) const {
  const OrtApi& ort = host().ort();
  if (ort.HardwareDevice_Type(hardware) == OrtHardwareDeviceType_CPU) return std::nullopt;
  return static_cast<int32_t>(ort.HardwareDevice_DeviceId(hardware));
}

Result<std::vector<plugin::DeviceOffer>> SimFactory::offer_devices(std::span<const OrtHardwareDevice* const> devices) {
  std::vector<plugin::DeviceOffer> offers;
  for (int32_t number = 0; number < kDevices; ++number) {
    TENON_TRY_ASSIGN(const OrtHardwareDevice* hardware,
                     make_hardware_device(OrtHardwareDeviceType_GPU, static_cast<uint32_t>(number),
                                          {{"is_virtual", "1"}, {"Description", "Tenon's simulated device"}}));
    plugin::DeviceOffer offer{.hardware = hardware,
                              .metadata = {{"sim_device", number == 0 ? "full" : "no_host_accessible"},
                                           {"device_uuid", uuid_text(sim_device_uuid(number))},
                                           {"device_luid", luid_text(sim_device_luid(number))}}};
    for (const Memory& memory : memories_)
      if (memory.number == number) offer.allocators.push_back(memory.info.get());
    offers.push_back(std::move(offer));
  }
  for (const OrtHardwareDevice* hardware : devices) {
    if (host().ort().HardwareDevice_Type(hardware) != OrtHardwareDeviceType_CPU) continue;
    offers.push_back({.hardware = hardware, .metadata = {{"sim_device", "cpu"}}});
    break;
  }
  return offers;
}

Result<std::unique_ptr<plugin::Ep>> SimFactory::create_ep(const plugin::EpRequest& request) {
  TENON_TRY(process_faults().hit(SimStep::create_ep));
  if (request.devices.size() > 1)
    host().log(request.logger, ORT_LOGGING_LEVEL_INFO,
               format("The simulated EP runs a session on the first of the {} devices that it is given.",
                      request.devices.size()));
  const std::optional<int32_t> number = device_number(request.devices[0]);
  std::shared_ptr<SimDevice> chosen;
  if (number) {
    chosen = device(*number);
    TENON_INVALID_IF(chosen == nullptr, "There is no simulated device {}.", *number);
  }
  TENON_TRY_ASSIGN(auto ep, SimEp::create(*this, std::move(chosen), request));
  return std::unique_ptr<plugin::Ep>(std::move(ep));
}

Result<std::unique_ptr<plugin::Allocator>> SimFactory::make_allocator(const OrtMemoryInfo* info) {
  const OrtMemoryDevice* memory = host().ep().MemoryInfo_GetMemoryDevice(info);
  TENON_INVALID_IF(memory == nullptr, "The memory info of an allocator has no device.");
  const MemorySpace space = plugin::memory_space(host(), memory);
  const auto kind = space.kind == MemoryKind::kDefault ? SimMemory::Kind::kDefault : SimMemory::Kind::kHostAccessible;
  const OrtMemoryInfo* ours = space.vendor_id == kSimVendorId ? memory_info(space.device_id, kind) : nullptr;
  TENON_UNSUPPORTED_IF(ours == nullptr, "The simulated EP has no memory at {}.", space.to_string());
  return std::unique_ptr<plugin::Allocator>(
      std::make_unique<SimAllocator>(host(), ours, device(space.device_id), kind));
}

Result<std::unique_ptr<plugin::Allocator>> SimFactory::create_allocator(const OrtMemoryInfo* info,
                                                                        const plugin::TextPairs&) {
  TENON_TRY(process_faults().hit(SimStep::create_allocator));
  return make_allocator(info);
}

Result<std::unique_ptr<plugin::DataTransfer>> SimFactory::create_data_transfer() {
  TENON_TRY(process_faults().hit(SimStep::create_data_transfer));
  return std::unique_ptr<plugin::DataTransfer>(std::make_unique<SimDataTransfer>(host(), devices_));
}

Result<std::unique_ptr<plugin::SyncStream>> SimFactory::create_stream(const OrtMemoryDevice* memory,
                                                                      const plugin::TextPairs&) {
  TENON_TRY(process_faults().hit(SimStep::create_stream));
  const MemorySpace space = plugin::memory_space(host(), memory);
  const auto chosen = space.vendor_id == kSimVendorId ? device(space.device_id) : nullptr;
  TENON_UNSUPPORTED_IF(chosen == nullptr, "The simulated EP has no streams for {}.", space.to_string());
  return std::unique_ptr<plugin::SyncStream>(std::make_unique<SimSyncStream>(
      host(), chosen, format("user {}", ++streams_made_), [](SimStep step) { return process_faults().hit(step); }));
}

Result<std::unique_ptr<plugin::Importer>> SimFactory::create_importer(const OrtEpDevice* ep_device) {
  TENON_TRY(process_faults().hit(SimStep::create_importer));
  const std::optional<int32_t> number = device_number(host().ort().EpDevice_Device(ep_device));
  if (!number || *number != 0) return std::unique_ptr<plugin::Importer>();
  return std::unique_ptr<plugin::Importer>(
      std::make_unique<SimImporter>(host(), ep_device, device(0), memory_info(0, SimMemory::Kind::kDefault)));
}

Result<OrtCompiledModelCompatibility> SimFactory::validate_compiled_model(std::string_view info) {
  return info == kSimCompatibility ? OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL
                                   : OrtCompiledModelCompatibility_EP_UNSUPPORTED;
}

// S1.9, as a mock: it records what it is told, and holds the order that the ABI asks for.
Status SimFactory::init_graphics_interop(const OrtEpDevice* device, const OrtGraphicsInteropConfig& config,
                                         const plugin::TextPairs& options) {
  TENON_TRY(process_faults().hit(SimStep::init_graphics));
  const std::optional<int32_t> number = device_number(host().ort().EpDevice_Device(device));
  TENON_UNSUPPORTED_IF(!number || *number != 0, "Only simulated device 0 has graphics interop.");
  TENON_INVALID_IF(config.graphics_api == ORT_GRAPHICS_API_D3D12 && config.command_queue == nullptr,
                   "OrtGraphicsInteropConfig.command_queue is null; D3D12 shares a queue.");
  if (!options.empty())
    return invalid_argument(
        "OrtGraphicsInteropConfig.additional_options has \"{}\", which the simulated device does not know.",
        options.front().first);
  auto queues = graphics_queues_.lock();
  TENON_INVALID_IF(queues->contains(*number),
                   "Graphics interop of simulated device {} is initialised already, with queue {}.", *number,
                   queues->at(*number));
  queues->emplace(*number, config.command_queue);
  ++counters().graphics_interops;
  ++counters().total_graphics_inits;
  return Status();
}

Status SimFactory::deinit_graphics_interop(const OrtEpDevice* device) {
  TENON_TRY(process_faults().hit(SimStep::deinit_graphics));
  const std::optional<int32_t> number = device_number(host().ort().EpDevice_Device(device));
  ++counters().total_graphics_deinits;
  if (number && graphics_queues_.lock()->erase(*number) > 0) --counters().graphics_interops;
  return Status();
}

SimFactory::~SimFactory() { counters().graphics_interops -= static_cast<int64_t>(graphics_queues_.lock()->size()); }

}  // namespace tenon::sim
