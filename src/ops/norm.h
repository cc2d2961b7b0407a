// Normalisations of ONNX, and tenon.LayerNorm.
#pragma once

#include <vector>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// BatchNormalization 7: Y = (X - mean) / sqrt(variance + epsilon) * scale + bias, for each channel.
struct BatchNormDesc {
  bool training = false;  // computes its mean and variance, and gives them as outputs
  float epsilon = 0;
  float momentum = 0;  // training: the part of the running mean and variance that stays
};
BatchNormDesc read_batch_norm(const Node& node);

// InstanceNormalization 6 and GroupNormalization 18: X as [batch, groups, channels / groups, inner], whose last two
// share a mean and a variance. An instance is a group of one channel.
struct GroupNormDesc {
  int64_t batch = 0, channels = 0, groups = 1, inner = 1;
  bool scale_each_group = false;  // GroupNormalization before 21: scale and bias have an element for each group
  float epsilon = 0;

  int64_t group_channels() const { return channels / groups; }
  // Elements of scale and bias.
  int64_t parameters() const { return scale_each_group ? groups : channels; }
};
// Errors: a rank below 2, channels that do not divide into groups.
Result<GroupNormDesc> read_group_norm(const Node& node, const Shape& x);

// LayerNormalization 17, RMSNormalization 23 and tenon.LayerNorm: X (plus skip) as [rows, columns], columns being the
// axes from `axis` on. Y = (X - mean) / sqrt(variance + epsilon) * scale + bias; RMSNormalization leaves the mean out.
struct LayerNormDesc {
  bool subtract_mean = true;
  int axis = 0;  // in [0, rank)
  int64_t rows = 1, columns = 1;
  float epsilon = 0;
  // Numbers of the node's inputs and outputs; kNone where the operator has none.
  static constexpr size_t kNone = SIZE_MAX;
  size_t skip = kNone, scale = 1, bias = 2;
  size_t sum = kNone, mean = 1, inverse_deviation = 2;
};
// Errors: an axis out of range.
Result<LayerNormDesc> read_layer_norm(const Node& node, const Shape& x);
// Everything that needs no shape.
struct LayerNormForm {
  int64_t axis = 0;  // as written
  float epsilon = 0;
  bool stashes_float = true;  // mean and deviation are float32 (stash_type 1)
  bool subtract_mean = true;  // false: RMSNormalization
};
LayerNormForm read_layer_norm_form(const Node& node);
// Sets the attributes of a tenon.LayerNorm.
void write_layer_norm(Node& node, int axis, float epsilon, bool subtract_mean = true);

// LpNormalization 1: X / |X|_p along an axis, X as [outer, length, inner]; 0 where the norm is 0.
struct LpNormDesc {
  int64_t p = 2;  // 1 or 2
  int axis = 0;
  int64_t outer = 1, length = 1, inner = 1;
};
Result<LpNormDesc> read_lp_norm(const Node& node, const Shape& x);

// LRN 1: X / (bias + alpha / size * sum of squares)^beta; the sum runs over `size` channels around X's.
struct LrnDesc {
  int64_t size = 1;
  float alpha = 0, beta = 0, bias = 0;
};
// Errors: a rank below 2, a size below 1 or above 2^31.
Result<LrnDesc> read_lrn(const Node& node, int rank);

// MeanVarianceNormalization 9: the axes that share a mean and a variance, in [0, rank).
Result<std::vector<int>> read_mean_variance_axes(const Node& node, int rank);

}  // namespace tenon
