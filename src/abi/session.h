// OrtSession: a core session, and what its runs through the C ABI reuse.
//
// Lifetime: a session holds the env. Threads: any number of runs at once; each takes a binding of its own from `idle`.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/session.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "abi/objects/env.h"
#include "abi/objects/session_options.h"
#include "abi/objects/session_profile.h"
#include "abi/run_executor.h"
#include "base/guarded.h"
#include "ep/host/custom_ops.h"
#include "ep/host/plugin_session.h"
#include "runtime/idle_pool.h"

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

// A binding of the core, kept between runs. What the program bound to it without an owner stays, unread, so that
// binding the same again costs nothing; what has an owner is dropped at the end of the run.
struct RunBinding {
  struct Slot {
    uint64_t run = 0;      // the last run that bound it
    bool program = false;  // bound to a tensor of the program
    bool owned = false;    // which has an owner
  };
  RunBinding(Binding made, size_t input_count, size_t output_count)
      : binding(std::move(made)), inputs(input_count), outputs(output_count) {}
  Binding binding;
  uint64_t run = 0;
  std::vector<Slot> inputs, outputs;
};

// A session of the core with the bindings that no run uses now.
struct CoreSession {
  explicit CoreSession(std::shared_ptr<Session> made) : core(std::move(made)) {}
  std::shared_ptr<Session> core;
  IdleObjects<RunBinding> idle;
};

// Options that the model is loaded again with: bits.
enum OtherCore : uint8_t { kMainCore = 0, kInitializersAsInputs = 1, kScalarsOfAnyShape = 2 };

// For a holder that gives it to one thread at a time.
Result<Binding> make_unguarded_binding(CoreSession& core);

// Makes the core's session; called again with `initializers_as_inputs` when a run overrides an initializer, and with
// `scalars_of_any_shape` when one gives an input another shape that the model declares as a scalar.
using CoreLoader = std::function<Result<std::shared_ptr<Session>>(const SessionOptions&)>;

}  // namespace tenon::abi

struct OrtSession {
  std::shared_ptr<OrtEnv> env;
  OrtSessionOptions options;
  std::unique_ptr<tenon::abi::CustomOpEp> custom_ops;  // null without custom operators; `load` names it again
  tenon::abi::PluginSession plugins;
  std::shared_ptr<tenon::abi::CoreSession> main;  // shared with runs that a stream has queued
  bool has_scalar_inputs = false;
  std::atomic<bool> scalars_only = false;  // the model could not be loaded again for others
  tenon::abi::CoreLoader load;             // kept only if a run may need the model again
  tenon::SessionOptions core_options;
  // The model loaded again, by OtherCore.
  tenon::Guarded<std::array<std::shared_ptr<tenon::abi::CoreSession>, 4>> others;
  std::vector<OrtMemoryInfo> input_memory, output_memory;
  std::vector<OrtEpAssignedSubgraph> parts;
  std::vector<const OrtEpAssignedSubgraph*> part_pointers;
  std::shared_ptr<tenon::abi::SessionProfile> profile;  // null: not profiling
  tenon::abi::RunExecutor executor;                     // last: what its thread runs uses the members above

  const tenon::Session& core() const { return *main->core; }
};

namespace tenon::abi {

// The end of every CreateSession. `load_prefix` begins messages about the model ("Load model from x failed:").
OrtStatus* make_session(const OrtEnv* env, const OrtSessionOptions* options, std::string load_prefix, CoreLoader load,
                        OrtSession** out) noexcept;

// The part of it that a model editor session does last: loads the core's session of `session.options` into `session`,
// which stays as it was when that fails.
OrtStatus* fill_session(OrtSession& session, const std::string& load_prefix, CoreLoader load);
// Says where the session's inputs are wanted and its outputs are made, as the C ABI says it.
void describe_memory(OrtSession& session);
// SetOptimizedModelFilePath: writes the model as the program gave or made it, since what Tenon fuses and folds is no
// ONNX. The file may be the one that the model was read from. A config entry, else the file's name, says whether it is
// to be in ORT format: kUnsupported, unless `bytes` are.
Status save_model(const OrtSessionOptions& options, std::span<const std::byte> bytes);
OrtStatus* saved_status(const Status& saved);
// The folder of external data for a model from memory: a config entry's, or "".
std::string external_folder(const OrtSessionOptions* options);

// The error that the reference gives for a model that cannot be loaded.
OrtStatus* load_error(const Status& status, const std::string& prefix) noexcept;

// The error of an array that is too small for one entry each; there may be more room, which is filled with nulls.
OrtStatus* check_room(const char* what, size_t known, size_t room) noexcept;

}  // namespace tenon::abi
