// NegativeLogLikelihoodLoss (12) and SoftmaxCrossEntropyLoss (12).
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// Scores [batch, classes, inner...], targets [batch, inner...].
struct LossDesc {
  enum class Reduction : uint8_t { kNone, kSum, kMean };
  Reduction reduction = Reduction::kMean;
  bool softmax = false;                 // the scores are no logarithms of probabilities yet
  std::optional<int64_t> ignore_index;  // targets that do not count
  int64_t batch = 0, classes = 0, inner = 1;
  Shape output;
};
// Errors: ranks, shapes or attributes that do not fit; the message has the wrong value.
Result<LossDesc> read_loss(const Node& node, const Shape& scores, const Shape& targets, const Shape* weights);

}  // namespace tenon
