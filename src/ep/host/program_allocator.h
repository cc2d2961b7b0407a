// An allocator of a plugin as programs get it (GetSharedAllocator): the plugin's functions, called through the checks
// of plugin_member.h, with the blocks counted.
//
// Ownership: part of its PluginAllocator, which lives, with the plugin's library, as long as a block does.
// Threads: any. Errors: null where the plugin gives none or throws; the log says which.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <vector>

#include "base/guarded.h"
#include "ep/host/plugin_memory.h"

namespace tenon::abi {

class ProgramAllocator final : public OrtAllocator {
 public:
  explicit ProgramAllocator(PluginAllocator& of);
  ProgramAllocator(const ProgramAllocator&) = delete;
  ProgramAllocator& operator=(const ProgramAllocator&) = delete;

 private:
  struct Blocks {
    std::vector<DeviceUse::Use> uses;  // one for each
    std::shared_ptr<const void> allocator, library;
  };
  void* took(Result<void*> block);
  void gave_back();

  PluginAllocator& of_;
  Guarded<Blocks> blocks_;
};

}  // namespace tenon::abi
