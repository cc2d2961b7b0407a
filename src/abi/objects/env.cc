#include "abi/objects/env.h"

#include <tenon/custom_threads.h>

#include <array>
#include <cstring>
#include <utility>

#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "base/config_keys.h"
#include "base/log.h"
#include "base/status.h"

namespace tenon::abi {

namespace {

// The arguments of all functions that create the env; those of the first call decide.
struct EnvArguments {
  OrtLoggingLevel severity = ORT_LOGGING_LEVEL_WARNING;
  const char* id = "";
  OrtLoggingFunction function = nullptr;
  void* function_parameter = nullptr;
  const OrtThreadingOptions* threads = nullptr;
  const OrtKeyValuePairs* config_entries = nullptr;
  bool takes_log = true;  // Tenon's own lines go to the env's logger
};

struct Current {
  std::shared_ptr<OrtEnv> env;
  int count = 0;
  bool has_log = false;
};

Guarded<Current>& current() {
  // Never destroyed: programs release their env from destructors that run after ours.
  static auto* const state = new Guarded<Current>;
  return *state;
}

OrtLoggingLevel to_ort_level(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return ORT_LOGGING_LEVEL_VERBOSE;
    case LogLevel::kInfo:
      return ORT_LOGGING_LEVEL_INFO;
    case LogLevel::kWarning:
      return ORT_LOGGING_LEVEL_WARNING;
    case LogLevel::kError:
      return ORT_LOGGING_LEVEL_ERROR;
  }
  return ORT_LOGGING_LEVEL_WARNING;
}

// Tenon's own lines go where the env's go.
void send_log_to(std::shared_ptr<OrtLogger> logger) {
  set_log_sink([logger = std::move(logger)](LogLevel level, std::string_view topic, std::string_view message) {
    const std::string category(topic);
    const std::string text(message);
    if (level == LogLevel::kTrace) {
      // TENON_TRACE asked for it.
      logger->write(ORT_LOGGING_LEVEL_VERBOSE, category.c_str(), "tenon", text.c_str());
    } else {
      logger->log(to_ort_level(level), category.c_str(), "tenon", text.c_str());
    }
  });
}

// A function that creates without one that joins is refused where the pool is made.
CustomThreads to_custom_threads(const OrtThreadingOptions& options) {
  CustomThreads threads;
  if (options.create_thread != nullptr) {
    threads.create = [create = options.create_thread, creation = options.thread_creation_options](
                         CustomThreads::Work work, void* parameter) {
      return const_cast<void*>(static_cast<const void*>(create(creation, work, parameter)));
    };
  }
  if (options.join_thread != nullptr) {
    threads.join = [join = options.join_thread](void* thread) { join(static_cast<OrtCustomThreadHandle>(thread)); };
  }
  return threads;
}

Result<std::shared_ptr<OrtEnv>> make_env(const EnvArguments& arguments) {
  auto env = std::make_shared<OrtEnv>();
  env->logger = std::make_shared<OrtLogger>();
  env->logger->id = arguments.id;
  env->logger->severity = arguments.severity;
  env->logger->function = arguments.function;
  env->logger->function_parameter = arguments.function_parameter;
  if (arguments.config_entries != nullptr) env->config_entries = *arguments.config_entries;
  if (arguments.threads != nullptr) {
    env->has_global_pool = true;
    TENON_TRY_ASSIGN(env->pool, make_thread_pool({.threads = std::max(arguments.threads->intra_op_threads, 0),
                                                  .allow_spinning = arguments.threads->allow_spinning},
                                                 to_custom_threads(*arguments.threads)));
  }
  return env;
}

Status check_entries(const OrtKeyValuePairs* entries) {
  if (entries == nullptr) return {};
  for (const auto& [key, value] : entries->entries()) TENON_TRY(check_config_entry(ConfigScope::kEnv, key, value));
  return {};
}

// The env exists already: its strict mode cannot change under those who have it.
Status check_same_entries(const OrtEnv& env, const OrtKeyValuePairs* entries) {
  const char* wanted = entries != nullptr ? entries->find(kDisallowCopiesKey) : nullptr;
  if (wanted == nullptr) return {};
  const char* text = env.config_entries.find(kDisallowCopiesKey);
  const bool current = text != nullptr && parse_flag(text).value_or(false);
  TENON_INVALID_IF(parse_flag(wanted) != current,
                   "The env config entry \"{}\" is \"{}\", and the process's env exists already, with {}; the first "
                   "creator decides.",
                   kDisallowCopiesKey, wanted, text != nullptr ? format("\"{}\"", text) : "none");
  return {};
}

OrtStatus* create_env(const EnvArguments& arguments, OrtEnv** out) {
  return guarded([&]() -> OrtStatus* {
    if (const Status known = check_entries(arguments.config_entries); !known.ok()) return to_ort(known);
    auto state = current().lock();
    if (state->env == nullptr) {
      Result<std::shared_ptr<OrtEnv>> env = make_env(arguments);
      if (!env.ok()) return to_ort(env.status());
      state->env = *std::move(env);
    } else if (const Status same = check_same_entries(*state->env, arguments.config_entries); !same.ok()) {
      return to_ort(same);
    }
    if (arguments.takes_log && !state->has_log) {
      send_log_to(state->env->logger);
      state->has_log = true;
    }
    ++state->count;
    *out = state->env.get();
    return nullptr;
  });
}

// Providers that are part of the library. Names are the reference's.
constexpr std::array<const char*, 1> kProviders = {"CPUExecutionProvider"};

}  // namespace

std::shared_ptr<OrtEnv> current_env() { return current().lock()->env; }

void add_caller_copies(const OrtEnv& env, const CopyLedger& ledger) {
  const std::shared_ptr<CopyRecords> records = *env.copies.lock();
  if (records != nullptr) records->add(ledger);
}

Result<std::shared_ptr<OrtEnv>> hold_env() {
  OrtEnv* env = nullptr;
  TENON_TRY(from_ort(create_env({.severity = ORT_LOGGING_LEVEL_WARNING, .id = "tenon", .takes_log = false}, &env)));
  return std::shared_ptr<OrtEnv>(env, [](OrtEnv* held) { ort_api::ReleaseEnv(held); });
}

OrtStatus* ort_api::CreateEnv(OrtLoggingLevel log_severity_level, const char* logid, OrtEnv** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateEnv", {{"logid", logid}, {"out", out}})) return bad;
  return create_env({.severity = log_severity_level, .id = logid}, out);
}

OrtStatus* ort_api::CreateEnvWithCustomLogger(OrtLoggingFunction logging_function, void* logger_param,
                                              OrtLoggingLevel log_severity_level, const char* logid,
                                              OrtEnv** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers(
          "CreateEnvWithCustomLogger",
          {{"logging_function", reinterpret_cast<const void*>(logging_function)}, {"logid", logid}, {"out", out}}))
    return bad;
  return create_env(
      {.severity = log_severity_level, .id = logid, .function = logging_function, .function_parameter = logger_param},
      out);
}

OrtStatus* ort_api::CreateEnvWithGlobalThreadPools(OrtLoggingLevel log_severity_level, const char* logid,
                                                   const OrtThreadingOptions* tp_options, OrtEnv** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateEnvWithGlobalThreadPools",
                                      {{"logid", logid}, {"tp_options", tp_options}, {"out", out}}))
    return bad;
  return create_env({.severity = log_severity_level, .id = logid, .threads = tp_options}, out);
}

OrtStatus* ort_api::CreateEnvWithCustomLoggerAndGlobalThreadPools(OrtLoggingFunction logging_function,
                                                                  void* logger_param,
                                                                  OrtLoggingLevel log_severity_level, const char* logid,
                                                                  const struct OrtThreadingOptions* tp_options,
                                                                  OrtEnv** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateEnvWithCustomLoggerAndGlobalThreadPools",
                                      {{"logging_function", reinterpret_cast<const void*>(logging_function)},
                                       {"logid", logid},
                                       {"tp_options", tp_options},
                                       {"out", out}}))
    return bad;
  return create_env({.severity = log_severity_level,
                     .id = logid,
                     .function = logging_function,
                     .function_parameter = logger_param,
                     .threads = tp_options},
                    out);
}

OrtStatus* ort_api::CreateEnvWithOptions(const OrtEnvCreationOptions* options, OrtEnv** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateEnvWithOptions", {{"out", out}})) return bad;
  const auto refuse = [](const char* what) {
    return ort_error(ORT_INVALID_ARGUMENT, "CreateEnvWithOptions requires {}", what);
  };
  if (options == nullptr) return refuse("a valid (non-null) OrtEnvCreationOptions argument");
  // The struct came with version 24, and has not grown since.
  constexpr uint32_t kFirstVersion = 24;
  if (options->version < kFirstVersion)
    return refuse("a OrtEnvCreationOptions argument with the version set equal to ORT_API_VERSION");
  if (options->log_id == nullptr)
    return refuse("a OrtEnvCreationOptions argument with a valid (non-null) log identifier string");
  if (options->logging_severity_level < ORT_LOGGING_LEVEL_VERBOSE ||
      options->logging_severity_level > ORT_LOGGING_LEVEL_FATAL)
    return refuse(
        "a OrtEnvCreationOptions argument with a valid logging severity level value from the OrtLoggingLevel "
        "enumeration");
  return create_env({.severity = static_cast<OrtLoggingLevel>(options->logging_severity_level),
                     .id = options->log_id,
                     .function = options->custom_logging_function,
                     .function_parameter = options->custom_logging_param,
                     .threads = options->threading_options,
                     .config_entries = options->config_entries},
                    out);
}

void ort_api::ReleaseEnv(OrtEnv* input) noexcept {
  if (input == nullptr) return;
  // Destroyed after the lock is gone: its plugins may log, and ask for the env.
  std::shared_ptr<OrtEnv> last;
  {
    auto state = current().lock();
    if (state->env.get() != input || --state->count > 0) return;
    last = std::move(state->env);
    state->env = nullptr;
  }
  last.reset();
  // Unless another thread has made the next env meanwhile.
  if (auto state = current().lock(); state->env == nullptr && std::exchange(state->has_log, false))
    set_log_sink(nullptr);
}

OrtStatus* ort_api::UpdateEnvWithCustomLogLevel(OrtEnv* ort_env, OrtLoggingLevel log_severity_level) noexcept {
  if (OrtStatus* bad = check_pointers("UpdateEnvWithCustomLogLevel", {{"ort_env", ort_env}})) return bad;
  ort_env->logger->severity = log_severity_level;
  return nullptr;
}

OrtStatus* ep_api::GetEnvConfigEntries(OrtKeyValuePairs** config_entries) noexcept {
  clear(config_entries);
  if (OrtStatus* bad = check_pointers("GetEnvConfigEntries", {{"config_entries", config_entries}})) return bad;
  const std::shared_ptr<OrtEnv> env = current_env();
  if (env == nullptr) return make_ort_status(ORT_FAIL, "OrtEnv instance does not exist");
  return make_object(config_entries, env->config_entries);
}

// Tenon sends no telemetry, so there is none to switch, and nothing asks which language a program is written in.
OrtStatus* ort_api::EnableTelemetryEvents(const OrtEnv* env) noexcept {
  return check_pointers("EnableTelemetryEvents", {{"env", env}});
}
OrtStatus* ort_api::DisableTelemetryEvents(const OrtEnv* env) noexcept {
  return check_pointers("DisableTelemetryEvents", {{"env", env}});
}
OrtStatus* ort_api::SetLanguageProjection(const OrtEnv* ort_env, OrtLanguageProjection) noexcept {
  return check_pointers("SetLanguageProjection", {{"ort_env", ort_env}});
}

OrtStatus* ort_api::GetAvailableProviders(char*** out_ptr, int* provider_length) noexcept {
  clear(out_ptr);
  clear(provider_length);
  if (OrtStatus* bad =
          check_pointers("GetAvailableProviders", {{"out_ptr", out_ptr}, {"provider_length", provider_length}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    // One block: the pointers, then the names that they point to.
    size_t bytes = kProviders.size() * sizeof(char*);
    for (const char* name : kProviders) bytes += std::strlen(name) + 1;
    auto* block = static_cast<char*>(::operator new(bytes));
    auto* pointers = reinterpret_cast<char**>(block);
    char* text = block + kProviders.size() * sizeof(char*);
    for (size_t i = 0; i < kProviders.size(); ++i) {
      pointers[i] = text;
      const size_t length = std::strlen(kProviders[i]) + 1;
      std::memcpy(text, kProviders[i], length);
      text += length;
    }
    *out_ptr = pointers;
    *provider_length = static_cast<int>(kProviders.size());
    return nullptr;
  });
}

OrtStatus* ort_api::ReleaseAvailableProviders(char** ptr, int) noexcept {
  ::operator delete(ptr);
  return nullptr;
}

}  // namespace tenon::abi
