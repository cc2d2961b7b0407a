// The parts that the folders of `tenon` add to its command line: main.cc in cli/ joins the commands of all.
#pragma once

#include <tenon/status.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>

#include "programs/explain_part.h"

namespace tenon::programs {

// The function of the command that the command line names; called after parsing.
using Action = std::function<Status()>;

// A command adds itself to the parser, with the function that runs it.
void add_conformance(CLI::App& app, Action* action);  // conformance/
void add_demo(CLI::App& app, Action* action);         // demo/
// The section that `tenon explain --break-even` asks for: the cost of importing each buffer of a model on an EP's
// device from Vulkan, and of copying it. Both are measured once on this machine and kept in a file, for one EP, its
// device and one Vulkan device. Errors: kUnsupported when the model uses no memory of an EP's device; what measuring
// says; kInvalidArgument for a file that holds something else.
std::shared_ptr<ExplainPart> break_even_part();  // demo/

}  // namespace tenon::programs
