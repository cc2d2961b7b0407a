// Finds nodes that move no data, because their output is a view of their input, or their inputs are views of their
// output.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ep/api/kernel.h"
#include "graph/graph.h"

namespace tenon {

// The spec of a value whose shape is known (any shape for one that is not: then `dynamic` is set).
TensorSpec spec_of(const Value& value);

// Where each output begins in the memory of input 0, in bytes, for nodes that only name their input's elements anew
// (Reshape, Squeeze, Unsqueeze, Flatten, Identity, a Transpose that moves only dimensions of 1) or a contiguous part of
// them (Split, Slice, Gather of one index along the outermost dimension that is not 1). Empty when the node computes.
std::vector<size_t> view_offsets(const Graph& graph, const Node& node);

// Where each input begins in the memory of the output of a Concat along the outermost dimension that is not 1 (or along
// blocked channels). Empty when the inputs do not lie one after the other.
std::vector<size_t> concat_offsets(const Graph& graph, const Node& node);

}  // namespace tenon
