#include "runtime/session_config.h"

#include <tenon/close_names.h>
#include <tenon/node_values.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_keys.h"
#include "base/edit_distance.h"
#include "base/env.h"
#include "base/log.h"

namespace tenon {

namespace {

constexpr std::string_view kCpuEpName = "CPUExecutionProvider";
// The reference's words, which programs may look for.
constexpr std::string_view kNoFallback =
    "This session contains graph nodes that are assigned to the default CPU EP, but fallback to CPU EP has been "
    "explicitly disabled by the user.";

// A field that has left its default was set by the caller, and must not say the opposite of the entry.
Status apply_flag(const SessionOptions& options, std::string_view key, bool fallback, std::string_view field_name,
                  bool& field) {
  const auto entry = options.config.find(std::string(key));
  if (entry == options.config.end()) return {};
  const bool value = parse_flag(entry->second).value_or(fallback);
  TENON_INVALID_IF(field != fallback && field != value,
                   "SessionOptions::{} is {}, and the session config entry \"{}\" is \"{}\".", field_name, field, key,
                   entry->second);
  field = value;
  return {};
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

// An EP's name without the ending that most of them share, which would make short names look alike.
std::string_view own_part(std::string_view name) {
  constexpr std::string_view kEnding = "ExecutionProvider";
  const size_t rest = name.size() - std::min(name.size(), kEnding.size());
  return rest > 0 && edit_distance(name.substr(rest), kEnding) == 0 ? name.substr(0, rest) : name;
}

// Whether `name` is `known` but for a slip: in the name's own part or, where that part agrees, in its ending.
bool is_slip(std::string_view name, std::string_view known) {
  const std::string_view own = own_part(known);
  if (edit_distance(name.substr(0, own.size()), own) == 0) return edit_distance(name, known) <= 3;
  const std::string_view said = own_part(name);
  return edit_distance(said, own) <= std::min<size_t>(3, std::max(said.size(), own.size()) / 3);
}

// "ep.<name>.<key>" is for the EP of that name, and may be for one that this session does not use; but not for one that
// is nearly one of the session's.
Status check_ep_entry(const SessionOptions& options, const std::string& key) {
  constexpr std::string_view kPrefix = "ep.";
  const std::string name = lower(key);
  const size_t dot = name.find('.', kPrefix.size());
  if (!name.starts_with(kPrefix) || dot == std::string::npos) return {};
  const std::string_view ep = std::string_view(name).substr(kPrefix.size(), dot - kPrefix.size());
  if (edit_distance(ep, kCpuEpName) == 0) return {};
  const EpChoice* close = nullptr;
  for (const EpChoice& choice : options.eps) {
    if (edit_distance(ep, choice.ep_name) == 0) return {};
    if (is_slip(ep, choice.ep_name)) close = &choice;
  }
  TENON_INVALID_IF(close != nullptr,
                   "The session config entry \"{}\" is for no EP of the session; did you mean \"{}\"?", key,
                   close->ep_name);
  return {};
}

Status check_choices(const SessionOptions& options) {
  for (const EpChoice& choice : options.eps) {
    TENON_INVALID_IF(choice.ep_name == kCpuEpName && cpu_fallback_disabled(options),
                     "Conflicting session configuration: explicitly added the CPU EP to the session, but also disabled "
                     "fallback to the CPU EP via session configuration options.");
    TENON_INVALID_IF(choice.ep_name == kCpuEpName && !choice.options.empty(),
                     "The option \"{}\" is for the EP \"{}\", which has no options.", choice.options.begin()->first,
                     kCpuEpName);
  }
  return {};
}

// The names of SessionOptions::disabled_passes and of the entry, "all" replaced by every name.
Status read_disabled_passes(SessionOptions& options) {
  std::vector<std::string> given = options.disabled_passes;
  if (const auto entry = options.config.find(std::string(kDisabledPassesKey)); entry != options.config.end()) {
    const std::string& text = entry->second;
    for (size_t start = 0; start < text.size();) {
      const size_t end = std::min(text.find(',', start), text.size());
      given.push_back(text.substr(start, end - start));
      start = end + 1;
    }
  }
  const std::vector<std::string_view> known = pass_names();
  std::vector<std::string> disabled;
  for (const std::string& name : given) {
    if (name == "all") {
      disabled.insert(disabled.end(), known.begin(), known.end());
      continue;
    }
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::string there = did_you_mean(name, known);
      if (there.empty()) {
        for (std::string_view one : known) there += format("{}{}", there.empty() ? "; the passes are " : ", ", one);
        there += ", and \"all\" stands for them together.";
      }
      return invalid_argument("There is no pass \"{}\" to leave out{}", name, there);
    }
    disabled.push_back(name);
  }
  options.disabled_passes = std::move(disabled);
  return {};
}

// In bytes; `text` is a number (check_config_entry).
size_t number_of_mib(std::string_view text) {
  constexpr size_t kMost = SIZE_MAX >> 21;
  size_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return std::min(read.ec == std::errc() ? number : kMost, kMost) << 20;
}

// Fixes the dimensions of `graph` that have a name of `dims`, and notes the names that it has.
void fix_named(Graph& graph, const std::map<std::string, int64_t>& dims, std::set<std::string>& names) {
  for (Value& value : graph.values) {
    for (Dim& dim : value.dims) {
      if (dim.known() || dim.symbol.empty()) continue;
      names.insert(dim.symbol);
      if (const auto fixed = dims.find(dim.symbol); fixed != dims.end()) dim = Dim{fixed->second, {}};
    }
  }
}

Status unknown_name(const SessionOptions& options, std::string_view field, const std::string& name,
                    const std::set<std::string>& known) {
  const std::vector<std::string_view> names(known.begin(), known.end());
  std::string there = did_you_mean(name, names);
  if (there.empty()) {
    constexpr size_t kMostNames = 8;
    for (size_t i = 0; i < names.size() && i < kMostNames; ++i)
      there += format("{}\"{}\"", i == 0 ? "" : ", ", names[i]);
    if (names.size() > kMostNames) there += ", ...";
    there = format("; it has {}.", !there.empty()    ? there
                                   : field == "dims" ? "none with a name"
                                                     : "none with a denotation");
  }
  const std::string message = format("The model has no dimension \"{}\" ({}SessionOptions::{}){}", name,
                                     field == "dims" ? "--dim, " : "", field, there);
  if (!options.ignore_unknown_names) return Status(StatusCode::kInvalidArgument, message);
  log_warning("load", "{}", message);
  return {};
}

}  // namespace

Result<SessionOptions> checked_options(const SessionOptions& options) {
  TENON_TRY(check_environment());
  TENON_INVALID_IF(options.plan_cache_size == 0, "SessionOptions::plan_cache_size is 0; at least 1 plan is kept.");
  TENON_INVALID_IF(options.threads < 0, "SessionOptions::threads is {}; 0 means as many as there are CPUs.",
                   options.threads);
  for (const auto* dims : {&options.dims, &options.dims_by_denotation}) {
    for (const auto& [name, value] : *dims) {
      TENON_INVALID_IF(value < 0, "SessionOptions::dims fixes \"{}\" to {}, which is negative.", name, value);
    }
  }
  for (const auto& [key, value] : options.config) {
    TENON_TRY(check_config_entry(ConfigScope::kSession, key, value));
    TENON_TRY(check_ep_entry(options, key));
  }
  TENON_TRY(check_choices(options));
  SessionOptions checked = options;
  TENON_TRY(apply_flag(options, kDisallowCopiesKey, false, "disallow_copies", checked.disallow_copies));
  TENON_TRY(apply_flag(options, kWinogradKey, true, "winograd", checked.winograd));
  TENON_TRY(apply_flag(options, kReferenceKernelsKey, false, "reference_kernels", checked.reference_kernels));
  if (const auto entry = options.config.find(std::string(kPlanCacheKey)); entry != options.config.end())
    checked.plan_cache_bytes = number_of_mib(entry->second);
  TENON_TRY(read_disabled_passes(checked));
  return checked;
}

Status fix_dims(Model& model, const SessionOptions& options) {
  if (options.dims.empty() && options.dims_by_denotation.empty()) return {};
  std::set<std::string> denotations, names;
  for (const DimDenotation& denotation : model.notes.denotations) {
    denotations.insert(denotation.text);
    const auto fixed = options.dims_by_denotation.find(denotation.text);
    if (fixed == options.dims_by_denotation.end()) continue;
    std::vector<Dim>& dims = model.graph.value(denotation.value).dims;
    if (denotation.axis < dims.size() && !dims[denotation.axis].known()) dims[denotation.axis] = Dim{fixed->second, {}};
  }
  fix_named(model.graph, options.dims, names);
  for (const auto& [name, value] : options.dims)
    if (!names.contains(name)) TENON_TRY(unknown_name(options, "dims", name, names));
  for (const auto& [name, value] : options.dims_by_denotation)
    if (!denotations.contains(name)) TENON_TRY(unknown_name(options, "dims_by_denotation", name, denotations));
  return {};
}

Status fallback_refused(std::string_view output) {
  return unsupported("{}{}", kNoFallback, output.empty() ? "" : format(" The first of them makes \"{}\".", output));
}

bool is_fallback_refusal(const Status& status) { return status.message().starts_with(kNoFallback); }

bool cpu_fallback_disabled(const SessionOptions& options) {
  constexpr const char* kKey = "session.disable_cpu_ep_fallback";
  const auto entry = options.config.find(kKey);
  if (entry == options.config.end() || entry->second == "0") return false;
  if (entry->second == "1") return true;
  log_warning("load", "The session config entry \"{}\" is \"{}\", and only \"1\" switches it on.", kKey, entry->second);
  return false;
}

}  // namespace tenon
