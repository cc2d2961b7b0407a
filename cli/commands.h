// The commands of this folder, one file each.
#pragma once

#include "programs/commands.h"

namespace tenon::cli {

using programs::Action;
using programs::ExplainPart;

void add_run(CLI::App& app, Action* action);
void add_bench(CLI::App& app, Action* action);
void add_explain(CLI::App& app, Action* action, std::shared_ptr<ExplainPart> part);
// Sets `differs` when a value does.
void add_compare(CLI::App& app, Action* action, bool* differs);
void add_inspect(CLI::App& app, Action* action);
void add_devices(CLI::App& app, Action* action);
void add_env(CLI::App& app, Action* action);

}  // namespace tenon::cli
