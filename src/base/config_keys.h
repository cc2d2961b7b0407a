// The table of Tenon's own config entries ("tenon.<key>"), for parsing and messages. A test compares it with
// docs/reference/options.md.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon {

// Who holds the entry: a session (SessionOptions::config, AddSessionConfigEntry), a run (AddRunConfigEntry) or the
// process's env (OrtEnvCreationOptions).
enum class ConfigScope : uint8_t { kSession, kRun, kEnv };

enum class ConfigKind : uint8_t { kFlag, kInteger, kText };

struct ConfigKey {
  ConfigScope scope;
  std::string_view name;
  ConfigKind kind;
  std::string_view default_value;
  std::string_view help;  // one sentence
};

inline constexpr std::string_view kDisallowCopiesKey = "tenon.disallow_copies";
inline constexpr std::string_view kDisabledPassesKey = "tenon.disabled_passes";
inline constexpr std::string_view kReferenceKernelsKey = "tenon.reference_kernels";
inline constexpr std::string_view kWinogradKey = "tenon.winograd";
inline constexpr std::string_view kModelPathKey = "tenon.model_path";
inline constexpr std::string_view kPackedFolderKey = "tenon.packed_weights_folder";
inline constexpr std::string_view kPackedLimitKey = "tenon.packed_weights_limit_mb";
inline constexpr std::string_view kPlanCacheKey = "tenon.plan_cache_mb";
inline constexpr std::string_view kTimeoutKey = "tenon.timeout_ms";

std::span<const ConfigKey> config_keys();

// 0, 1, false, true, no, yes, off and on, in any case; nullopt for other text. The same for every flag: config entries,
// EP options.
std::optional<bool> parse_flag(std::string_view text);
inline constexpr std::string_view kFlagSpellings = "0, 1, false, true, no, yes, off or on";

// "tenon.<key>" entries have to be in the table, with a value of their kind. An entry of another name is another
// library's and OK, unless it is one of Tenon's but for a slip ("tenno.winograd") or a flag of Tenon's without its
// prefix
// ("disallow_copies").
// Errors: kInvalidArgument names the entry, its value and what is accepted, or the names that are close.
Status check_config_entry(ConfigScope scope, std::string_view name, std::string_view value);

}  // namespace tenon
