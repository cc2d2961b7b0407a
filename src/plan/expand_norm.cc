// Normalisations of ONNX Runtime: with a residual and a bias before them, an activation behind them, or embeddings.
#include "plan/expand.h"

namespace tenon::expand {

namespace {

// Y = x / sqrt(mean(x^2) + epsilon) * scale along the last axis; also the factor, where it is asked for.
void rms_norm(Expansion& to, ValueId x, ValueId scale, int64_t axis, float epsilon, ValueId y, ValueId inverse) {
  to.add("RMSNormalization", {x, scale}, {integer("axis", axis), number("epsilon", epsilon)}, y);
  if (inverse == kNoValue) return;
  const int rank = to.rank(x);
  if (rank < 0) {
    to.fail(unsupported("{} gives its deviations of data of a known rank only.", to.node().op_type));
    return;
  }
  const ValueId wide = to.type(x) == DataType::kFloat ? x : to.cast(x, DataType::kFloat);
  std::vector<int64_t> axes;
  for (int64_t d = axis < 0 ? axis + rank : axis; d < rank; ++d) axes.push_back(d);
  const ValueId mean = to.add("ReduceMean", {to.add("Mul", {wide, wide}), to.constant(axes)});
  const ValueId root = to.add("Sqrt", {to.add("Add", {mean, to.scalar(epsilon, DataType::kFloat)})});
  to.add("Reciprocal", {root}, {}, inverse);
}

void simplified_layer_norm(Expansion& to) {
  const Attributes attributes = to.attributes();
  rms_norm(to, to.in(0), to.in(1), attributes.integer("axis"), attributes.number("epsilon"), to.out(0), to.out(1));
}

// input + skip + bias, into output 3 if it is read.
ValueId skip_sum(Expansion& to, size_t bias) {
  // The sum has the input's shape.
  const int rank = to.rank(to.in(0));
  for (int axis = -1; rank >= 0 && axis >= -to.rank(to.in(1)); --axis) {
    const int64_t size = axis < -rank ? 1 : to.known_size(to.in(0), axis), of_skip = to.known_size(to.in(1), axis);
    if (size < 0 || of_skip <= 1 || of_skip == size) continue;
    to.fail(invalid_argument("{} has a skip {} for an input {}.", to.node().op_type, to.value(to.in(1)).type_text(),
                             to.value(to.in(0)).type_text()));
  }
  const bool more = to.has(bias);
  // The bias belongs to the projection before, which takes it in.
  const ValueId input = more ? to.add("Add", {to.in(0), to.in(bias)}) : to.in(0);
  return to.add("Add", {input, to.in(1)}, {}, to.out(3));
}

void skip_layer_norm(Expansion& to) {
  const ValueId sum = skip_sum(to, 4);
  to.add_node("", "LayerNormalization", {sum, to.in(2), to.in(3)},
              {integer("axis", -1), number("epsilon", to.attributes().number("epsilon"))},
              {to.out(0) == kNoValue ? to.new_value() : to.out(0), to.out(1), to.out(2)});
}

void skip_simplified_layer_norm(Expansion& to) {
  if (to.out(1) != kNoValue) {
    to.fail(unsupported("SkipSimplifiedLayerNormalization has no mean to give (output 1)."));
    return;
  }
  const ValueId sum = skip_sum(to, 3);
  rms_norm(to, sum, to.in(2), -1, to.attributes().number("epsilon"), to.out(0), to.out(2));
}

void embed_layer_norm(Expansion& to) {
  const ValueId ids = to.in(0);
  ValueId sum = to.add("Gather", {to.in(2), ids});
  ValueId positions = to.in(8);
  if (positions == kNoValue) {
    // 0, 1, ... for each token of a sequence.
    const ValueId count = to.add("Squeeze", {to.sizes(ids, 1, 2), to.constant({0})});
    positions = to.add(
        "Range", {to.constant(std::array<int64_t, 1>{0}, true), count, to.constant(std::array<int64_t, 1>{1}, true)});
  }
  // Without segments every token is of the first one.
  const bool segments = to.has(1) || to.has(4);
  sum = to.add("Add", {sum, to.add("Gather", {to.in(3), positions})}, {}, segments ? kNoValue : to.out(2));
  if (segments) {
    const ValueId which = to.has(1) ? to.in(1) : to.constant({0});
    sum = to.add("Add", {sum, to.add("Gather", {to.in(4), which})}, {}, to.out(2));
  }
  if (to.out(0) != kNoValue) {
    to.add("LayerNormalization", {sum, to.in(5), to.in(6)},
           {integer("axis", -1), number("epsilon", to.attributes().number("epsilon"))}, to.out(0));
  }
  if (to.out(1) == kNoValue) return;
  // How many tokens are no padding: their mask is 1.
  const ValueId batches = to.sizes(ids, 0, 1);
  if (to.has(7)) {
    const ValueId one = to.cast(to.constant(std::array<int64_t, 1>{1}, true), DataType::kInt32);
    const ValueId tokens = to.cast(to.add("Equal", {to.in(7), one}), DataType::kInt32);
    to.add("ReduceSum", {tokens, to.constant({1})}, {integer("keepdims", 0)}, to.out(1));
  } else {
    to.add("Expand", {to.cast(to.constant({0}), DataType::kInt32), batches}, {}, to.out(1));
  }
}

// GroupNormalization of X with the channels last, or before the positions.
void group_norm(Expansion& to, ValueId x, ValueId gamma, ValueId beta, ValueId y) {
  const Attributes attributes = to.attributes();
  const bool last = attributes.flag("channels_last");
  const int64_t activation = attributes.find_integer("activation").value_or(0);
  const DataType type = to.type(x), wide = to.type(gamma);
  if (activation < 0 || activation > 1) {
    to.fail(invalid_argument("Attribute \"activation\" ({}) is neither 0 nor 1.", activation));
    return;
  }
  if (last) x = to.transpose(x, {0, 3, 1, 2});
  if (type != wide) x = to.cast(x, wide);
  x = to.add("GroupNormalization", {x, gamma, beta},
             {integer("num_groups", attributes.find_integer("groups").value_or(0)),
              number("epsilon", attributes.number("epsilon"))});
  if (activation == 1) x = to.add("Swish", {x});
  if (type != wide) x = to.cast(x, type);
  if (last) {
    to.transpose(x, {0, 2, 3, 1}, y);
  } else {
    to.add("Identity", {x}, {}, y);
  }
}

void plain_group_norm(Expansion& to) { group_norm(to, to.in(0), to.in(1), to.in(2), to.out(0)); }

void skip_group_norm(Expansion& to) {
  const bool last = to.attributes().flag("channels_last");
  ValueId skip = to.in(3), bias = to.in(4);
  if (to.rank(skip) == 2) skip = to.add("Unsqueeze", {skip, last ? to.constant({1, 2}) : to.constant({2, 3})});
  if (bias != kNoValue) {
    if (!last) bias = to.add("Unsqueeze", {bias, to.constant({1, 2})});
    skip = to.add("Add", {skip, bias});
  }
  const ValueId sum = to.add("Add", {to.in(0), skip}, {}, to.out(1));
  if (to.out(0) != kNoValue) group_norm(to, sum, to.in(1), to.in(2), to.out(0));
}

constexpr Row kRows[] = {
    {"", "SimplifiedLayerNormalization", &simplified_layer_norm},
    {"com.microsoft", "EmbedLayerNormalization", &embed_layer_norm},
    {"com.microsoft", "GroupNorm", &plain_group_norm},
    {"com.microsoft", "SkipGroupNorm", &skip_group_norm},
    {"com.microsoft", "SkipLayerNormalization", &skip_layer_norm},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", &skip_simplified_layer_norm},
};

}  // namespace

std::span<const Row> norm_rows() { return kRows; }

}  // namespace tenon::expand
