// The commands of `tenon`, one file each. A command adds itself to the parser, with the function that runs it.
#pragma once

#include <tenon/status.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>

#include "cli/explain_part.h"

namespace tenon::cli {

// What the command line chose; called after parsing.
using Action = std::function<Status()>;

void add_run(CLI::App& app, Action* action);
void add_bench(CLI::App& app, Action* action);
// `part` may be null.
void add_explain(CLI::App& app, Action* action, std::shared_ptr<ExplainPart> part);
void add_inspect(CLI::App& app, Action* action);
void add_devices(CLI::App& app, Action* action);
void add_env(CLI::App& app, Action* action);
void add_conformance(CLI::App& app, Action* action);
void add_demo(CLI::App& app, Action* action);

// 0 for OK; one number for each status code, listed in the help.
int exit_code(const Status& status);

}  // namespace tenon::cli
