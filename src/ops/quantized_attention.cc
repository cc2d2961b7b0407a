#include "ops/quantized_attention.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

Status expect(const Node& node, const char* what, const Shape& found, const Shape& wanted) {
  TENON_INVALID_IF(found != wanted, "{} has {} of shape {}; it needs {}.", node.op_type, what, found.to_string(),
                   wanted.to_string());
  return {};
}

// One number, or one for each column of W.
Status expect_columns(const Node& node, const char* what, const Shape* found, int64_t columns) {
  if (found == nullptr) return {};
  const int64_t count = found->element_count();
  TENON_INVALID_IF(count != 1 && count != columns, "{} has {} of shape {}; 1 or {} elements are needed.", node.op_type,
                   what, found->to_string(), columns);
  return {};
}

}  // namespace

Result<QuantizedEmbeddingDesc> read_quantized_embedding(const Node& node, const InputShapes& shapes) {
  using Desc = QuantizedEmbeddingDesc;
  for (size_t input : {Desc::kIds, Desc::kWord, Desc::kPosition, Desc::kGamma, Desc::kBeta}) {
    TENON_INVALID_IF(shapes.find(input) == nullptr, "{} needs input {}, which is absent.", node.op_type,
                     static_cast<int>(input));
  }
  const Shape &ids = *shapes.find(Desc::kIds), &word = *shapes.find(Desc::kWord),
              &position = *shapes.find(Desc::kPosition);
  TENON_INVALID_IF(ids.rank() != 2 || word.rank() != 2 || position.rank() != 2,
                   "{} has ids of shape {}, words of shape {} and positions of shape {}; matrices are needed.",
                   node.op_type, ids.to_string(), word.to_string(), position.to_string());
  Desc desc;
  desc.batch = ids[0];
  desc.length = ids[1];
  desc.words = word[0];
  desc.hidden = word[1];
  desc.positions = position[0];
  TENON_INVALID_IF(position[1] != desc.hidden || desc.positions < desc.length,
                   "{} has positions of shape {} for {} ids and {} columns.", node.op_type, position.to_string(),
                   desc.length, desc.hidden);
  const bool segmented = shapes.find(Desc::kSegment) != nullptr;
  TENON_INVALID_IF(segmented != (shapes.find(Desc::kSegmentIds) != nullptr),
                   "{} has segments without ids, or ids alone.", node.op_type);
  if (segmented) {
    desc.segments = (*shapes.find(Desc::kSegment)).rank() > 0 ? (*shapes.find(Desc::kSegment))[0] : 0;
    TENON_TRY(expect(node, "segments", *shapes.find(Desc::kSegment), Shape{desc.segments, desc.hidden}));
    TENON_TRY(expect(node, "segment ids", *shapes.find(Desc::kSegmentIds), ids));
  }
  if (const Shape* mask = shapes.find(Desc::kMask)) TENON_TRY(expect(node, "a mask", *mask, ids));
  TENON_TRY(expect(node, "gamma", *shapes.find(Desc::kGamma), Shape{desc.hidden}));
  TENON_TRY(expect(node, "beta", *shapes.find(Desc::kBeta), Shape{desc.hidden}));
  for (size_t i = 0; i < 5; ++i) {
    for (size_t first : {Desc::kScales, Desc::kZeros})
      TENON_TRY(expect_columns(node, "a scale or zero point", shapes.find(first + i), 1));
  }
  desc.epsilon = Attributes(node).number("epsilon");
  desc.y = Shape{desc.batch, desc.length, desc.hidden};
  return desc;
}

namespace infer {
namespace {

Status infer_attention(Context& c) {
  c.set_type(0, c.type(2));
  c.set_type(1, c.type(2));
  if (!c.ranked(0) || !c.ranked(1)) return {};
  TENON_INVALID_IF(c.rank(0) != 3 || c.rank(1) != 2, "QAttention has X of shape {} and W of shape {}.", text(c.dims(0)),
                   text(c.dims(1)));
  const Dim width = c.dims(1)[1];
  const Dim hidden = width.known() ? number(width.value / 3) : Dim{};
  TENON_TRY(c.set_dims(0, {c.dims(0)[0], c.dims(0)[1], hidden}));
  const int64_t heads = Attributes(c.node()).find_integer("num_heads").value_or(0);
  const Dim depth = hidden.known() && heads > 0 ? number(hidden.value / heads) : Dim{};
  Dim keys = c.has(8) ? Dim{} : c.dims(0)[1];
  if (c.ranked(8) && c.rank(8) == 5 && c.dims(8)[3].known() && c.dims(0)[1].known()) {
    keys = number(c.dims(8)[3].value + c.dims(0)[1].value);
  }
  return c.set_dims(1, {number(2), c.dims(0)[0], number(std::max<int64_t>(heads, 0)), keys, depth});
}

Status infer_embedding(Context& c) {
  c.set_type(0, DataType::kFloat);
  c.set_type(1, DataType::kInt32);
  if (!c.ranked(0) || !c.ranked(2)) return {};
  TENON_INVALID_IF(c.rank(0) != 2 || c.rank(2) != 2,
                   "QEmbedLayerNormalization has ids of shape {} and words of shape {}.", text(c.dims(0)),
                   text(c.dims(2)));
  TENON_TRY(c.set_dims(0, {c.dims(0)[0], c.dims(0)[1], c.dims(2)[1]}));
  return c.set_dims(1, {c.dims(0)[0]});
}

constexpr Row kRows[] = {
    {"QAttention", &infer_attention},
    {"QEmbedLayerNormalization", &infer_embedding},
};

}  // namespace

std::span<const Row> contrib_quantized_attention_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
