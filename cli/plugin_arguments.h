// Arguments for EP libraries: the libraries to load, the hardware offered to them, the EPs of a session and their
// options.
#pragma once

#include <tenon/session.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tenon::cli {

struct PluginArguments {
  std::vector<std::string> plugins;  // NAME=LIBRARY
  std::vector<std::string> offers;   // type=cpu,vendor=0x8086
  std::vector<std::string> eps;
  std::vector<std::string> ep_options;  // KEY=VALUE, or EP.KEY=VALUE

  // --plugin and --offer.
  void add_plugins(CLI::App& command);
  // --ep and --ep-option.
  void add_eps(CLI::App& command);

  // Errors: text of another form, and whatever register_ep_library says.
  Status load_plugins() const;
  // For a command that runs a model, after load_plugins(). Errors: an EP library of which no --ep names an EP.
  Status check_plugins_used() const;
  // In the order given. An option is for the EP that its key begins with, else for all of them.
  // Errors: an option without an EP, or for an EP that is not among them; text that is no KEY=VALUE.
  Result<std::vector<EpChoice>> choices() const;
};

}  // namespace tenon::cli
