// Reads the epilogue attributes of docs/internal-operators.md, once, when a kernel is made.
#pragma once

#include "base/status.h"
#include "ep/cpu/activation.h"
#include "graph/graph.h"

namespace tenon::cpu {

// Errors: an activation that the table does not have.
Result<Epilogue> parse_epilogue(const Node& node);

}  // namespace tenon::cpu
