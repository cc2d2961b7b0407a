// Operators of com.microsoft that no operators of ai.onnx stand for.
#pragma once

#include <span>
#include <vector>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// Inverse: square matrices in the last two dimensions.
struct InverseDesc {
  int64_t matrices = 1, size = 0;
};
// Errors: a rank below 2, matrices that are not square.
Result<InverseDesc> read_inverse(const Shape& x);

// NGramRepeatBlock: the ids of each sequence, and scores of what may follow. What would repeat `length` ids in a row
// gets -infinity.
struct NGramDesc {
  int64_t batch = 0, ids = 0, scores = 0, length = 1;
};
Result<NGramDesc> read_ngram(const Node& node, const Shape& ids, const Shape& scores);

// CropAndResize: boxes [y1, x1, y2, x2] of images [N, C, H, W], corners on corners of the result.
struct CropDesc {
  int64_t images = 0, channels = 0, height = 0, width = 0, boxes = 0;
  bool nearest = false;
  float outside = 0;  // of samples that lie outside the image
};
Result<CropDesc> read_crop(const Node& node, const Shape& x, const Shape& boxes, const Shape& images);

// UnfoldTensor: slices of `size` elements along an axis, `step` apart, in a new last dimension.
struct UnfoldDesc {
  int64_t outer = 1, length = 1, inner = 1;
  int64_t size = 1, step = 1, slices = 0;
  Shape output;
};
// Errors: an axis out of range, a size that does not fit, a step below 1, a rank above Shape::kMaxRank.
Result<UnfoldDesc> read_unfold(const Node& node, const Shape& x);

// NGramHashMapping, and VarlenNGramHashMapping of packed sequences: hashes of the last 2, 3, .. `largest` tokens.
struct NGramHashDesc {
  int64_t batch = 0, length = 0;  // of packed sequences the length is that of all
  int64_t largest = 2, heads = 0, pad = 0, captured = 0;
  bool resets = false;
  std::vector<Shape> outputs;
};
// `inputs` are the shapes of the node's. Errors: shapes that do not fit, attributes out of range.
Result<NGramHashDesc> read_ngram_hash(const Node& node, std::span<const Shape> inputs);

// WordConvEmbedding: filters over the characters of each word.
struct WordConvDesc {
  int64_t words = 0, length = 0, filters = 0, width = 0, depth = 0, characters = 0;
};
Result<WordConvDesc> read_word_conv(const Node& node, const Shape& words, const Shape& weights, const Shape& bias,
                                    const Shape& table);

}  // namespace tenon
