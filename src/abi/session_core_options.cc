// OrtSessionOptions as the core's SessionOptions.
#include <algorithm>

#include "abi/objects/session_options.h"
#include "abi/objects/status.h"
#include "abi/thread_callbacks.h"
#include "base/env.h"

namespace tenon::abi {

bool config_flag(const OrtKeyValuePairs& entries, std::string_view key, bool fallback) {
  const char* value = entries.find(key);
  return value == nullptr ? fallback : std::string_view(value) == "1";
}

namespace {

constexpr int64_t kMostThreads = 1024;

// A pool that tells the program of its work, where the env asks for that.
OrtStatus* set_observed_pool(const OrtEnv& env, SessionOptions& out) {
  const std::optional<OrtThreadPoolCallbacksConfig> callbacks = *env.thread_callbacks.lock();
  if (!callbacks) return nullptr;
  ThreadPoolOptions options{.threads = out.threads, .allow_spinning = out.allow_spinning};
  if (options.threads == 0) {
    const Result<int64_t> threads = env_integer(Env::kThreads, 0, kMostThreads);
    if (!threads.ok()) return to_ort(threads.status());
    options.threads = static_cast<int>(*threads);
  }
  Result<std::shared_ptr<ThreadPool>> pool = make_thread_pool(options, out.custom_threads);
  if (!pool.ok()) return to_ort(pool.status());
  out.pool = make_observed_pool(*std::move(pool), *callbacks);
  return nullptr;
}

OrtStatus* set_threads(const OrtSessionOptions& options, const OrtEnv& env, SessionOptions& out) {
  out.allow_spinning = config_flag(options.config_entries, "session.intra_op.allow_spinning", true);
  if (!options.per_session_threads) {
    if (!env.has_global_pool)
      return make_ort_status(ORT_FAIL,
                             "When the session is not configured to use per session threadpools, the env must be "
                             "created with the the CreateEnvWithGlobalThreadPools API.");
    out.pool = env.pool;
    return nullptr;
  }
  out.threads = std::max(options.intra_op_threads, 0);
  if (options.create_thread == nullptr) return set_observed_pool(env, out);
  if (options.join_thread == nullptr)
    return make_ort_status(ORT_INVALID_ARGUMENT,
                           "The session options have a function that creates threads, and none that joins them.");
  out.custom_threads.create = [create = options.create_thread, creation = options.thread_creation_options](
                                  CustomThreads::Work work, void* parameter) {
    return const_cast<void*>(static_cast<const void*>(create(creation, work, parameter)));
  };
  out.custom_threads.join = [join = options.join_thread](void* thread) {
    join(static_cast<OrtCustomThreadHandle>(thread));
  };
  return set_observed_pool(env, out);
}

OrtStatus* set_dims(const OrtSessionOptions& options, SessionOptions& out) {
  out.dims = options.dims_by_name;
  out.dims_by_denotation = options.dims_by_denotation;
  out.ignore_unknown_names = true;
  // The reference takes a number below 1 for "leave it open".
  for (auto* dims : {&out.dims, &out.dims_by_denotation})
    std::erase_if(*dims, [](const auto& entry) { return entry.second < 0; });
  return nullptr;
}

}  // namespace

OrtStatus* to_core(const OrtSessionOptions& options, const OrtEnv& env, SessionOptions& out) noexcept {
  return guarded([&]() -> OrtStatus* {
    if (const int level = options.log_severity_level; level < -1 || level > ORT_LOGGING_LEVEL_FATAL)
      return ort_error(
          ORT_FAIL, "Invalid session log severity level. Not a valid onnxruntime::logging::Severity value: {}", level);
    if (OrtStatus* bad = set_threads(options, env, out)) return bad;
    if (OrtStatus* bad = set_dims(options, out)) return bad;
    if (options.azure_eps > 1)
      return make_ort_status(ORT_FAIL, "Provider AzureExecutionProvider has already been registered.");
    for (auto ep = options.eps.begin(); ep != options.eps.end(); ++ep) {
      if (std::any_of(options.eps.begin(), ep, [&](const EpChoice& one) { return one.ep_name == ep->ep_name; }))
        return ort_error(ORT_FAIL, "Provider {} has already been registered.", ep->ep_name);
    }
    const OrtKeyValuePairs& entries = options.config_entries;
    for (const auto* initializers : {&options.initializers, &options.external_initializers})
      for (const auto& [name, value] : *initializers) out.initializers.insert_or_assign(name, value.tensor);
    out.external_files = options.external_files;
    out.packed_weights = options.packed_weights;
    out.eps = options.eps;
    if (options.has_cpu_ep) out.eps.push_back({.ep_name = "CPUExecutionProvider"});
    out.config = {entries.entries().begin(), entries.entries().end()};
    return nullptr;
  });
}

}  // namespace tenon::abi
