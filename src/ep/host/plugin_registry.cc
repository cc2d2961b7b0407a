#include "ep/host/plugin_registry.h"

#include <algorithm>
#include <utility>

#include "device/hardware_devices.h"
#include "ep/host/plugin_factory.h"
#include "runtime/ep_registry.h"

namespace tenon {

Status register_ep_library(const std::string& name, const std::string& path, const EpLibraryOptions& options) {
  TENON_TRY_ASSIGN(auto env, abi::hold_env());
  return abi::PluginRegistry::instance().add(name, path, options, std::move(env));
}

Status unregister_ep_library(const std::string& name) { return abi::PluginRegistry::instance().remove(name); }

namespace abi {

// Never destroyed: sessions that live as long as the process must find their library loaded at its end.
PluginRegistry& PluginRegistry::instance() {
  static auto* registry = new PluginRegistry();
  return *registry;
}

PluginRegistry::PluginRegistry() {
  for (const HardwareDevice& device : find_hardware()) {
    hardware_.push_back(std::make_unique<OrtHardwareDevice>(to_ort(device)));
    hardware_pointers_.push_back(hardware_.back().get());
  }
  cpu_.ep_name = "CPUExecutionProvider";
  cpu_.ep_vendor = "Tenon";
  cpu_.hardware = hardware_pointers_.front();
  cpu_.ep_metadata.set("version", OrtGetApiBase()->GetVersionString());
  auto state = state_.lock();
  list_devices(*state);
}

EpRegistry::~EpRegistry() {
  // A name that the program has unregistered itself is not there any more.
  for (const std::string& name : *names_.lock()) (void)PluginRegistry::instance().remove(name);
}

Status PluginRegistry::add(const std::string& name, const std::string& path, const EpLibraryOptions& options,
                           std::shared_ptr<OrtEnv> env) {
  {
    auto state = state_.lock();
    const bool taken = std::any_of(state->libraries.begin(), state->libraries.end(),
                                   [&](const auto& library) { return library->name() == name; }) ||
                       std::find(state->loading.begin(), state->loading.end(), name) != state->loading.end();
    TENON_INVALID_IF(taken, "An EP library is already registered as \"{}\".", name);
    state->loading.push_back(name);
  }
  // Without the lock: a library may register others, or list devices, while it is loaded.
  Result<std::shared_ptr<PluginLibrary>> library = PluginLibrary::load(name, path, options, std::move(env));
  Status status = library.status();
  if (status.ok()) {
    std::vector<std::shared_ptr<EpFactory>> factories;
    for (auto& factory : (*library)->factories()) factories.push_back(std::move(factory));
    status = tenon::EpRegistry::instance().add(name, std::move(factories));
  }
  auto state = state_.lock();
  std::erase(state->loading, name);
  TENON_TRY(status);
  state->libraries.push_back(std::move(library).value());
  list_devices(*state);
  return {};
}

Status PluginRegistry::remove(const std::string& name) {
  std::shared_ptr<PluginLibrary> removed;  // unloaded after the lock
  auto state = state_.lock();
  const auto found = std::find_if(state->libraries.begin(), state->libraries.end(),
                                  [&](const auto& library) { return library->name() == name; });
  if (found == state->libraries.end()) {
    std::string known;
    for (const auto& library : state->libraries)
      known += format("{}\"{}\"", known.empty() ? "" : ", ", library->name());
    return not_found("No EP library is registered as \"{}\"; registered are {}.", name, known.empty() ? "none" : known);
  }
  TENON_TRY(tenon::EpRegistry::instance().remove(name));
  removed = std::move(*found);
  state->libraries.erase(found);
  list_devices(*state);
  return {};
}

void PluginRegistry::list_devices(State& state) {
  state.devices = {&cpu_};
  for (const auto& library : state.libraries) {
    for (const auto& factory : library->factories()) {
      for (const auto& device : factory->ort_devices()) state.devices.push_back(device.get());
    }
  }
}

std::span<const OrtEpDevice* const> PluginRegistry::devices() { return state_.lock()->devices; }

std::span<const OrtHardwareDevice* const> PluginRegistry::hardware() { return hardware_pointers_; }

std::shared_ptr<PluginFactory> PluginRegistry::find(const std::string& ep_name) {
  auto state = state_.lock();
  for (const auto& library : state->libraries) {
    for (auto& factory : library->factories()) {
      if (factory->name() == ep_name) return factory;
    }
  }
  return nullptr;
}

OrtAllocator* PluginRegistry::find_allocator(const OrtMemoryInfo& info) {
  // Two libraries may serve one device: the memory's name says whose is meant, where it says anything.
  auto state = state_.lock();
  OrtAllocator* found = nullptr;
  for (const auto& library : state->libraries) {
    for (auto& factory : library->factories()) {
      const auto allocator = factory->find_shared_allocator(info);
      if (allocator == nullptr) continue;
      if (allocator->info().name == info.name) return allocator->program();
      if (found == nullptr) found = allocator->program();
    }
  }
  return found;
}

}  // namespace abi
}  // namespace tenon
