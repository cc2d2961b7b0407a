// The setters of OrtSessionOptions.
#include "abi/objects/session_options.h"

#include <string_view>
#include <utility>

#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "base/config_keys.h"

namespace tenon::abi {
namespace {

constexpr size_t kMaxConfigKey = 1024;

// Runs `set(options)` when there are options; every setter is one line through it.
template <typename Set>
OrtStatus* with_options(const char* function, OrtSessionOptions* options, Set&& set) noexcept {
  if (OrtStatus* bad = check_pointers(function, {{"options", options}})) return bad;
  return guarded([&]() -> OrtStatus* {
    set(*options);
    return nullptr;
  });
}

}  // namespace

OrtStatus* ort_api::CreateSessionOptions(OrtSessionOptions** options) noexcept {
  if (OrtStatus* bad = check_pointers("CreateSessionOptions", {{"options", options}})) return bad;
  *options = nullptr;
  return make_object(options);
}

OrtStatus* ort_api::CloneSessionOptions(const OrtSessionOptions* in_options, OrtSessionOptions** out_options) noexcept {
  clear(out_options);
  if (OrtStatus* bad =
          check_pointers("CloneSessionOptions", {{"in_options", in_options}, {"out_options", out_options}}))
    return bad;
  return make_object(out_options, *in_options);
}

void ort_api::ReleaseSessionOptions(OrtSessionOptions* input) noexcept { delete input; }

OrtStatus* ort_api::SetSessionExecutionMode(OrtSessionOptions* options, ExecutionMode execution_mode) noexcept {
  if (execution_mode != ORT_SEQUENTIAL && execution_mode != ORT_PARALLEL)
    return make_ort_status(ORT_INVALID_ARGUMENT, "execution_mode is not valid");
  return with_options("SetSessionExecutionMode", options, [&](auto& to) { to.execution_mode = execution_mode; });
}

OrtStatus* ort_api::GetSessionExecutionMode(const OrtSessionOptions* options, ExecutionMode* out) noexcept {
  if (OrtStatus* bad = check_pointers("GetSessionExecutionMode", {{"options", options}, {"out", out}})) return bad;
  *out = options->execution_mode;
  return nullptr;
}

OrtStatus* ort_api::SetSessionGraphOptimizationLevel(OrtSessionOptions* options,
                                                     GraphOptimizationLevel graph_optimization_level) noexcept {
  switch (static_cast<int>(graph_optimization_level)) {
    case ORT_DISABLE_ALL:
    case ORT_ENABLE_BASIC:
    case ORT_ENABLE_EXTENDED:
    case ORT_ENABLE_LAYOUT:
    case ORT_ENABLE_ALL:
      break;
    default:
      return make_ort_status(ORT_INVALID_ARGUMENT, "graph_optimization_level is not valid");
  }
  return with_options("SetSessionGraphOptimizationLevel", options,
                      [&](auto& to) { to.optimization_level = graph_optimization_level; });
}

OrtStatus* ort_api::SetOptimizedModelFilePath(OrtSessionOptions* options,
                                              const ORTCHAR_T* optimized_model_filepath) noexcept {
  if (OrtStatus* bad =
          check_pointers("SetOptimizedModelFilePath", {{"optimized_model_filepath", optimized_model_filepath}}))
    return bad;
  return with_options("SetOptimizedModelFilePath", options,
                      [&](auto& to) { to.optimized_model_path = optimized_model_filepath; });
}

OrtStatus* ort_api::EnableProfiling(OrtSessionOptions* options, const ORTCHAR_T* profile_file_prefix) noexcept {
  if (OrtStatus* bad = check_pointers("EnableProfiling", {{"profile_file_prefix", profile_file_prefix}})) return bad;
  return with_options("EnableProfiling", options, [&](auto& to) {
    to.profile_prefix = profile_file_prefix;
    to.profiling = true;
  });
}

OrtStatus* ort_api::DisableProfiling(OrtSessionOptions* options) noexcept {
  return with_options("DisableProfiling", options, [](auto& to) { to.profiling = false; });
}

OrtStatus* ort_api::EnableMemPattern(OrtSessionOptions* options) noexcept {
  return with_options("EnableMemPattern", options, [](auto& to) { to.memory_pattern = true; });
}

OrtStatus* ort_api::DisableMemPattern(OrtSessionOptions* options) noexcept {
  return with_options("DisableMemPattern", options, [](auto& to) { to.memory_pattern = false; });
}

OrtStatus* ort_api::GetMemPatternEnabled(const OrtSessionOptions* options, int* out) noexcept {
  if (OrtStatus* bad = check_pointers("GetMemPatternEnabled", {{"options", options}, {"out", out}})) return bad;
  *out = options->memory_pattern ? 1 : 0;
  return nullptr;
}

OrtStatus* ort_api::EnableCpuMemArena(OrtSessionOptions* options) noexcept {
  return with_options("EnableCpuMemArena", options, [](auto& to) { to.cpu_arena = true; });
}

OrtStatus* ort_api::DisableCpuMemArena(OrtSessionOptions* options) noexcept {
  return with_options("DisableCpuMemArena", options, [](auto& to) { to.cpu_arena = false; });
}

OrtStatus* ort_api::SetSessionLogId(OrtSessionOptions* options, const char* logid) noexcept {
  if (OrtStatus* bad = check_pointers("SetSessionLogId", {{"logid", logid}})) return bad;
  return with_options("SetSessionLogId", options, [&](auto& to) { to.log_id = logid; });
}

OrtStatus* ort_api::SetSessionLogVerbosityLevel(OrtSessionOptions* options, int session_log_verbosity_level) noexcept {
  return with_options("SetSessionLogVerbosityLevel", options,
                      [&](auto& to) { to.log_verbosity_level = session_log_verbosity_level; });
}

OrtStatus* ort_api::SetSessionLogSeverityLevel(OrtSessionOptions* options, int session_log_severity_level) noexcept {
  return with_options("SetSessionLogSeverityLevel", options,
                      [&](auto& to) { to.log_severity_level = session_log_severity_level; });
}

OrtStatus* ort_api::SetUserLoggingFunction(OrtSessionOptions* options, OrtLoggingFunction user_logging_function,
                                           void* user_logging_param) noexcept {
  if (OrtStatus* bad = check_pointers("SetUserLoggingFunction",
                                      {{"function", reinterpret_cast<const void*>(user_logging_function)}}))
    return bad;
  return with_options("SetUserLoggingFunction", options, [&](auto& to) {
    to.log_function = user_logging_function;
    to.log_parameter = user_logging_param;
  });
}

OrtStatus* ort_api::SetIntraOpNumThreads(OrtSessionOptions* options, int intra_op_num_threads) noexcept {
  return with_options("SetIntraOpNumThreads", options, [&](auto& to) { to.intra_op_threads = intra_op_num_threads; });
}

OrtStatus* ort_api::SetInterOpNumThreads(OrtSessionOptions* options, int inter_op_num_threads) noexcept {
  return with_options("SetInterOpNumThreads", options, [&](auto& to) { to.inter_op_threads = inter_op_num_threads; });
}

OrtStatus* ort_api::DisablePerSessionThreads(OrtSessionOptions* options) noexcept {
  return with_options("DisablePerSessionThreads", options, [](auto& to) { to.per_session_threads = false; });
}

OrtStatus* ort_api::SessionOptionsSetCustomCreateThreadFn(
    OrtSessionOptions* options, OrtCustomCreateThreadFn ort_custom_create_thread_fn) noexcept {
  return with_options("SessionOptionsSetCustomCreateThreadFn", options,
                      [&](auto& to) { to.create_thread = ort_custom_create_thread_fn; });
}

OrtStatus* ort_api::SessionOptionsSetCustomThreadCreationOptions(OrtSessionOptions* options,
                                                                 void* ort_custom_thread_creation_options) noexcept {
  return with_options("SessionOptionsSetCustomThreadCreationOptions", options,
                      [&](auto& to) { to.thread_creation_options = ort_custom_thread_creation_options; });
}

OrtStatus* ort_api::SessionOptionsSetCustomJoinThreadFn(OrtSessionOptions* options,
                                                        OrtCustomJoinThreadFn ort_custom_join_thread_fn) noexcept {
  return with_options("SessionOptionsSetCustomJoinThreadFn", options,
                      [&](auto& to) { to.join_thread = ort_custom_join_thread_fn; });
}

OrtStatus* ort_api::SetDeterministicCompute(OrtSessionOptions* options, bool value) noexcept {
  return with_options("SetDeterministicCompute", options, [&](auto& to) { to.deterministic = value; });
}

OrtStatus* ort_api::SessionOptionsSetLoadCancellationFlag(OrtSessionOptions* options, bool cancel) noexcept {
  return with_options("SessionOptionsSetLoadCancellationFlag", options,
                      [&](auto& to) { to.cancel_load->store(cancel, std::memory_order_relaxed); });
}

OrtStatus* ort_api::AddFreeDimensionOverride(OrtSessionOptions* options, const char* dim_denotation,
                                             int64_t dim_value) noexcept {
  if (OrtStatus* bad = check_pointers("AddFreeDimensionOverride", {{"dim_denotation", dim_denotation}})) return bad;
  return with_options("AddFreeDimensionOverride", options,
                      [&](auto& to) { to.dims_by_denotation[dim_denotation] = dim_value; });
}

OrtStatus* ort_api::AddFreeDimensionOverrideByName(OrtSessionOptions* options, const char* dim_name,
                                                   int64_t dim_value) noexcept {
  if (OrtStatus* bad = check_pointers("AddFreeDimensionOverrideByName", {{"dim_name", dim_name}})) return bad;
  return with_options("AddFreeDimensionOverrideByName", options,
                      [&](auto& to) { to.dims_by_name[dim_name] = dim_value; });
}

OrtStatus* ort_api::AddSessionConfigEntry(OrtSessionOptions* options, const char* config_key,
                                          const char* config_value) noexcept {
  if (OrtStatus* bad =
          check_pointers("AddSessionConfigEntry", {{"config_key", config_key}, {"config_value", config_value}}))
    return bad;
  const std::string_view key = config_key;
  if (key.empty() || key.size() > kMaxConfigKey)
    return ort_error(ORT_INVALID_ARGUMENT, "Config key is empty or longer than maximum length {}", kMaxConfigKey);
  if (OrtStatus* bad = check_pointers("AddSessionConfigEntry", {{"options", options}})) return bad;
  return guarded([&]() -> OrtStatus* {
    const Status known = check_config_entry(ConfigScope::kSession, key, config_value);
    if (known.ok()) options->config_entries.set(key, config_value);
    return to_ort(known);
  });
}

OrtStatus* ort_api::HasSessionConfigEntry(const OrtSessionOptions* options, const char* config_key, int* out) noexcept {
  clear(out);
  if (OrtStatus* bad =
          check_pointers("HasSessionConfigEntry", {{"options", options}, {"config_key", config_key}, {"out", out}}))
    return bad;
  *out = options->config_entries.find(config_key) != nullptr ? 1 : 0;
  return nullptr;
}

OrtStatus* ort_api::GetSessionConfigEntry(const OrtSessionOptions* options, const char* config_key, char* config_value,
                                          size_t* size) noexcept {
  if (OrtStatus* bad =
          check_pointers("GetSessionConfigEntry", {{"options", options}, {"config_key", config_key}, {"size", size}}))
    return bad;
  const char* value = options->config_entries.find(config_key);
  if (value == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Session config entry '{}' was not found.", config_key);
  const size_t needed = std::string_view(value).size() + 1;
  const size_t room = std::exchange(*size, needed);
  if (config_value == nullptr) return nullptr;
  if (room < needed)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Output buffer is not large enough for session config entry");
  std::copy_n(value, needed, config_value);
  return nullptr;
}

OrtStatus* ort_api::GetSessionOptionsConfigEntries(const OrtSessionOptions* options, OrtKeyValuePairs** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetSessionOptionsConfigEntries", {{"options", options}, {"out", out}}))
    return bad;
  return make_object(out, options->config_entries);
}

}  // namespace tenon::abi
