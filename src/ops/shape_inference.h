// Types and shapes of values from those of the graph's inputs: with symbols at load, with numbers at plan time.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace tenon {

// Infers output types and dimensions of one node from its inputs' (types, dims, constants). Leaves what it cannot know
// unknown. Errors: shapes or types that can never be right; the message names the node and the values.
// Subgraphs (If, Loop, Scan) are inferred too, with the types of what they capture.
Status infer_node(Graph& graph, Node& node);

// infer_node over the whole graph, in order. Checks that declared shapes of outputs do not contradict what is inferred:
// then the inferred one wins.
Status infer_shapes(Graph& graph);

// True if the node's output *shape* can depend on the values of runtime inputs (NonZero, Reshape with a computed shape,
// Range, ...) and the given input is one of those values. Planning must know it first, or cut there.
bool shape_depends_on_value(const Node& node, size_t input);

// The condition that a Loop's body hands on whenever it runs: true when it passes its own on (it would not run
// otherwise) or gives a constant true, so that only the trip count ends the loop; nullopt when it computes one.
std::optional<bool> next_condition(const Graph& body);

}  // namespace tenon
