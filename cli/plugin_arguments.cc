#include "cli/plugin_arguments.h"

#include <utility>

#include "device/hardware_devices.h"

namespace tenon::cli {
namespace {

Result<std::pair<std::string, std::string>> split(const std::string& text, const char* option, const char* form) {
  const size_t at = text.find('=');
  TENON_INVALID_IF(at == std::string::npos || at == 0, "{} \"{}\" has not the form {}.", option, text, form);
  return std::pair(text.substr(0, at), text.substr(at + 1));
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
  TENON_INVALID_IF(!offers.empty() && plugins.empty(), "--offer needs a --plugin to offer the device to.");
  for (const std::string& plugin : plugins) {
    TENON_TRY_ASSIGN(const auto pair, split(plugin, "--plugin", "NAME=LIBRARY"));
    TENON_TRY(register_ep_library(pair.first, pair.second, options));
  }
  return {};
}

Result<std::vector<EpChoice>> PluginArguments::choices() const {
  std::vector<EpChoice> made;
  made.reserve(eps.size());
  for (const std::string& name : eps) made.push_back({.ep_name = name});
  for (const std::string& option : ep_options) {
    TENON_TRY_ASSIGN(const auto pair, split(option, "--ep-option", "KEY=VALUE"));
    TENON_INVALID_IF(made.empty(), "--ep-option \"{}\" needs an --ep that it is for.", option);
    bool named = false;
    for (EpChoice& choice : made) {
      const std::string prefix = choice.ep_name + ".";
      if (!pair.first.starts_with(prefix)) continue;
      choice.options[pair.first.substr(prefix.size())] = pair.second;
      named = true;
    }
    if (named) continue;
    for (EpChoice& choice : made) choice.options[pair.first] = pair.second;
  }
  return made;
}

}  // namespace tenon::cli
