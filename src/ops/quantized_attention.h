// QAttention and QEmbedLayerNormalization of com.microsoft: BERT's blocks with 8-bit weights.
#pragma once

#include "ops/input_shapes.h"

namespace tenon {

// Q, K and V are thirds of X W + bias, where X and W are quantised; then attention over `heads` heads.
struct QuantizedAttentionDesc {
  enum Input : size_t { kX, kW, kBias, kXScale, kWScale, kMask, kXZero, kWZero, kPast };
  // None; one length, or an end and a start, for each entry of the batch; or a number for each key: of the batch's
  // entry alone, or of each query too.
  enum class Mask : uint8_t { kNone, kEnd, kEndAndStart, kKeys, kQueries };
  Mask mask = Mask::kNone;
  bool causal = false;
  int64_t heads = 1, batch = 1, queries = 1, input = 1;
  int64_t hidden = 1;  // of one third
  int64_t past = 0;    // keys before those of X
  float scale = 1, mask_value = -10000;
  Shape y, present;

  int64_t depth() const { return hidden / heads; }
  int64_t keys() const { return past + queries; }
};
// Errors: rotary embeddings, shapes that do not fit; the message has the values.
Result<QuantizedAttentionDesc> read_quantized_attention(const Node& node, const InputShapes& shapes);

// Y = layer_norm(word[ids] + position + segment[segment_ids]) * gamma + beta, each of them quantised.
struct QuantizedEmbeddingDesc {
  enum Input : size_t { kIds, kSegmentIds, kWord, kPosition, kSegment, kGamma, kBeta, kMask, kScales = 8, kZeros = 13 };
  int64_t batch = 1, length = 1, hidden = 1;
  int64_t words = 1, positions = 1, segments = 0;
  float epsilon = 1e-12f;
  Shape y;
};
Result<QuantizedEmbeddingDesc> read_quantized_embedding(const Node& node, const InputShapes& shapes);

}  // namespace tenon
