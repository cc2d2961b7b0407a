#include "base/config_keys.h"

#include <tenon/close_names.h>

#include <algorithm>
#include <charconv>

#include "base/edit_distance.h"

namespace tenon {

namespace {

constexpr ConfigKey kKeys[] = {
    {ConfigScope::kSession, kDisabledPassesKey, ConfigKind::kText, "",
     "Passes to leave out, by name, separated by commas; `all`: every pass."},
    {ConfigScope::kSession, kDisallowCopiesKey, ConfigKind::kFlag, "0",
     "Strict mode: a copy that a run would need is an error."},
    {ConfigScope::kSession, kModelPathKey, ConfigKind::kText, "",
     "The model's file, for EPs that look beside it; `Session::load` sets it."},
    {ConfigScope::kSession, kPackedFolderKey, ConfigKind::kText, "",
     "A folder, best in memory, through which processes share packed weights of the CPU EP."},
    {ConfigScope::kSession, kPackedLimitKey, ConfigKind::kInteger, "0",
     "Most MiB of that folder; what exceeds them is packed for each session. 0: no limit."},
    {ConfigScope::kSession, kPlanCacheKey, ConfigKind::kInteger, "32",
     "About how many MiB the plans hold that are kept for input shapes; those of the longest unused shapes go."},
    {ConfigScope::kSession, kReferenceKernelsKey, ConfigKind::kFlag, "0",
     "Only the plain kernels of the CPU EP, which the fast ones are compared with: slow."},
    {ConfigScope::kSession, kWinogradKey, ConfigKind::kFlag, "1",
     "Winograd for 3x3 convolutions: faster, error a few 1e-6 of the largest output."},
    {ConfigScope::kRun, kDisallowCopiesKey, ConfigKind::kFlag, "0",
     "Strict mode for this run; 0 leaves it to the session."},
    {ConfigScope::kRun, "tenon.run_signals", ConfigKind::kText, "",
     "HANDLE:VALUE,...: semaphores that are signalled when the run is done."},
    {ConfigScope::kRun, "tenon.run_waits", ConfigKind::kText, "",
     "HANDLE:VALUE,...: semaphores that the run waits for."},
    {ConfigScope::kRun, kTimeoutKey, ConfigKind::kInteger, "0",
     "Milliseconds for the run; it ends with an error after them. 0: no limit."},
    {ConfigScope::kEnv, kDisallowCopiesKey, ConfigKind::kFlag, "0",
     "Strict mode for CopyTensors: a copy that it would make is an error."},
};

constexpr std::string_view kPrefix = "tenon.";

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

const char* scope_name(ConfigScope scope) {
  switch (scope) {
    case ConfigScope::kSession:
      return "session";
    case ConfigScope::kRun:
      return "run";
    case ConfigScope::kEnv:
      return "env";
  }
  return "session";
}

const char* place_of(ConfigScope scope) {
  switch (scope) {
    case ConfigScope::kSession:
      return "AddSessionConfigEntry, or SessionOptions::config in C++";
    case ConfigScope::kRun:
      return "AddRunConfigEntry, or the field of RunOptions in C++";
    case ConfigScope::kEnv:
      break;
  }
  return "OrtEnvCreationOptions::config_entries";
}

std::vector<std::string_view> names_of(ConfigScope scope) {
  std::vector<std::string_view> names;
  for (const ConfigKey& key : kKeys)
    if (key.scope == scope) names.push_back(key.name);
  return names;
}

Status check_value(const ConfigKey& key, std::string_view value) {
  switch (key.kind) {
    case ConfigKind::kFlag:
      TENON_INVALID_IF(!parse_flag(value), "The {} config entry \"{}\" is \"{}\"; it takes {}.", scope_name(key.scope),
                       key.name, value, kFlagSpellings);
      return {};
    case ConfigKind::kInteger: {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      // An empty value is none: hosts clear entries that way.
      TENON_INVALID_IF(!value.empty() && (error != std::errc() || end != value.data() + value.size() || number < 0),
                       "The {} config entry \"{}\" is \"{}\"; it takes a whole number from 0 on.",
                       scope_name(key.scope), key.name, value);
      return {};
    }
    case ConfigKind::kText:
      return {};
  }
  return {};
}

// A name of Tenon's with a slip before or after the dot, or a switch of Tenon's without its prefix; "" for anybody
// else's. Without a prefix the other keys ("timeout_ms", "model_path") may well be another library's.
std::string_view meant(std::string_view name) {
  for (const ConfigKey& key : kKeys) {
    const bool bare = key.kind == ConfigKind::kFlag && edit_distance(name, key.name.substr(kPrefix.size())) == 0;
    if (bare || edit_distance(name, key.name) <= 2) return key.name;
  }
  return "";
}

}  // namespace

std::span<const ConfigKey> config_keys() { return kKeys; }

std::optional<bool> parse_flag(std::string_view text) {
  const std::string value = lower(text);
  for (std::string_view yes : {"1", "true", "yes", "on"})
    if (value == yes) return true;
  for (std::string_view no : {"0", "false", "no", "off"})
    if (value == no) return false;
  return std::nullopt;
}

Status check_config_entry(ConfigScope scope, std::string_view name, std::string_view value) {
  for (const ConfigKey& key : kKeys)
    if (key.scope == scope && key.name == name) return check_value(key, value);
  if (!lower(name).starts_with(kPrefix)) {
    const std::string_view close = meant(name);
    TENON_INVALID_IF(!close.empty(), "There is no {} config entry \"{}\"; did you mean \"{}\"?", scope_name(scope),
                     name, close);
    return {};
  }
  for (const ConfigKey& key : kKeys) {
    TENON_INVALID_IF(key.name == name, "\"{}\" is a {} config entry, and not one of a{} {}: give it to {}.", name,
                     scope_name(key.scope), scope == ConfigScope::kEnv ? "n" : "", scope_name(scope),
                     place_of(key.scope));
  }
  const std::vector<std::string_view> names = names_of(scope);
  const std::string close = did_you_mean(name, names);
  TENON_INVALID_IF(!close.empty(), "There is no {} config entry \"{}\"{}", scope_name(scope), name, close);
  std::string all;
  for (std::string_view known : names) all += format("{}\"{}\"", all.empty() ? "" : ", ", known);
  return invalid_argument("There is no {} config entry \"{}\"; those of Tenon are {}.", scope_name(scope), name,
                          all.empty() ? "none" : all);
}

}  // namespace tenon
