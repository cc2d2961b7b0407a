// QAttention and QEmbedLayerNormalization of com.microsoft: BERT's blocks with 8-bit weights.
#pragma once

#include "ops/input_shapes.h"

namespace tenon {

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
