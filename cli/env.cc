// tenon env: lists the environment variables that Tenon reads, with their current values.
#include <tenon/environment.h>

#include <memory>

#include "cli/commands.h"
#include "cli/status.h"
#include "programs/output.h"

namespace tenon::cli {
namespace {

Status env(bool json) {
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const EnvironmentVariable& variable : environment_variables()) {
      list.push_back({{"name", variable.name},
                      {"value", environment_value(variable.name)},
                      {"default", variable.default_value},
                      {"help", variable.help}});
    }
    print_json(list);
    return {};
  }
  for (const EnvironmentVariable& variable : environment_variables()) {
    const std::string value = environment_value(variable.name);
    print("{}={}{}\n    {}\n", variable.name, value, value == variable.default_value ? "" : " (set)", variable.help);
  }
  return {};
}

}  // namespace

void add_env(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand("env", "Lists the environment variables that Tenon reads");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json, action] { *action = [json] { return env(*json); }; });
}

}  // namespace tenon::cli
