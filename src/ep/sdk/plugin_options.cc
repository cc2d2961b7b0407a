#include "ep/sdk/plugin_options.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/config_keys.h"
#include "base/edit_distance.h"

namespace tenon::plugin {

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

template <typename Integer>
std::optional<Integer> parse_number(std::string_view text, int base) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint64_t> parse_address(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) return parse_number<uint64_t>(text.substr(2), 16);
  return parse_number<uint64_t>(text, 10);
}

bool is_choice(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    const size_t bar = choices.find('|');
    if (choices.substr(0, bar) == text) return true;
    choices = bar == std::string_view::npos ? "" : choices.substr(bar + 1);
  }
  return false;
}

Status check_value(const OptionRow& row, const std::string& text) {
  switch (row.kind) {
    case OptionKind::kFlag:
      TENON_INVALID_IF(!parse_flag(text), "Option \"{}\" is \"{}\"; it takes {}.", row.name, text, kFlagSpellings);
      break;
    case OptionKind::kInteger: {
      const auto value = parse_number<int64_t>(text, 10);
      TENON_INVALID_IF(!value || *value < row.lowest || *value > row.highest,
                       "Option \"{}\" is \"{}\"; it takes a whole number from {} to {}.", row.name, text, row.lowest,
                       row.highest);
      break;
    }
    case OptionKind::kSize:
      TENON_INVALID_IF(!parse_number<uint64_t>(text, 10),
                       "Option \"{}\" is \"{}\"; it takes a whole number of bytes, from 0 to {}.", row.name, text,
                       UINT64_MAX);
      break;
    case OptionKind::kAddress:
      TENON_INVALID_IF(!parse_address(text),
                       "Option \"{}\" is \"{}\"; it takes an address, in decimal or in hex with 0x.", row.name, text);
      break;
    case OptionKind::kChoice: {
      std::string choices(row.choices);
      TENON_INVALID_IF(!is_choice(row.choices, text), "Option \"{}\" is \"{}\"; it takes one of {}.", row.name, text,
                       choices);
      break;
    }
    case OptionKind::kText:
      break;
  }
  return Status();
}

Status unknown_option(std::string_view name, std::span<const OptionRow> rows) {
  std::vector<std::string_view> names;
  for (const OptionRow& row : rows) names.push_back(row.name);
  std::string close;
  for (std::string_view candidate : close_names(name, names))
    close += (close.empty() ? "" : ", ") + format("\"{}\"", candidate);
  if (!close.empty()) return invalid_argument("There is no option \"{}\"; close ones are {}.", name, close);
  std::string all;
  for (std::string_view candidate : names) all += (all.empty() ? "" : ", ") + format("\"{}\"", candidate);
  return invalid_argument("There is no option \"{}\"; the options are {}.", name, all);
}

// The part of a key, in lower case, after the plugin's prefixes; nullopt for a key of somebody else's.
std::optional<std::string> own_key(const std::string& key, std::span<const std::string_view> prefixes) {
  std::string name = lower(key);
  bool own = false;
  for (bool again = true; again;) {
    again = false;
    for (std::string_view prefix : prefixes) {
      if (!std::string_view(name).starts_with(prefix)) continue;
      name.erase(0, prefix.size());
      own = again = true;
    }
  }
  if (!own) return std::nullopt;
  return name;
}

}  // namespace

Result<OptionValues> OptionValues::parse(std::span<const OptionRow> rows, std::span<const std::string_view> prefixes,
                                         std::span<const std::pair<std::string, std::string>> entries, BareKeys bare) {
  OptionValues options;
  for (const OptionRow& row : rows) options.values_.push_back({row.name, std::string(row.default_value), false});
  for (const auto& [key, text] : entries) {
    const std::string name = lower(key);
    const bool ours = bare == BareKeys::kOurs &&
                      std::any_of(rows.begin(), rows.end(), [&](const OptionRow& row) { return row.name == name; });
    if (ours) TENON_TRY(options.set(rows, name, text));
  }
  for (const auto& [key, text] : entries)
    if (const std::optional<std::string> name = own_key(key, prefixes)) TENON_TRY(options.set(rows, *name, text));
  return options;
}

Status OptionValues::set(std::span<const OptionRow> rows, std::string_view name, const std::string& text) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const OptionRow& r) { return r.name == name; });
  if (row == rows.end()) return unknown_option(name, rows);
  TENON_TRY(check_value(*row, text));
  Value& value = values_[row - rows.begin()];
  value.text = text;
  value.given = true;
  return Status();
}

const OptionValues::Value& OptionValues::find(std::string_view name) const {
  const auto value = std::find_if(values_.begin(), values_.end(), [&](const Value& v) { return v.name == name; });
  TENON_CHECK(value != values_.end());
  return *value;
}

const std::string& OptionValues::text(std::string_view name) const { return find(name).text; }
bool OptionValues::flag(std::string_view name) const { return parse_flag(find(name).text).value_or(false); }
int64_t OptionValues::integer(std::string_view name) const {
  return parse_number<int64_t>(find(name).text, 10).value_or(0);
}
uint64_t OptionValues::size(std::string_view name) const {
  return parse_number<uint64_t>(find(name).text, 10).value_or(0);
}
uint64_t OptionValues::address(std::string_view name) const { return parse_address(find(name).text).value_or(0); }
bool OptionValues::given(std::string_view name) const { return find(name).given; }

bool OptionValues::is_default(const OptionRow& row) const {
  const std::string& text = find(row.name).text;
  const std::string wanted(row.default_value);
  switch (row.kind) {
    case OptionKind::kFlag:
      return parse_flag(text) == parse_flag(wanted);
    case OptionKind::kInteger:
      return parse_number<int64_t>(text, 10) == parse_number<int64_t>(wanted, 10);
    case OptionKind::kSize:
      return parse_number<uint64_t>(text, 10) == parse_number<uint64_t>(wanted, 10);
    case OptionKind::kAddress:
      return parse_address(text) == parse_address(wanted);
    case OptionKind::kChoice:
    case OptionKind::kText:
      return text == wanted;
  }
  return false;
}

}  // namespace tenon::plugin
