#include "ops/attention.h"

#include <utility>

#include "base/status.h"
#include "ops/attributes.h"

namespace tenon {

namespace {

using infer::Dims;
using infer::InputDims;
using infer::text;

bool is_packed(const Node& node) { return node.op_type == "PackedAttention"; }

// The elements of a query where each head of QKV has its query, key and value one after the other; nullopt where all
// queries come first, then all keys.
std::optional<int64_t> packed_depth(const Node& node) { return Attributes(node).find_integer("depth"); }

Result<int64_t> read_heads(const Node& node) {
  const std::optional<int64_t> heads = Attributes(node).find_integer("num_heads");
  TENON_INVALID_IF(!heads || *heads < 1, "Attribute \"num_heads\" ({}) has to be positive.", heads.value_or(0));
  return *heads;
}

Status check_mask(const Dims* mask, const Dims& scores) {
  TENON_INVALID_IF(mask != nullptr && !infer::may_broadcast_to(*mask, scores),
                   "The mask {} does not broadcast to the scores {}.", text(*mask), text(scores));
  return {};
}

// The dimensions of Y; Q, K and V have known ranks.
Result<Dims> attention_dims(const Node& node, const InputDims& inputs, int64_t heads) {
  const Dims& q = *inputs.find(0);
  if (is_packed(node)) {
    TENON_INVALID_IF(q.size() != 3, "PackedAttention takes QKV of 3 dimensions, not {}.", text(q));
    Dims y = q;
    if (const std::optional<int64_t> depth = packed_depth(node); y[2].known() && depth) {
      TENON_INVALID_IF(*depth < 1 || y[2].value % heads != 0 || y[2].value / heads / 2 < *depth,
                       "QKV {} does not divide into {} heads with queries and keys of {} elements.", text(q), heads,
                       *depth);
      y[2].value -= 2 * heads * *depth;
    } else if (y[2].known()) {
      TENON_INVALID_IF(y[2].value % 3 != 0 || y[2].value / 3 % heads != 0,
                       "QKV {} does not divide into 3 times {} heads.", text(q), heads);
      y[2].value /= 3;
    } else {
      y[2] = Dim{};
    }
    TENON_TRY(check_mask(inputs.find(1), {y[0], infer::number(heads), y[1], y[1]}));
    return y;
  }
  const Dims &k = *inputs.find(1), &v = *inputs.find(2);
  TENON_INVALID_IF((q.size() != 3 && q.size() != 4) || k.size() != q.size() || v.size() != q.size(),
                   "Attention takes Q, K and V of 3 dimensions, or of 4, not {}, {} and {}.", text(q), text(k),
                   text(v));
  using infer::certainly_differ;
  if (q.size() == 4) {
    const Dim count = infer::number(heads);
    TENON_INVALID_IF(certainly_differ(q[1], count) || certainly_differ(k[0], q[0]) || certainly_differ(v[0], q[0]),
                     "Q {}, K {} and V {} do not have {} heads of one batch.", text(q), text(k), text(v), heads);
    TENON_INVALID_IF(certainly_differ(k[1], v[1]) || (k[1].known() && (k[1].value < 1 || heads % k[1].value != 0)),
                     "{} heads of Q {} do not share those of K {} and V {} evenly.", heads, text(q), text(k), text(v));
    TENON_INVALID_IF(certainly_differ(k[2], v[2]) || certainly_differ(q[3], k[3]),
                     "Q {}, K {} and V {} do not fit together.", text(q), text(k), text(v));
    TENON_TRY(check_mask(inputs.find(3), {q[0], count, q[2], k[2]}));
    return Dims{q[0], count, q[2], v[3]};
  }
  TENON_INVALID_IF(certainly_differ(q[0], k[0]) || certainly_differ(q[0], v[0]) || certainly_differ(k[1], v[1]) ||
                       certainly_differ(q[2], k[2]),
                   "Q {}, K {} and V {} do not fit together.", text(q), text(k), text(v));
  for (const Dims* input : {&q, &k, &v})
    TENON_INVALID_IF((*input)[2].known() && (*input)[2].value % heads != 0, "{} does not divide into {} heads.",
                     text(*input), heads);
  TENON_TRY(check_mask(inputs.find(3), {q[0], infer::number(heads), q[1], k[1]}));
  return Dims{q[0], q[1], v[2]};
}

// Q [B,H,T,D], K [B,G,S,D] and V [B,G,S,E].
void read_heads_first(const InputShapes& shapes, AttentionDesc& desc) {
  const Shape &q = *shapes.find(0), &k = *shapes.find(1), &v = *shapes.find(2);
  desc.kv_heads = k[1];
  desc.queries = q[2];
  desc.keys = k[2];
  desc.depth = q[3];
  desc.value_depth = v[3];
  const auto strides = [](const Shape& shape) {
    return HeadStrides{shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3]};
  };
  desc.q_at = strides(q), desc.k_at = strides(k), desc.v_at = strides(v), desc.y_at = strides(desc.y);
}

// Of which dimensions of 1, and those that are left out, repeat.
void read_mask(const InputShapes& shapes, size_t input, AttentionDesc& desc) {
  desc.mask_keys = desc.keys;
  const Shape* const mask = shapes.find(input);
  if (mask == nullptr) return;
  desc.mask = input;
  int64_t stride = 1;
  for (int i = mask->rank() - 1; i >= 0; --i) {
    if ((*mask)[i] != 1) desc.mask_strides[4 - mask->rank() + i] = stride;
    stride *= (*mask)[i];
  }
}

}  // namespace

Result<AttentionDesc> read_attention(const Node& node, const InputShapes& shapes) {
  if (node.domain.empty() || node.op_type == "CachedAttention") return read_cached_attention(node, shapes);
  const bool packed = is_packed(node);
  TENON_TRY(require_shapes(node, shapes, packed ? 1 : 3));
  AttentionDesc desc;
  TENON_TRY_ASSIGN(desc.heads, read_heads(node));
  const std::optional<float> scale = Attributes(node).find_number("scale");
  TENON_INVALID_IF(!scale, "{} lacks the attribute \"scale\".", node.op_type);
  desc.scale = *scale;
  desc.kv_heads = desc.heads;
  desc.softcap = packed ? 0 : Attributes(node).number("softcap");
  if (Attributes(node).flag("guarded")) desc.empty = EmptyQuery::kZerosForNaN;
  TENON_TRY_ASSIGN(const Dims y, attention_dims(node, infer::input_dims(shapes), desc.heads));
  desc.y = infer::to_shape(y);
  desc.batch = desc.y[0];
  const Shape& q = *shapes.find(0);
  if (q.rank() == 4) {
    read_heads_first(shapes, desc);
    read_mask(shapes, 3, desc);
    return desc;
  }
  desc.queries = desc.y[1];
  desc.value_depth = desc.y[2] / desc.heads;
  if (packed) {
    desc.k = desc.v = 0;
    desc.keys = desc.queries;
    desc.depth = desc.value_depth;
    desc.k_offset = desc.y[2];
    desc.v_offset = 2 * desc.y[2];
    if (const std::optional<int64_t> depth = packed_depth(node)) {
      desc.depth = desc.k_offset = *depth;
      desc.v_offset = 2 * *depth;
    }
  } else {
    desc.keys = (*shapes.find(1))[1];
    desc.depth = q[2] / desc.heads;
  }
  const int64_t v_row = packed ? q[2] : desc.y[2];
  desc.q_at = {q[2] * desc.queries, desc.depth, q[2]};
  desc.k_at = {q[2] * desc.keys, desc.depth, q[2]};
  desc.v_at = {v_row * desc.keys, desc.value_depth, v_row};
  if (packed && packed_depth(node)) desc.q_at.head = desc.k_at.head = desc.v_at.head = q[2] / desc.heads;
  desc.y_at = {desc.y[2] * desc.queries, desc.value_depth, desc.y[2]};
  read_mask(shapes, packed ? 1 : 3, desc);
  return desc;
}

void write_attention(int64_t heads, float scale, bool guarded, Node& node, float softcap) {
  node.set_int("num_heads", heads);
  node.set_float("scale", scale);
  if (softcap > 0) node.set_float("softcap", softcap);
  if (guarded) node.set_int("guarded", 1);
}

namespace infer {
namespace {

Status infer_attention(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY_ASSIGN(const int64_t heads, read_heads(c.node()));
  for (size_t i = 0; i < (is_packed(c.node()) ? 1 : 3); ++i) {
    if (is_packed(c.node())) TENON_TRY(c.require_rank(i, 3, "QKV"));
    if (!c.ranked(i)) return {};
  }
  TENON_TRY_ASSIGN(Dims y, attention_dims(c.node(), input_dims(c), heads));
  return c.set_dims(0, std::move(y));
}

constexpr Row kRows[] = {{"Attention", &infer_attention}, {"PackedAttention", &infer_attention}};

}  // namespace

std::span<const Row> internal_attention_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
