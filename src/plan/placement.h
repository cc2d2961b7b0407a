// Chooses the memory space of each value of a graph, and inserts the copies that the choice needs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <tenon/copy_ledger.h>

#include "graph/graph.h"
#include "plan/ids.h"
#include "plan/regions.h"
#include "plan/space_table.h"

namespace tenon {

// Where the caller's tensors of one signature are. A space's alignment is that of the tensor's address, as far as
// anyone asks for it.
struct BoundSpaces {
  std::vector<MemorySpace> inputs;                  // one a graph input; empty: all in plain host memory
  std::vector<std::optional<MemorySpace>> outputs;  // by slot; none, or beyond the end: where the output is made
};

struct Placement {
  PerValue<SpaceId> space;
  PerNode<std::vector<SpaceId>> wanted;  // where a node wants each input; empty for nodes of the CPU EP
};

bool is_copy(const Node& node);
// Of a copy node.
CopyReason copy_reason(const Node& node);
// Who makes the copy (SpaceTable::mover).
EpId copy_mover(const Node& node);

// Layouts are chosen, shapes are known (but for those that depend on data). A value is made where most of its readers
// can use it as it is and its maker can write it (S3.1, S3.3); a reader that cannot gets a copy: a node {tenon, Copy}
// before its first use. Views of a whole value lie where it lies. Constants stay in host memory.
// `base` carries what every KernelNode shares. Errors: kUnsupported when nobody can move a value to where it is needed,
// naming both spaces.
Result<Placement> place_values(Graph& graph, std::span<const OutputSlot> output_slots, const Providers& providers,
                               const SpaceTable& table, const BoundSpaces& bound, const KernelNode& base);

}  // namespace tenon
