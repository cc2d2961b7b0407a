// OrtSessionOptions: the settings of a program for the sessions that it makes.
//
// Ownership: copied by value when a session is made or the options are cloned. Added initializers share their memory;
// custom op domains and EP devices are borrowed from the program, as in the reference.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/session.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "abi/objects/env.h"
#include "abi/objects/ep_context.h"
#include "abi/objects/key_value_pairs.h"
#include "abi/objects/value.h"

namespace tenon::abi {
// The model that a compilation makes; belongs to the plugin host.
class ContextModel;
}  // namespace tenon::abi

struct OrtSessionOptions {
  GraphOptimizationLevel optimization_level = ORT_ENABLE_ALL;
  ExecutionMode execution_mode = ORT_SEQUENTIAL;  // kept; Tenon runs one operator at a time
  bool memory_pattern = true;                     // kept; plans always lay memory out ahead
  bool cpu_arena = true;                          // kept
  bool deterministic = false;                     // kept; kernels always are
  std::string log_id;
  int log_severity_level = -1;  // -1: the env's
  int log_verbosity_level = 0;
  OrtLoggingFunction log_function = nullptr;
  void* log_parameter = nullptr;
  bool profiling = false;
  std::string profile_prefix;
  std::string optimized_model_path;
  int intra_op_threads = 0;  // 0: the machine's; 1: the caller's thread alone
  int inter_op_threads = 0;  // kept
  bool per_session_threads = true;
  OrtCustomCreateThreadFn create_thread = nullptr;
  void* thread_creation_options = nullptr;
  OrtCustomJoinThreadFn join_thread = nullptr;
  OrtKeyValuePairs config_entries;
  std::map<std::string, int64_t> dims_by_name;
  std::map<std::string, int64_t> dims_by_denotation;
  std::map<std::string, OrtValue> initializers;                      // AddInitializer
  std::map<std::string, OrtValue> external_initializers;             // AddExternalInitializers
  std::map<std::string, std::span<const std::byte>> external_files;  // the program's until the session is made
  // Set while a session is being made from these options or a copy of them: that ends.
  std::shared_ptr<std::atomic<bool>> cancel_load = std::make_shared<std::atomic<bool>>(false);
  // EPs in order of preference, the CPU EP left out.
  std::vector<tenon::EpChoice> eps;
  bool has_cpu_ep = false;  // the program named it: then it is no fallback
  int azure_eps = 0;        // how often the program appended AZURE, which runs nothing
  std::vector<OrtCustomOpDomain*> custom_op_domains;
  // Libraries that RegisterCustomOpsLibrary_V2 loaded; sessions keep them.
  std::vector<std::shared_ptr<void>> custom_op_libraries;
  // SessionOptionsSetEpSelectionPolicy and its delegate; NOT_SET without a delegate means that `eps` counts.
  OrtExecutionProviderDevicePolicy ep_policy = OrtExecutionProviderDevicePolicy_DEFAULT;
  bool has_ep_policy = false;
  tenon::abi::SourceModel source_model;
  OrtEpContextConfig ep_context;
  // Of CompileModel: where EPs put the nodes that stand for what they have compiled. Null in other sessions.
  std::shared_ptr<tenon::abi::ContextModel> compilation;
  // Of the container that the session is made with; null without one.
  std::shared_ptr<tenon::PackedWeights> packed_weights;
  EpSelectionDelegate ep_delegate = nullptr;
  void* ep_delegate_state = nullptr;
};

namespace tenon::abi {

// Sets `out` to the options from which the core makes a session.
// Errors: no global threads in `env` although the options ask for them.
OrtStatus* to_core(const OrtSessionOptions& options, const OrtEnv& env, SessionOptions& out) noexcept;
// Fills `eps` by the policy or the delegate, if there is one and no EP was named.
OrtStatus* choose_eps(OrtSessionOptions& options, const OrtEnv& env) noexcept;
// "1" in the config entry `key`, else "0"; `fallback` without an entry.
bool config_flag(const OrtKeyValuePairs& entries, std::string_view key, bool fallback);

}  // namespace tenon::abi
