#include "cli/command_line.h"

#include <tenon/close_names.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cli/status.h"

namespace tenon::cli {
namespace {

// std::strtoull, which the parser uses, takes "-1" for the largest number and "010" for 8.
template <typename Integer>
std::string no_integer(const std::string& text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const size_t first = text.starts_with('-') ? 1 : 0;
  const bool octal = text.size() > first + 1 && text[first] == '0';
  if (error == std::errc() && end == text.data() + text.size() && !octal) return "";
  return format("\"{}\" is no whole number{}", text, std::is_unsigned_v<Integer> ? " from 0 on" : "");
}

std::string no_value(const std::string& text) {
  if (text.starts_with("--")) return format("\"{}\" is an option, and no value", text);
  return "";
}

void check_options(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag
    const std::string type = option->get_type_name();
    option->check(CLI::Validator(no_value, ""));
    if (type.starts_with("UINT")) option->check(CLI::Validator(no_integer<uint64_t>, ""));
    if (type.starts_with("INT")) option->check(CLI::Validator(no_integer<int64_t>, ""));
  }
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty()) names.push_back(command->get_name());
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  return text;
}

std::string close_to(std::string_view name, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return did_you_mean(name, views);
}

std::string unknown_option(const CLI::App& command, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
  const std::string close = close_to(name, names);
  return format("\"tenon {}\" has no option {}{}", command.get_name(), name,
                close.empty() ? format("; \"tenon {} --help\" lists them.", command.get_name()) : close);
}

// For the parser's "model is required" and "--output-dir: 1 required TEXT missing"; empty for its other sentences.
std::string missing_text(const CLI::App& command, const CLI::ParseError& error) {
  const std::string_view text = error.what();
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool required = error.get_name() == "RequiredError" && option->get_required() && option->count() == 0;
    const bool unvalued = error.get_name() == "ArgumentMismatch" && text.starts_with(name + ":");
    if (!required && !unvalued) continue;
    return format("\"tenon {0}\" needs {1}{2}: {3}. \"tenon {0} --help\" says what it takes.", command.get_name(),
                  unvalued ? "a value behind " : "", name, option->get_description());
  }
  return "";
}

}  // namespace

void check_values(CLI::App& app) {
  check_options(app);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) check_values(*command);
}

std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error, int argc, const char* const* argv) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty()) {
    const std::vector<std::string> names = command_names(app);
    const auto first =
        std::find_if(argv + 1, argv + argc, [](std::string_view text) { return !text.starts_with('-'); });
    if (first == argv + argc)
      return format("No command is given; the commands are {}. \"tenon --help\" says what each does.", listed(names));
    const std::string close = close_to(*first, names);
    return format("There is no command \"{}\"{}", *first,
                  close.empty() ? format("; the commands are {}.", listed(names)) : close);
  }
  for (const CLI::App* command : chosen) {
    for (const std::string& argument : command->remaining()) {
      if (argument.starts_with('-')) return unknown_option(*command, argument);
      return format("\"tenon {0}\" does not expect \"{1}\"; \"tenon {0} --help\" says what it takes.",
                    command->get_name(), argument);
    }
  }
  if (const std::string missing = missing_text(*chosen.back(), error); !missing.empty()) return missing;
  std::string text = error.what();
  // The parser's own sentences have no end.
  if (!text.ends_with('.')) text += '.';
  return text;
}

}  // namespace tenon::cli
