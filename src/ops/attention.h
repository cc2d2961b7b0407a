// tenon.Attention and tenon.PackedAttention (docs/reference/internal-operators.md): Y = softmax(scale * Q K^T + mask) V
// for each head; heads lie side by side in the last dimension.
#pragma once

#include <array>

#include "ops/input_shapes.h"

namespace tenon {

struct AttentionDesc {
  int64_t batch = 0, heads = 0;
  int64_t queries = 0, keys = 0;       // positions of Q, and of K and V
  int64_t depth = 0, value_depth = 0;  // elements of one head of Q and K, and of V and Y
  float scale = 1;
  bool guarded = false;  // a query whose probabilities are NaN gets zeros
  // Inputs of the node. PackedAttention has Q, K and V in one.
  size_t q = 0, k = 1, v = 2, mask = kNoInput;
  int64_t q_row = 0, k_row = 0, v_row = 0;   // elements from one position to the next
  int64_t k_offset = 0, v_offset = 0;        // elements before the first head of a row
  std::array<int64_t, 4> mask_strides = {};  // over [batch, heads, queries, keys]; 0 where it repeats
  Shape y;                                   // [batch, queries, heads * value_depth]
};

// Errors: an input is absent, an attribute is missing, shapes do not fit together or do not divide into the heads; the
// message has the shapes.
Result<AttentionDesc> read_attention(const Node& node, const InputShapes& shapes);
// States the attributes in `node`.
void write_attention(int64_t heads, float scale, bool guarded, Node& node);

}  // namespace tenon
