// The allocators that sessions of an env may share, and arena configurations.
#include <algorithm>
#include <string_view>

#include "abi/arena_cfg.h"
#include "abi/objects/allocator.h"
#include "abi/objects/env.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/session.h"
#include "ep/host/plugin_registry.h"

namespace tenon::abi {

namespace {

bool is_plain_cpu(const OrtMemoryInfo& info) {
  return info.device.type == OrtMemoryInfoDeviceType_CPU && info.device.memory_type == OrtDeviceMemoryType_DEFAULT;
}

// Replaces what is registered for the same device.
void register_allocator(OrtEnv& env, SharedAllocator added) {
  auto allocators = env.allocators.lock();
  std::erase_if(*allocators, [&](const SharedAllocator& one) { return one.info.device == added.info.device; });
  allocators->push_back(std::move(added));
}

int64_t OrtArenaCfg::* arena_key(std::string_view key) {
  if (key == "arena_extend_strategy") return &OrtArenaCfg::arena_extend_strategy;
  if (key == "initial_chunk_size_bytes") return &OrtArenaCfg::initial_chunk_size_bytes;
  if (key == "max_dead_bytes_per_chunk") return &OrtArenaCfg::max_dead_bytes_per_chunk;
  if (key == "initial_growth_chunk_size_bytes") return &OrtArenaCfg::initial_growth_chunk_size_bytes;
  if (key == "max_power_of_two_extend_bytes") return &OrtArenaCfg::max_power_of_two_extend_bytes;
  return nullptr;
}

// -1 stands for the default of each; only strategies 0 and 1 exist.
OrtStatus* make_valid(OrtArenaCfg** out, const OrtArenaCfg& config) noexcept {
  const bool valid = config.arena_extend_strategy >= -1 && config.arena_extend_strategy <= 1 &&
                     config.initial_chunk_size_bytes >= -1 && config.initial_growth_chunk_size_bytes >= -1 &&
                     config.max_power_of_two_extend_bytes >= -1;
  return valid ? make_object(out, config)
               : make_ort_status(ORT_INVALID_ARGUMENT, "Invalid configuration value was provided.");
}

// The allocator that an EP of the session has made for it, with the session's options. Plain CPU memory stays the
// host's own, and a session that takes the env's allocators gets those.
std::shared_ptr<PluginAllocator> session_allocator(const OrtSession& session, const OrtMemoryInfo& info) {
  const char* shared = session.options.config_entries.find("session.use_env_allocators");
  if (is_plain_cpu(info) || (shared != nullptr && std::string_view(shared) == "1")) return nullptr;
  std::shared_ptr<PluginAllocator> serving;
  for (const auto& one : session.plugins.allocators) {
    if (one->info().device == info.device) return one;
    if (serving == nullptr && serves(one->info().device, info.device)) serving = one;
  }
  return serving;
}

// A shared allocator for memory like `info`; null when there is none.
OrtAllocator* find_shared_allocator(const OrtEnv& env, const OrtMemoryInfo& info) {
  auto allocators = env.allocators.lock();
  OrtAllocator* serving = nullptr;
  for (const SharedAllocator& one : *allocators) {
    if (one.info.device == info.device) return one.allocator;
    if (serving == nullptr && serves(one.info.device, info.device)) serving = one.allocator;
  }
  // Plain CPU memory stays the host's own, also where an EP has an allocator for it.
  if (is_plain_cpu(info)) return nullptr;
  return serving != nullptr ? serving : PluginRegistry::instance().find_allocator(info);
}

}  // namespace

OrtStatus* ort_api::RegisterAllocator(OrtEnv* env, OrtAllocator* allocator) noexcept {
  if (OrtStatus* bad = check_pointers("RegisterAllocator", {{"env", env}, {"allocator", allocator}})) return bad;
  return guarded([&]() -> OrtStatus* {
    const OrtMemoryInfo* info = nullptr;
    if (OrtStatus* bad = AllocatorGetInfo(allocator, &info)) return bad;
    if (info == nullptr) return make_ort_status(ORT_INVALID_ARGUMENT, "The allocator's Info gives null.");
    if (info->allocator_type == OrtArenaAllocator)
      return make_ort_status(ORT_INVALID_ARGUMENT,
                             "Please register the allocator as OrtDeviceAllocator even if the provided allocator has "
                             "arena logic built-in. OrtArenaAllocator is reserved for arenas of the library.");
    register_allocator(*env, {.info = *info, .allocator = allocator, .owner = nullptr});
    return nullptr;
  });
}

OrtStatus* ort_api::UnregisterAllocator(OrtEnv* env, const OrtMemoryInfo* mem_info) noexcept {
  if (OrtStatus* bad = check_pointers("UnregisterAllocator", {{"env", env}, {"mem_info", mem_info}})) return bad;
  auto allocators = env->allocators.lock();
  const size_t removed =
      std::erase_if(*allocators, [&](const SharedAllocator& one) { return one.info.device == mem_info->device; });
  if (removed > 0) return nullptr;
  return make_ort_status(ORT_INVALID_ARGUMENT, "No allocator for this device has been registered for sharing.");
}

OrtStatus* ort_api::CreateAndRegisterAllocator(OrtEnv* env, const OrtMemoryInfo* mem_info,
                                               const OrtArenaCfg*) noexcept {
  if (OrtStatus* bad = check_pointers("CreateAndRegisterAllocator", {{"env", env}, {"mem_info", mem_info}})) return bad;
  if (!is_plain_cpu(*mem_info))
    return make_ort_status(
        ORT_INVALID_ARGUMENT,
        "Only CPU devices are supported. Please call CreateAndRegisterAllocatorV2() for other device.");
  return guarded([&]() -> OrtStatus* {
    register_allocator(*env, {.info = *mem_info, .allocator = default_allocator(), .owner = nullptr});
    return nullptr;
  });
}

OrtStatus* ort_api::CreateAndRegisterAllocatorV2(OrtEnv* env, const char* provider_type, const OrtMemoryInfo* mem_info,
                                                 const OrtArenaCfg* arena_cfg, const char* const*, const char* const*,
                                                 size_t) noexcept {
  if (OrtStatus* bad = check_pointers("CreateAndRegisterAllocatorV2",
                                      {{"env", env}, {"provider_type", provider_type}, {"mem_info", mem_info}}))
    return bad;
  if (std::string_view(provider_type) == "CPUExecutionProvider")
    return CreateAndRegisterAllocator(env, mem_info, arena_cfg);
  return ort_error(ORT_INVALID_ARGUMENT, "{} is not implemented in CreateAndRegisterAllocatorV2()", provider_type);
}

OrtStatus* ort_api::GetSharedAllocator(OrtEnv* env, const OrtMemoryInfo* mem_info, OrtAllocator** allocator) noexcept {
  clear(allocator);
  if (OrtStatus* bad =
          check_pointers("GetSharedAllocator", {{"env", env}, {"mem_info", mem_info}, {"allocator", allocator}}))
    return bad;
  *allocator = find_shared_allocator(*env, *mem_info);
  if (*allocator == nullptr && is_plain_cpu(*mem_info)) *allocator = default_allocator();
  return nullptr;
}

OrtStatus* ort_api::CreateAllocator(const OrtSession* session, const OrtMemoryInfo* mem_info,
                                    OrtAllocator** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateAllocator", {{"session", session}, {"mem_info", mem_info}, {"out", out}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    if (const auto own = session_allocator(*session, *mem_info); own != nullptr) {
      *out = borrow_allocator(own->program(), own);
      return nullptr;
    }
    const std::shared_ptr<OrtEnv> env = current_env();
    OrtAllocator* found = env != nullptr ? find_shared_allocator(*env, *mem_info) : nullptr;
    if (found == nullptr && is_plain_cpu(*mem_info)) found = default_allocator();
    if (found == nullptr) return make_ort_status(ORT_INVALID_ARGUMENT, "No requested allocator available");
    *out = borrow_allocator(found, env);
    return nullptr;
  });
}

OrtStatus* ort_api::CreateArenaCfg(size_t max_mem, int arena_extend_strategy, int initial_chunk_size_bytes,
                                   int max_dead_bytes_per_chunk, OrtArenaCfg** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateArenaCfg", {{"out", out}})) return bad;
  return make_valid(out, OrtArenaCfg{.max_mem = max_mem,
                                     .arena_extend_strategy = arena_extend_strategy,
                                     .initial_chunk_size_bytes = initial_chunk_size_bytes,
                                     .max_dead_bytes_per_chunk = max_dead_bytes_per_chunk});
}

OrtStatus* ort_api::CreateArenaCfgV2(const char* const* arena_config_keys, const size_t* arena_config_values,
                                     size_t num_keys, OrtArenaCfg** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateArenaCfgV2", {{"out", out}})) return bad;
  OrtArenaCfg config;
  if (num_keys > 0) {
    if (OrtStatus* bad = check_pointers("CreateArenaCfgV2", {{"arena_config_keys", arena_config_keys},
                                                             {"arena_config_values", arena_config_values}}))
      return bad;
  }
  for (size_t i = 0; i < num_keys; ++i) {
    if (OrtStatus* bad = check_pointers("CreateArenaCfgV2", {{"a key", arena_config_keys[i]}})) return bad;
    const std::string_view key = arena_config_keys[i];
    if (key == "max_mem") {
      config.max_mem = arena_config_values[i];
    } else if (auto member = arena_key(key)) {
      config.*member = static_cast<int64_t>(arena_config_values[i]);
    } else {
      return ort_error(ORT_INVALID_ARGUMENT, "Invalid key found: {}", arena_config_keys[i]);
    }
  }
  return make_valid(out, config);
}

void ort_api::ReleaseArenaCfg(OrtArenaCfg* input) noexcept { delete input; }

}  // namespace tenon::abi
