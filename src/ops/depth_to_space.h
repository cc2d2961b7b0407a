// DepthToSpace (1) and SpaceToDepth (1): blocks of pixels as channels, and back.
#pragma once

#include <cstdint>
#include <span>

#include "graph/graph.h"

namespace tenon {

// Deep [batch, channels * block * block, height, width] becomes wide [batch, channels, height * block, width * block],
// or the other way round.
struct DepthToSpaceDesc {
  bool to_space = true;
  // Mode DCR: the deep side's channels are [block row, block column, channel]. CRD: [channel, block row, block column].
  bool depth_first = true;
  int64_t block = 1;                                       // 1 to 32768
  int64_t batch = 0, channels = 0, height = 0, width = 0;  // of the formula above

  Shape output() const;
};

// The shape of X may hold kUnknownSize (ops/window.h): then so does the description.
// Errors: a rank other than 4, a block out of range or that does not divide X, an unknown mode, sizes beyond int64.
Result<DepthToSpaceDesc> read_depth_to_space(const Node& node, std::span<const int64_t> x);

}  // namespace tenon
