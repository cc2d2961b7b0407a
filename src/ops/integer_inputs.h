// Inputs that hold axes, sizes and bounds, as the readers of operator families take them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// The elements of an int32 or int64 constant; nullopt for null and for other types.
std::optional<std::vector<int64_t>> integers_of(const Constant* constant);

// Gives the elements of an int32 or int64 input of a node. Called only for inputs that the node has.
using ReadIntegers = std::function<Result<std::vector<int64_t>>(size_t input)>;

// Reads the constants of `graph`. Borrows both arguments. Errors: an input that is no constant of integers.
ReadIntegers constant_integers(const Graph& graph, const Node& node);

}  // namespace tenon
