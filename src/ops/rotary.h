// RotaryEmbedding of ai.onnx (opset 23) and of com.microsoft, and tenon.RotateHalf: pairs of elements of a head are
// turned by angles that depend on the position.
#pragma once

#include <vector>

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

// tenon.RotateHalf (docs/reference/internal-operators.md): rows x of `depth` elements, whose first `turned` become
// x * cos + r(x) * sin with r(x) = (-second half, first half), or interleaved (-x1, x0, -x3, x2, ...).
struct RotateHalfDesc {
  // One dimension of the rows, and the elements from one row to the next in each operand; 0 where it repeats.
  struct Rows {
    int64_t count = 1, x = 0, cos = 0, sin = 0;
  };
  int64_t depth = 0, turned = 0;
  bool interleaved = false;
  std::vector<Rows> rows;  // those of Y, from the outermost dimension on; at least one
  Shape y;
};
// Errors: shapes that do not broadcast, rows of cos and sin that differ in length, an odd number of elements to turn.
Result<RotateHalfDesc> read_rotate_half(const Node& node, const InputShapes& shapes);
// Sets the attributes of a tenon.RotateHalf, which reads X as Transpose(X, perm) has it; empty: as it is.
void write_rotate_half(Node& node, bool interleaved, std::vector<int64_t> perm);
bool rotates_neighbours(const Node& node);  // of a tenon.RotateHalf: whether it is interleaved

}  // namespace tenon
