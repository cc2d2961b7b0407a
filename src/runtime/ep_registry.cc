#include "runtime/ep_registry.h"

#include <algorithm>
#include <utility>

#include "device/copy.h"
#include "device/hardware_devices.h"
#include "device/memory_space.h"

namespace tenon {

namespace {

constexpr std::string_view kCpuEpName = "CPUExecutionProvider";

EpDevice cpu_device() {
  EpDevice device;
  device.ep_name = kCpuEpName;
  device.ep_vendor = "Tenon";
  static const HardwareDevice cpu = find_cpu();
  device.hardware = cpu;
  device.memory = {MemorySpace{}};
  return device;
}

}  // namespace

EpRegistry& EpRegistry::instance() {
  static EpRegistry registry;
  return registry;
}

Status EpRegistry::add(const std::string& library, std::vector<std::shared_ptr<EpFactory>> factories) {
  auto known = libraries_.lock();
  Libraries libraries = **known;
  for (const Library& one : libraries) {
    TENON_INVALID_IF(one.name == library, "An EP library is already registered as \"{}\".", library);
  }
  libraries.push_back({library, std::move(factories)});
  *known = std::make_shared<const Libraries>(std::move(libraries));
  return {};
}

Status EpRegistry::remove(const std::string& library) {
  std::shared_ptr<const Libraries> before;  // released after the lock: a factory's end may take long and call back
  auto known = libraries_.lock();
  Libraries libraries = **known;
  if (std::erase_if(libraries, [&](const Library& one) { return one.name == library; }) == 0)
    return not_found("No EP library is registered as \"{}\".", library);
  before = std::exchange(*known, std::make_shared<const Libraries>(std::move(libraries)));
  return {};
}

std::vector<EpDevice> EpRegistry::devices() const {
  std::vector<EpDevice> all = {cpu_device()};
  const auto libraries = this->libraries();
  for (const Library& library : *libraries) {
    for (const auto& factory : library.factories) {
      all.insert(all.end(), factory->devices().begin(), factory->devices().end());
    }
  }
  return all;
}

Result<std::shared_ptr<EpFactory>> EpRegistry::find(const std::string& ep_name) const {
  std::string known(kCpuEpName);
  const auto libraries = this->libraries();
  for (const Library& library : *libraries) {
    for (const auto& factory : library.factories) {
      if (factory->name() == ep_name) return factory;
      known += ", " + factory->name();
    }
  }
  return not_found(
      "There is no EP \"{}\"; there are {}. Others come with a library (--plugin NAME=LIBRARY, register_ep_library).",
      ep_name, known);
}

std::shared_ptr<DataTransfer> EpRegistry::find_transfer(const MemorySpace& src, const MemorySpace& dst) const {
  const auto libraries = this->libraries();
  for (const Library& library : *libraries) {
    for (const auto& factory : library.factories) {
      DataTransfer* transfer = factory->transfer();
      if (transfer != nullptr && transfer->can_copy(src, dst)) return {factory, transfer};
    }
  }
  return nullptr;
}

std::shared_ptr<DeviceAllocator> EpRegistry::find_allocator(const MemorySpace& space) const {
  const auto libraries = this->libraries();
  for (const Library& library : *libraries) {
    for (const auto& factory : library.factories) {
      for (size_t device = 0; device < factory->devices().size(); ++device) {
        for (const auto& allocator : factory->shared_allocators(device)) {
          if (allocator->space() == space) return {factory, allocator.get()};
        }
      }
    }
  }
  return nullptr;
}

std::vector<EpDevice> ep_devices() { return EpRegistry::instance().devices(); }

Status copy(const Tensor& dst, const Tensor& src, CopyLedger* ledger) {
  std::shared_ptr<DataTransfer> transfer;
  if (!host_can_address(src.space()) || !host_can_address(dst.space())) {
    transfer = EpRegistry::instance().find_transfer(src.space(), dst.space());
  }
  return copy_tensor(dst, src, CopyReason::kCallerAsked, "tensor", ledger, transfer.get());
}

}  // namespace tenon
