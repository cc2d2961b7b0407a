// AllReduce, AllGather and AllToAll of com.microsoft: what the ranks of a sharded model exchange.
#pragma once

#include <cstdint>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

struct CollectiveDesc {
  enum class Kind : uint8_t {
    kAllReduce,  // each output is the sum of its input over the ranks
    kAllGather,  // the inputs of the ranks, in their order, along an axis
    kAllToAll    // part r of the result is this rank's part of rank r's input
  };
  Kind kind = Kind::kAllReduce;
  int64_t group_size = 0;  // ranks; 0: the model does not say (AllReduce, before give_ranks())
  int64_t axis = 0;        // of AllGather, as the node gives it
};

bool is_collective(const Node& node);
// Of such a node. Errors: a group below 1; other numbers of inputs and outputs.
Result<CollectiveDesc> read_collective(const Node& node);

// Tells each AllReduce of the graph how many ranks there are. Errors: a node that is made for another number of ranks.
Status give_ranks(Graph& graph, int64_t ranks);

struct GatherParts {
  int axis = 0;  // in [0, rank)
  Shape output;
};
// Of an AllGather of inputs like this one. Errors: scalars, an axis out of range, a size that overflows.
Result<GatherParts> read_gathered(const CollectiveDesc& desc, const Shape& input);

namespace infer {

class Context;
// Of all three. Errors: as the readers have them.
Status infer_collective(Context& context);

}  // namespace infer
}  // namespace tenon
