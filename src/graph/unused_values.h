// Frees what passes leave behind in a graph that is kept.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tenon {

// Named constants of at most 4 KiB that nothing names any more: observers of a run's values are given them.
enum class FoldedValues : uint8_t { kStay, kGo };

// Drops the values that no node, input or output names, and their constants, except those that `folded` says stay. The
// others get new ids in the same order, unless bodies capture values by their ids. The result has the new id of each
// value, kNoValue for a dropped one.
PerValue<ValueId> drop_unused_values(Graph& graph, FoldedValues folded = FoldedValues::kStay);

// Empties the values that no node, input or output names: a graph that is copied often holds little then. Ids stay. The
// result has the small constants among them that drop_unused_values() would keep.
std::vector<Value> clear_unused_values(Graph& graph);
// The same, but those constants stay in the graph, for bodies.
void clear_unused_but_shown_values(Graph& graph);

}  // namespace tenon
