// Folding rules for single nodes.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace tenon::fold_rules {

// Shape and Size of a value whose dimensions are known: the result. Null otherwise.
ConstantRef known_from_shapes(const Graph& graph, const Node& node);
// Reshape, Squeeze, Unsqueeze, Flatten and Identity of a constant: the same bytes with another shape. Null otherwise.
ConstantRef reshaped_constant(const Graph& graph, const Node& node);
// A Slice of a constant whose elements lie side by side, where that is no small part of memory that it would hold: the
// bytes as they lie. Null otherwise.
ConstantRef sliced_constant(const Graph& graph, const Node& node);
// The input that the node's first output always equals, for the dimensions at hand; kNoValue otherwise.
ValueId unchanged_input(const Graph& graph, const Node& node);

// Rewrites the (inferred) node into a simpler one with the same outputs: Squeeze, Unsqueeze and Flatten of known shapes
// become Reshape, and so does a Gather of all rows in order; a Reshape of a Reshape reads the first one's input,
// Transposes of Transposes join, a Concat of all parts of a Split reads what was split.
using FindProducer = std::function<const Node*(ValueId)>;
void simplify(Graph& graph, Node& node, const FindProducer& producer);

}  // namespace tenon::fold_rules
