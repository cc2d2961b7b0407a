// Split of ONNX (opsets 2 to 18).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/axes.h"

namespace tenon {

struct SplitDesc {
  AxisSpan span;
  // Of each part along the axis; empty where input 1 has them.
  std::vector<int64_t> sizes;
};
// Errors: an axis out of range; no output; sizes that do not fit check_split_sizes; a length that does not divide into
// equal parts (from opset 18 on, with num_outputs, the last part may be smaller).
Result<SplitDesc> read_split(const Node& node, const Shape& x);
// The axis in [0, rank).
Result<int> read_split_axis(const Node& node, int rank);
// Errors: a number of sizes other than `parts`, a negative size, a sum other than `length`.
Status check_split_sizes(std::span<const int64_t> sizes, size_t parts, int64_t length);

}  // namespace tenon
