// OrtSessionOptions as the core's SessionOptions.
#include "abi/objects/session_options.h"
#include "abi/objects/status.h"

namespace tenon::abi {

bool config_flag(const OrtKeyValuePairs& entries, std::string_view key, bool fallback) {
  const char* value = entries.find(key);
  return value == nullptr ? fallback : std::string_view(value) == "1";
}

namespace {

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
  if (options.create_thread == nullptr) return nullptr;
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
  return nullptr;
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
    if (OrtStatus* bad = set_threads(options, env, out)) return bad;
    if (OrtStatus* bad = set_dims(options, out)) return bad;
    if (options.azure_eps > 1)
      return make_ort_status(ORT_FAIL, "Provider AzureExecutionProvider has already been registered.");
    const OrtKeyValuePairs& entries = options.config_entries;
    for (const auto* initializers : {&options.initializers, &options.external_initializers})
      for (const auto& [name, value] : *initializers) out.initializers.insert_or_assign(name, value.tensor);
    out.external_files = options.external_files;
    out.eps = options.eps;
    if (options.has_cpu_ep) out.eps.push_back({.ep_name = "CPUExecutionProvider"});
    out.config = {entries.entries().begin(), entries.entries().end()};
    return nullptr;
  });
}

}  // namespace tenon::abi
