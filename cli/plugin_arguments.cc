#include "cli/plugin_arguments.h"

#include <tenon/close_names.h>

#include <tenon/hardware.h>

#include <algorithm>
#include <utility>

#include "cli/status.h"

namespace tenon::cli {
namespace {

Result<std::pair<std::string, std::string>> split(const std::string& text, const char* option, const char* form) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0) return invalid_argument("{} \"{}\" has not the form {}.", option, text, form);
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

// A key "NAME.KEY" is for the EP of that name when there is one, or nearly one: then it is for nobody else.
Status check_prefix(const std::string& key, const std::vector<EpChoice>& chosen) {
  const size_t dot = key.find('.');
  if (dot == std::string::npos) return {};
  const std::string name = key.substr(0, dot);
  bool is_ep = name.ends_with("ExecutionProvider");
  for (const EpDevice& device : ep_devices()) is_ep = is_ep || device.ep_name == name;
  std::vector<std::string_view> names;
  names.reserve(chosen.size());
  for (const EpChoice& choice : chosen) names.push_back(choice.ep_name);
  const std::string close = did_you_mean(name, names);
  if (is_ep || !close.empty())
    return invalid_argument("--ep-option \"{}\" is for the EP \"{}\", which no --ep names{}", key, name,
                            close.empty() ? "." : close);
  return {};
}

}  // namespace

void PluginArguments::add_plugins(CLI::App& command) {
  command.add_option("--plugin", plugins, "NAME=LIBRARY: loads an EP library; may be repeated")
      ->type_name("NAME=LIBRARY")
      ->allow_extra_args(false);
  command
      .add_option("--offer", offers,
                  "type=TYPE[,vendor=ID][,device=ID][,name=TEXT]: a device that EP libraries are offered beside this "
                  "machine's; may be repeated")
      ->type_name("DEVICE")
      ->allow_extra_args(false);
}

void PluginArguments::add_eps(CLI::App& command) {
  command.add_option("--ep", eps, "EP_NAME[,EP_NAME]: EPs in order of preference; the CPU EP runs the rest")
      ->type_name("EP_NAME")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--ep-option", ep_options,
                  "KEY=VALUE, or EP_NAME.KEY=VALUE for one of several EPs: an option; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

Status PluginArguments::load_plugins() const {
  EpLibraryOptions options;
  for (const std::string& offer : offers) {
    TENON_TRY_ASSIGN(auto device, parse_hardware_device(offer));
    options.offer.push_back(std::move(device));
  }
  if (!offers.empty() && plugins.empty()) return invalid_argument("--offer needs a --plugin to offer the device to.");
  for (const std::string& plugin : plugins) {
    TENON_TRY_ASSIGN(const auto pair, split(plugin, "--plugin", "NAME=LIBRARY"));
    TENON_TRY(register_ep_library(pair.first, pair.second, options));
  }
  return {};
}

Status PluginArguments::check_plugins_used() const {
  for (const std::string& plugin : plugins) {
    TENON_TRY_ASSIGN(const auto pair, split(plugin, "--plugin", "NAME=LIBRARY"));
    std::vector<std::string> offered;
    for (const EpDevice& device : ep_devices()) {
      if (device.library == pair.first && std::find(offered.begin(), offered.end(), device.ep_name) == offered.end())
        offered.push_back(device.ep_name);
    }
    const bool is_used = std::any_of(offered.begin(), offered.end(), [&](const std::string& name) {
      return std::find(eps.begin(), eps.end(), name) != eps.end();
    });
    if (is_used) continue;
    std::string names;
    for (const std::string& name : offered) names += format("{}{}", names.empty() ? "" : ", ", name);
    return invalid_argument(
        "--plugin \"{}\" loads EPs, and no --ep names one of them, so that it would run nothing; {}.", plugin,
        names.empty() ? "it offers none on this machine" : format("--ep takes {}", names));
  }
  return {};
}

Result<std::vector<EpChoice>> PluginArguments::choices() const {
  std::vector<EpChoice> made;
  made.reserve(eps.size());
  for (const std::string& name : eps) made.push_back({.ep_name = name});
  for (const std::string& option : ep_options) {
    TENON_TRY_ASSIGN(const auto pair, split(option, "--ep-option", "KEY=VALUE"));
    if (made.empty()) return invalid_argument("--ep-option \"{}\" needs an --ep that it is for.", option);
    bool named = false;
    for (EpChoice& choice : made) {
      const std::string prefix = choice.ep_name + ".";
      if (!pair.first.starts_with(prefix)) continue;
      choice.options[pair.first.substr(prefix.size())] = pair.second;
      named = true;
    }
    if (named) continue;
    TENON_TRY(check_prefix(pair.first, made));
    for (EpChoice& choice : made) choice.options[pair.first] = pair.second;
  }
  return made;
}

}  // namespace tenon::cli
