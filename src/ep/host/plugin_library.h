// One loaded EP library: its handle and its factories.
//
// Ownership: sessions, streams, allocators and importers that came from the library hold it; when the last one goes,
// the factories are released (ReleaseEpFactory) and the library is unloaded.
// Threads: immutable after load().
#pragma once

#include <tenon/ep.h>
#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <string>
#include <vector>

#include "abi/objects/env.h"
#include "abi/objects/ep_device.h"
#include "ep/host/plugin_member.h"

namespace tenon::abi {

class PluginFactory;

class PluginLibrary : public std::enable_shared_from_this<PluginLibrary> {
 public:
  // Loads `path`, calls CreateEpFactories and asks each factory for its devices.
  // `env` may be null; the library's code then relies on the one that the program made.
  // Errors: a status that names the library and what is wrong; nothing stays loaded.
  static Result<std::shared_ptr<PluginLibrary>> load(const std::string& name, const std::string& path,
                                                     const EpLibraryOptions& options, std::shared_ptr<OrtEnv> env);
  ~PluginLibrary();
  PluginLibrary(const PluginLibrary&) = delete;
  PluginLibrary& operator=(const PluginLibrary&) = delete;

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  // For messages: `EP library "x"`.
  const std::string& who() const { return who_; }
  // Each shares the ownership of the library.
  std::vector<std::shared_ptr<PluginFactory>> factories();
  // The devices that the factories were shown: the host's hardware, then those that were offered.
  const std::vector<std::unique_ptr<OrtHardwareDevice>>& hardware() const { return hardware_; }

 private:
  using CreateFactories = OrtStatus* (*)(const char*, const OrtApiBase*, const OrtLogger*, OrtEpFactory**, size_t,
                                         size_t*);
  using ReleaseFactory = OrtStatus* (*)(OrtEpFactory*);

  PluginLibrary(std::string name, std::string path);
  Status open();
  Status create_factories();
  Result<void*> symbol(const char* name);

  std::shared_ptr<OrtEnv> env_;  // held as long as the library; null when its env holds it
  std::string name_;
  std::string path_;
  std::string who_;
  void* handle_ = nullptr;
  PluginMember<CreateFactories> create_;
  PluginMember<ReleaseFactory> release_;
  std::vector<std::unique_ptr<OrtHardwareDevice>> hardware_;
  std::shared_ptr<OrtLogger> logger_;
  std::vector<OrtEpFactory*> raw_factories_;
  std::vector<std::unique_ptr<PluginFactory>> factories_;
};

// Where the library lies: an absolute path as it is; a relative one beside libtenon, else from the working folder.
// Errors: kNotFound names the places that were looked at.
Result<std::string> find_library(const std::string& path);

}  // namespace tenon::abi
