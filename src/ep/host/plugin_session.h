// References of a session of the C ABI to its plugin EPs, beside the core's: for its profile and for options that
// are set while it lives.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <span>
#include <vector>

#include "abi/objects/session_profile.h"
#include "ep/host/plugin_ep.h"
#include "ep/host/plugin_memory.h"
#include "ep/host/plugin_profiler.h"

namespace tenon::abi {

struct PluginSession {
  std::shared_ptr<SessionProfile> profile;  // null: not profiling
  std::vector<std::shared_ptr<PluginEp>> eps;
  std::vector<std::shared_ptr<PluginProfiler>> profilers;
  std::vector<std::shared_ptr<PluginAllocator>> allocators;  // the EPs' own of this session, in the EPs' order

  // Of the EPs that capture graphs and can give one up.
  Status release_graph(int graph) const;
  // The EPs in their order; one without the member ignores all options, as in the reference. The first failure ends it.
  Status set_dynamic_options(std::span<const char* const> keys, std::span<const char* const> values) const;
};

}  // namespace tenon::abi
