// Profiles of runs, as ONNX Runtime and Tenon's C ABI write them (SessionEndProfiling).
#pragma once

#include <tenon/plan_report.h>
#include <tenon/status.h>

#include <string>
#include <vector>

namespace tenon::cli {

// The times of the nodes: events of category "Node" whose name ends with "_kernel_time". Errors: kNotFound for a file
// that cannot be read, kInvalidArgument for one that holds no profile or no node.
Result<std::vector<NodeTime>> read_profile(const std::string& path);

}  // namespace tenon::cli
