// Transpose of ONNX (opsets 1 to 25).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// Axis i of the output is axis perm[i] of the input; left out, the axes are reversed. Errors: a list that does not name
// each of `rank` axes once.
Result<std::vector<int64_t>> read_perm(const Node& node, int rank);
// The shape of the result.
Shape transposed_shape(const Shape& x, std::span<const int64_t> perm);
// True if the axes whose size is not 1 keep their order, so that the elements stay where they are.
bool moves_only_ones(std::span<const int64_t> perm, const Shape& x);

}  // namespace tenon
