// RotaryEmbedding of ai.onnx (opset 23) and of com.microsoft: pairs of elements of a head are turned by angles that
// depend on the position.
#pragma once

#include "ops/attention.h"

namespace tenon {

struct RotaryDesc {
  enum class Positions : uint8_t {
    kByToken,   // cos and sin have a row for each token
    kGiven,     // position_ids has the row of each token
    kFollowing  // position_ids has the row of the first token, the others follow
  };
  int64_t batch = 0, heads = 0, tokens = 0, depth = 0;
  int64_t turned = 0;        // elements of a head that are turned, from the first on; a pair shares an angle
  bool interleaved = false;  // pairs are neighbours, not turned / 2 apart
  HeadStrides at;
  Positions positions = Positions::kByToken;
  int64_t rows = 0;  // of cos and sin
  // Inputs of the node.
  size_t cos = 1, sin = 2, ids = kNoInput;
};
// Errors: shapes that do not fit together or do not divide into heads, an odd number of elements to turn.
Result<RotaryDesc> read_rotary(const Node& node, const InputShapes& shapes);

}  // namespace tenon
