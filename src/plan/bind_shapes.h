// Sets the shapes of one signature in a graph.
#pragma once

#include <span>

#include <tenon/types.h>

#include "graph/graph.h"

namespace tenon {

// Checks `shapes` (one a graph input) against what the graph declares, without changing it: ranks and fixed dimensions.
// Names of dimensions are hints: one name may stand for two sizes. Allocates nothing when all is well.
Status check_input_shapes(const Graph& graph, std::span<const Shape> shapes);

// Sets the inputs' shapes and forgets every other shape that is not a constant's, for inference to find anew.
void set_input_shapes(Graph& graph, std::span<const Shape> shapes);

}  // namespace tenon
