// tenon.Reorder (docs/reference/internal-operators.md): the same tensor in another memory layout.
#pragma once

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

bool is_reorder(const Node& node);
struct ReorderDesc {
  Layout to = Layout::kPlain;
  // The dimensions of the plain tensor are [batch, spatial..., channels], in any split of the spatial ones; those of
  // the blocked one are [batch, channels, spatial...]. False: both have the blocked one's.
  bool channels_last = false;
};
// Errors: no layout stated, or an unknown one.
Result<ReorderDesc> read_reorder(const Node& node);
// Makes `node` one that gives its first output, which is `x` in the layout of `desc`.
void write_reorder(Node& node, ValueId x, const ReorderDesc& desc);
// A node that gives `y`, which is `x` in `layout`.
Node make_reorder_node(ValueId x, ValueId y, Layout layout);

}  // namespace tenon
