// The options of a plugin: names, allowed values, and errors that suggest close names (S4.5).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tenon::plugin {

enum class OptionKind : uint8_t {
  kFlag,     // base/config_keys.h
  kInteger,  // decimal, from lowest to highest
  kSize,     // bytes, decimal, all that 64 bits hold
  kAddress,  // a pointer: decimal, or hex with 0x
  kChoice,   // one of `choices`
  kText,
};

struct OptionRow {
  std::string_view name;
  OptionKind kind;
  std::string_view default_value;
  std::string_view choices = "";  // "compile|kernels"
  int64_t lowest = INT64_MIN;
  int64_t highest = INT64_MAX;
};

// How a plugin that has an option "use_tf32" takes a session's entry of that name without a prefix.
enum class BareKeys : uint8_t {
  kOthers,  // somebody else's
  kOurs,    // the option, where no entry with a prefix gives it
};

// The parsed options of one session. Only names of the table may be asked for.
class OptionValues {
 public:
  // `entries` are a session's config entries. An entry belongs to the plugin when its key begins with one of `prefixes`
  // ("ep.tenonsimexecutionprovider.", "ep.sim."); what follows may carry a prefix again, because applications write
  // both. Keys are matched without regard to case. Later entries win.
  // Errors: kInvalidArgument names the option, and lists close names or the values that it takes.
  static Result<OptionValues> parse(std::span<const OptionRow> rows, std::span<const std::string_view> prefixes,
                                    std::span<const std::pair<std::string, std::string>> entries,
                                    BareKeys bare = BareKeys::kOthers);

  const std::string& text(std::string_view name) const;
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  uint64_t size(std::string_view name) const;
  uint64_t address(std::string_view name) const;
  bool given(std::string_view name) const;
  // Whether the value is the default's, however it is written.
  bool is_default(const OptionRow& row) const;

 private:
  struct Value {
    std::string_view name;
    std::string text;
    bool given = false;
  };
  Status set(std::span<const OptionRow> rows, std::string_view name, const std::string& text);
  const Value& find(std::string_view name) const;
  std::vector<Value> values_;
};

}  // namespace tenon::plugin
