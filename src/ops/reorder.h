// tenon.Reorder (docs/reference/internal-operators.md): the same tensor in another memory layout.
#pragma once

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

bool is_reorder(const Node& node);
// The layout of the result. Errors: none stated, or an unknown one.
Result<Layout> read_reorder(const Node& node);
// A node that gives `y`, which is `x` in `layout`.
Node make_reorder_node(ValueId x, ValueId y, Layout layout);

}  // namespace tenon
