// Rewrites of what exporters write around attention and masks into the forms that the shared passes know
// (docs/reference/passes.md). Run before those, in both phases.
#pragma once

#include "graph/graph.h"

namespace tenon::cuda {

Status run_rewrites(Graph& graph);

}  // namespace tenon::cuda
