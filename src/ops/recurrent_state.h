// Operators that carry a state from one run to the next: TensorScatter (opset 24), CausalConvWithState and
// LinearAttention (opset 27).
#pragma once

#include "ops/attention.h"

namespace tenon {

// TensorScatter: `positions` rows of the update replace rows of the cache, from one that each batch has of its own.
struct TensorScatterDesc {
  int64_t batch = 1, middle = 1;  // of the dimensions before the axis: the first one, and the product of the others
  int64_t room = 1, positions = 1, inner = 1;
  bool circular = false;
};
// Errors: an axis that is 0 or out of range; an update that differs from the cache elsewhere or is longer; write
// indices that are not one for each batch; an unknown mode.
Result<TensorScatterDesc> read_tensor_scatter(const Node& node, const InputShapes& shapes);

// CausalConvWithState: each channel of X [batch, channels, length] with a kernel of its own, over itself and what came
// before.
struct CausalConvDesc {
  int64_t batch = 0, channels = 0, length = 0, taps = 1;
  bool silu = false;
};
Result<CausalConvDesc> read_causal_conv(const Node& node, const InputShapes& shapes);

// LinearAttention: a state [depth, value_depth] of each head of keys, changed by every position and read by queries.
struct LinearAttentionDesc {
  int64_t batch = 0, heads = 0, kv_heads = 0, positions = 0, depth = 0, value_depth = 0;
  float scale = 1;
  bool decays = false;      // the state is multiplied by e^decay before a position is added
  bool corrects = false;    // only what the state does not say of the key yet is added, times beta
  int64_t decay_width = 1;  // of each head: 1 or depth
  int64_t betas = 1;        // of each position: 1 or kv_heads
};
Result<LinearAttentionDesc> read_linear_attention(const Node& node, const InputShapes& shapes);

}  // namespace tenon
