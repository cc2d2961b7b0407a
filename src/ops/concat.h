// Concat of ONNX (opsets 1 to 13).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/axes.h"

namespace tenon {

// The axis in [0, rank).
Result<int> read_concat_axis(const Node& node, int rank);

struct ConcatDesc {
  Shape output;
  AxisSpan span;                 // of the output
  std::vector<int64_t> lengths;  // of each input along the axis
};
// Errors: scalars; an axis out of range; inputs that differ in rank, or in a size other than that of the axis.
Result<ConcatDesc> read_concat(const Node& node, std::span<const Shape> inputs);

}  // namespace tenon
