// TENON_DUMP: graphs before and after each pass, and plans, as files of text that diff.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace tenon {

// Writes `text` to DIR/NNNN-<name>.txt, numbered in the order of this process. No effect without TENON_DUMP; a folder
// that cannot be written is warned about once. Returns the file's name.
std::string dump_text(std::string_view name, const std::string& text);
bool dump_enabled();

// For PassOptions::observe and PlannerOptions::observe: dumps each graph as "<phase>-<pass>", and for a
// pass that changed nothing one line as "<phase>-<pass>-unchanged"; empty without TENON_DUMP.
std::function<void(std::string_view pass, const Graph& graph)> dump_observer(std::string phase);

}  // namespace tenon
