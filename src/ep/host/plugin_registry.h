// The EP libraries of the process, for the C ABI. The core's registry (runtime/ep_registry.h) has the same
// factories; sessions find them there.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "ep/host/plugin_library.h"

namespace tenon::abi {

class PluginRegistry {
 public:
  static PluginRegistry& instance();

  // `env`: held by the library; null for libraries that their env unregisters (EpRegistry below).
  Status add(const std::string& name, const std::string& path, const EpLibraryOptions& options,
             std::shared_ptr<OrtEnv> env);
  Status remove(const std::string& name);
  // The CPU EP's device first. The array lives until a library is registered or unregistered.
  std::span<const OrtEpDevice* const> devices();
  // The hardware devices that the host found; they live as long as the process.
  std::span<const OrtHardwareDevice* const> hardware();
  // The factory of an EP; null when no library has it.
  std::shared_ptr<PluginFactory> find(const std::string& ep_name);
  // A shared allocator for memory like `info`; null when there is none. It lives until it is released or its library is
  // unloaded.
  OrtAllocator* find_allocator(const OrtMemoryInfo& info);

 private:
  struct State {
    std::vector<std::shared_ptr<PluginLibrary>> libraries;
    std::vector<const OrtEpDevice*> devices;
    std::vector<std::string> loading;
  };
  PluginRegistry();
  void list_devices(State& state);

  std::vector<std::unique_ptr<OrtHardwareDevice>> hardware_;
  std::vector<const OrtHardwareDevice*> hardware_pointers_;
  OrtEpDevice cpu_;
  Guarded<State> state_;
};

// The libraries that were registered through an env: they are unregistered when it goes.
class EpRegistry {
 public:
  ~EpRegistry();
  void add(std::string name) { names_.lock()->push_back(std::move(name)); }

 private:
  Guarded<std::vector<std::string>> names_;
};

}  // namespace tenon::abi
