#include "abi/objects/run_options.h"

#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "base/config_keys.h"

namespace tenon::abi {

namespace {

// The reference's limit for keys of run and session configuration.
constexpr size_t kMaxKeyBytes = 1024;

}  // namespace

OrtStatus* ort_api::CreateRunOptions(OrtRunOptions** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateRunOptions", {{"out", out}})) return bad;
  return make_object(out);
}

void ort_api::ReleaseRunOptions(OrtRunOptions* input) noexcept { delete input; }

OrtStatus* ort_api::RunOptionsSetRunLogVerbosityLevel(OrtRunOptions* options, int log_verbosity_level) noexcept {
  if (OrtStatus* bad = check_pointers("RunOptionsSetRunLogVerbosityLevel", {{"options", options}})) return bad;
  options->log_verbosity_level = log_verbosity_level;
  return nullptr;
}

OrtStatus* ort_api::RunOptionsSetRunLogSeverityLevel(OrtRunOptions* options, int log_severity_level) noexcept {
  if (OrtStatus* bad = check_pointers("RunOptionsSetRunLogSeverityLevel", {{"options", options}})) return bad;
  options->log_severity_level = log_severity_level;
  return nullptr;
}

OrtStatus* ort_api::RunOptionsSetRunTag(OrtRunOptions* options, const char* run_tag) noexcept {
  if (OrtStatus* bad = check_pointers("RunOptionsSetRunTag", {{"options", options}})) return bad;
  // A null tag leaves the old one, as in the reference.
  if (run_tag == nullptr) return nullptr;
  return guarded([&]() -> OrtStatus* {
    options->tag = run_tag;
    return nullptr;
  });
}

OrtStatus* ort_api::RunOptionsGetRunLogVerbosityLevel(const OrtRunOptions* options, int* log_verbosity_level) noexcept {
  clear(log_verbosity_level);
  if (OrtStatus* bad = check_pointers("RunOptionsGetRunLogVerbosityLevel",
                                      {{"options", options}, {"log_verbosity_level", log_verbosity_level}}))
    return bad;
  *log_verbosity_level = options->log_verbosity_level;
  return nullptr;
}

OrtStatus* ort_api::RunOptionsGetRunLogSeverityLevel(const OrtRunOptions* options, int* log_severity_level) noexcept {
  clear(log_severity_level);
  if (OrtStatus* bad = check_pointers("RunOptionsGetRunLogSeverityLevel",
                                      {{"options", options}, {"log_severity_level", log_severity_level}}))
    return bad;
  *log_severity_level = options->log_severity_level;
  return nullptr;
}

OrtStatus* ort_api::RunOptionsGetRunTag(const OrtRunOptions* options, const char** run_tag) noexcept {
  clear(run_tag);
  if (OrtStatus* bad = check_pointers("RunOptionsGetRunTag", {{"options", options}, {"run_tag", run_tag}})) return bad;
  *run_tag = options->tag.c_str();
  return nullptr;
}

OrtStatus* ort_api::RunOptionsSetTerminate(OrtRunOptions* options) noexcept {
  if (OrtStatus* bad = check_pointers("RunOptionsSetTerminate", {{"options", options}})) return bad;
  options->terminate.store(true, std::memory_order_release);
  return nullptr;
}

OrtStatus* ort_api::RunOptionsUnsetTerminate(OrtRunOptions* options) noexcept {
  if (OrtStatus* bad = check_pointers("RunOptionsUnsetTerminate", {{"options", options}})) return bad;
  options->terminate.store(false, std::memory_order_release);
  return nullptr;
}

OrtStatus* ort_api::AddRunConfigEntry(OrtRunOptions* options, const char* config_key,
                                      const char* config_value) noexcept {
  if (OrtStatus* bad = check_pointers(
          "AddRunConfigEntry", {{"options", options}, {"config_key", config_key}, {"config_value", config_value}}))
    return bad;
  const std::string_view key = config_key;
  if (key.empty() || key.size() > kMaxKeyBytes)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Config key is empty or longer than maximum length 1024");
  return guarded([&]() -> OrtStatus* {
    const Status known = check_config_entry(ConfigScope::kRun, key, config_value);
    if (known.ok()) options->config_entries.set(key, config_value);
    return to_ort(known);
  });
}

const char* ort_api::GetRunConfigEntry(const OrtRunOptions* options, const char* config_key) noexcept {
  return options != nullptr && config_key != nullptr ? options->config_entries.find(config_key) : nullptr;
}

void ort_api::RunOptionsSetSyncStream(OrtRunOptions* options, OrtSyncStream* sync_stream) noexcept {
  if (options != nullptr) options->sync_stream = sync_stream;
}

OrtStatus* ort_api::RunOptionsEnableProfiling(OrtRunOptions* options, const ORTCHAR_T* profile_file_prefix) noexcept {
  if (OrtStatus* bad = check_pointers("RunOptionsEnableProfiling",
                                      {{"options", options}, {"profile_file_prefix", profile_file_prefix}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    options->profile_prefix = profile_file_prefix;
    options->profiling = true;
    return nullptr;
  });
}

OrtStatus* ort_api::RunOptionsDisableProfiling(OrtRunOptions* options) noexcept {
  if (OrtStatus* bad = check_pointers("RunOptionsDisableProfiling", {{"options", options}})) return bad;
  options->profiling = false;
  return nullptr;
}

}  // namespace tenon::abi
