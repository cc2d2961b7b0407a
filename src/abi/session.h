// OrtSession: a core session, and what its runs through the C ABI reuse.
//
// Lifetime: a session holds the env. Threads: any number of runs at once; each takes a binding of its own from `idle`.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/session.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "abi/env.h"
#include "abi/run_executor.h"
#include "abi/session_options.h"
#include "abi/session_profile.h"
#include "base/guarded.h"

// Session_GetEpGraphAssignmentInfo. `pointers` is what programs are shown of `nodes`.
struct OrtEpAssignedNode {
  std::string name, domain, op_type;
};
struct OrtEpAssignedSubgraph {
  std::string ep_name;
  std::vector<OrtEpAssignedNode> nodes;
  std::vector<const OrtEpAssignedNode*> pointers;
};

namespace tenon::abi {

// A binding of the core, kept between runs, and which of its inputs the run at hand has bound.
struct RunBinding {
  explicit RunBinding(Binding made, size_t inputs) : binding(std::move(made)), bound(inputs) {}
  Binding binding;
  std::vector<bool> bound;
};

// A session of the core with the bindings that no run uses now.
struct CoreSession {
  explicit CoreSession(std::shared_ptr<Session> made) : core(std::move(made)) {}
  std::shared_ptr<Session> core;
  Guarded<std::vector<std::unique_ptr<RunBinding>>> idle;
};

// Makes the core's session; called again with `initializers_as_inputs` when a run overrides an initializer.
using CoreLoader = std::function<Result<std::shared_ptr<Session>>(const SessionOptions&)>;

}  // namespace tenon::abi

struct OrtSession {
  std::shared_ptr<OrtEnv> env;
  OrtSessionOptions options;
  std::unique_ptr<tenon::abi::CoreSession> main;
  tenon::abi::CoreLoader load;  // kept only if the model has initializers that runs may override
  tenon::SessionOptions core_options;
  tenon::Guarded<std::unique_ptr<tenon::abi::CoreSession>> overriding;
  OrtMemoryInfo cpu_memory;
  std::vector<OrtEpAssignedSubgraph> parts;
  std::vector<const OrtEpAssignedSubgraph*> part_pointers;
  std::unique_ptr<tenon::abi::SessionProfile> profile;  // null: not profiling
  tenon::abi::RunExecutor executor;                     // last: what its thread runs uses the members above

  const tenon::Session& core() const { return *main->core; }
};

namespace tenon::abi {

// The end of every CreateSession. `load_prefix` begins messages about the model ("Load model from x failed:").
OrtStatus* make_session(const OrtEnv* env, const OrtSessionOptions* options, std::string load_prefix, CoreLoader load,
                        OrtSession** out) noexcept;

// What the reference says of a model that cannot be loaded.
OrtStatus* load_error(const Status& status, const std::string& prefix) noexcept;

}  // namespace tenon::abi
