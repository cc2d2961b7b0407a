#include "base/env.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <vector>

#include "base/config_keys.h"
#include "base/edit_distance.h"
#include "base/log.h"
#include "base/status.h"
#include "base/system.h"

namespace tenon {

namespace {

constexpr EnvironmentVariable kVariables[] = {
    {"TENON_CPU_ISA", "",
     "Highest instruction set that the CPU kernels use: baseline, avx2 or avx512; empty: the machine's."},
    {"TENON_DUMP", "", "Folder to write each graph and plan to, as text that diffs; empty: nothing is written."},
    {"TENON_LOG", "warning", "Least severe messages that are logged: info, warning or error."},
    {"TENON_OFFER_DEVICES", "",
     "Devices that EP libraries registered through the C ABI are offered beside the machine's own, separated by "
     "semicolons: type=cpu,vendor=0x8086."},
    {"TENON_THREADS", "0", "Threads of a session that sets none; 0: one for each CPU that the process may use."},
    {"TENON_TRACE", "", "Topics to log, separated by commas: dispatch, plan, copy, sync, interop, or all."},
    {"TENON_TRACE_FILE", "", "File to write spans of loading, planning and runs to, for Perfetto or chrome://tracing."},
};
static_assert(std::size(kVariables) == static_cast<size_t>(Env::kTraceFile) + 1);

constexpr int64_t kMostThreads = 1024;

// Of the variables that take words; several, separated by commas, where `many` is set.
struct EnvWords {
  Env variable;
  std::vector<std::string_view> words;
  bool many = false;
};

std::string value_of(const EnvironmentVariable& variable) {
  const char* value = std::getenv(variable.name);
  return value != nullptr && *value != '\0' ? value : variable.default_value;
}

std::string listed(const std::vector<std::string_view>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += format("{}{}", i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  return text;
}

Status check_words(const EnvWords& row) {
  const std::string text = env_value(row.variable);
  for (size_t start = 0; start < text.size();) {
    const size_t end = row.many ? std::min(text.find(',', start), text.size()) : text.size();
    const std::string_view word = std::string_view(text).substr(start, end - start);
    start = end + 1;
    if (word.empty() || std::find(row.words.begin(), row.words.end(), word) != row.words.end()) continue;
    return invalid_argument("The environment variable {} is \"{}\"; it takes {}{}.",
                            kVariables[static_cast<size_t>(row.variable)].name, text, listed(row.words),
                            row.many ? ", or several of them separated by commas" : "");
  }
  return {};
}

// A slip in a name of the list. Names that are further away are somebody else's.
void warn_of_slips() {
  constexpr std::string_view kPrefix = "TENON_";
  for (const std::string& name : environment_names()) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string_view word = std::string_view(name).substr(kPrefix.size());
    const EnvironmentVariable* close = nullptr;
    bool known = false;
    for (const EnvironmentVariable& variable : kVariables) {
      const size_t distance = edit_distance(word, std::string_view(variable.name).substr(kPrefix.size()));
      known = known || name == variable.name;
      if (distance <= std::min<size_t>(2, word.size() / 3)) close = &variable;
    }
    if (!known && close != nullptr)
      log_warning("env", "There is no environment variable {}; did you mean {}?", name, close->name);
  }
}

}  // namespace

Status check_environment() {
  static const EnvWords kWords[] = {
      {Env::kCpuIsa, {"baseline", "avx2", "avx512"}},
      {Env::kLog, {"info", "warning", "error"}},
      {Env::kTrace, {"dispatch", "plan", "copy", "sync", "interop", "all"}, true},
  };
  for (const EnvWords& row : kWords) TENON_TRY(check_words(row));
  TENON_TRY(env_integer(Env::kThreads, 0, kMostThreads).status());
  static std::once_flag once;
  std::call_once(once, warn_of_slips);
  return {};
}

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

std::string environment_value(const std::string& name) {
  for (const EnvironmentVariable& variable : kVariables)
    if (name == variable.name) return value_of(variable);
  return "";
}

std::string launcher_value(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string env_value(Env variable) { return value_of(kVariables[static_cast<size_t>(variable)]); }

Result<int64_t> env_integer(Env variable, int64_t lowest, int64_t highest) {
  const std::string text = env_value(variable);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  TENON_INVALID_IF(error != std::errc() || end != text.data() + text.size() || value < lowest || value > highest,
                   "The environment variable {} is \"{}\", which is no whole number from {} to {}.",
                   kVariables[static_cast<size_t>(variable)].name, text, lowest, highest);
  return value;
}

}  // namespace tenon
