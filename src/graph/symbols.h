// The names of open dimensions. A model's names are hints: "N", "?" or "None" in two places may be two sizes in one
// run, and ONNX Runtime runs that where the operators allow it. Passes and shape inference take equal symbols for equal
// sizes, so a loaded graph gives each place that declares a name a symbol of its own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace tenon {

// The first input dimension of a name keeps it, unless it has the separator; every other place of the graph and its
// bodies that declares it gets the name with a number behind a separator. Call before shapes are inferred, once.
void separate_symbols(Graph& graph);
// The name as the model writes it.
std::string_view declared_symbol(std::string_view symbol);
// A symbol that only dimension `axis` of value `id` has, declared as `name`; "" for "".
std::string own_symbol(std::string_view name, ValueId id, size_t axis);
// A symbol that nothing else in the process has; declared as "". Threads: any.
std::string new_symbol();

}  // namespace tenon
