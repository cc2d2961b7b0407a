// Attention of ai.onnx and tenon.CachedAttention: heads in a dimension of their own or side by side, fewer heads of
// keys than of queries, and keys of earlier runs.
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/status.h"
#include "ops/attention.h"
#include "ops/attributes.h"

namespace tenon {

namespace {

bool is_internal(const Node& node) { return node.domain == "tenon"; }

// Q, K or V as [batch, heads, positions, elements of a head].
struct Heads {
  int64_t batch = 0, heads = 0, positions = 0, depth = 0;
  HeadStrides strides;
};

Result<Heads> split_heads(const Shape& shape, std::optional<int64_t> heads, const char* name) {
  TENON_INVALID_IF(shape.rank() != 3 && shape.rank() != 4, "Attention takes {} of 3 or 4 dimensions, not {}.", name,
                   shape.to_string());
  if (shape.rank() == 4) {
    TENON_INVALID_IF(heads && *heads != shape[1], "{} {} does not have the {} heads that the node states.", name,
                     shape.to_string(), *heads);
    return Heads{
        shape[0], shape[1], shape[2], shape[3], {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3]}};
  }
  TENON_INVALID_IF(!heads, "{} {} has 3 dimensions, and the node does not state its number of heads.", name,
                   shape.to_string());
  TENON_INVALID_IF(*heads < 1 || shape[2] % *heads != 0, "{} {} does not divide into {} heads.", name,
                   shape.to_string(), *heads);
  const int64_t depth = shape[2] / *heads;
  return Heads{shape[0], *heads, shape[1], depth, {shape[1] * shape[2], depth, shape[2]}};
}

// Rows of queries, keys and values beside each other, as the queries.
Result<Heads> packed_heads(const Shape& shape, int64_t heads, int64_t kv_heads) {
  TENON_INVALID_IF(heads < 1 || kv_heads < 1 || heads > INT32_MAX || kv_heads > INT32_MAX,
                   "Packed rows have {} heads of queries and {} of keys.", heads, kv_heads);
  TENON_INVALID_IF(shape.rank() != 3 || shape[2] % (heads + 2 * kv_heads) != 0,
                   "Packed rows {} do not divide into {} and twice {} heads.", shape.to_string(), heads, kv_heads);
  const int64_t depth = shape[2] / (heads + 2 * kv_heads);
  return Heads{shape[0], heads, shape[1], depth, {shape[1] * shape[2], depth, shape[2]}};
}

Status read_mask(const Shape& mask, bool repeats, AttentionDesc& desc) {
  const Shape scores{desc.batch, desc.heads, desc.queries, desc.total_keys()};
  TENON_INVALID_IF(mask.rank() < 1 || mask.rank() > 4, "The mask {} does not broadcast to the scores {}.",
                   mask.to_string(), scores.to_string());
  const int front = 4 - mask.rank();
  int64_t stride = 1;
  for (int i = mask.rank() - 1; i >= 0; --i) {
    const bool is_keys = i + front == 3;
    const bool fits = is_keys ? mask[i] <= scores[3] || desc.cache == KeyCache::kShared
                              : mask[i] == 1 || mask[i] == scores[i + front];
    TENON_INVALID_IF(!fits, "The mask {} does not broadcast to the scores {}.", mask.to_string(), scores.to_string());
    if (mask[i] != 1) desc.mask_strides[i + front] = stride;
    stride *= mask[i];
  }
  const int64_t keys = mask[mask.rank() - 1];
  desc.mask_keys = keys == 1 && repeats ? INT64_MAX : keys;
  return {};
}

Status read_past(const InputShapes& shapes, AttentionDesc& desc) {
  const Shape *k = shapes.find(4), *v = shapes.find(5);
  TENON_INVALID_IF((k == nullptr) != (v == nullptr), "past_key and past_value come together; one is absent.");
  if (k == nullptr) return {};
  TENON_INVALID_IF(k->rank() != 4 || v->rank() != 4 || (*k)[2] != (*v)[2] ||
                       *k != Shape({desc.batch, desc.kv_heads, (*k)[2], desc.depth}) ||
                       *v != Shape({desc.batch, desc.kv_heads, (*k)[2], desc.value_depth}),
                   "past_key {} and past_value {} do not fit {} heads of {} and {} elements in {} batches.",
                   k->to_string(), v->to_string(), desc.kv_heads, desc.depth, desc.value_depth, desc.batch);
  desc.past = (*k)[2];
  desc.past_k = 4, desc.past_v = 5;
  desc.cache = KeyCache::kAppend;
  return {};
}

// The lengths of the batches, and the inputs that tenon.CachedAttention alone has.
Status read_lengths(const Node& node, const InputShapes& shapes, AttentionDesc& desc) {
  if (const Shape* lengths = shapes.find(6)) {
    TENON_INVALID_IF(lengths->element_count() != desc.batch, "There are {} lengths of keys for {} batches.",
                     lengths->element_count(), desc.batch);
    desc.lengths = 6;
    TENON_INVALID_IF(!is_internal(node) && desc.past_k != kNoInput,
                     "nonpad_kv_seqlen and past_key do not go together.");
  }
  if (!is_internal(node)) return {};
  if (const Shape* total = shapes.find(7)) {
    TENON_INVALID_IF(total->element_count() != 1, "The total length has {} elements, not one.", total->element_count());
    TENON_INVALID_IF(desc.lengths == kNoInput, "A total length needs the lengths of the batches.");
    desc.total = 7;
    desc.cache = KeyCache::kShared;
  }
  if (const Shape* sink = shapes.find(8)) {
    TENON_INVALID_IF(sink->element_count() != desc.heads, "The sink {} does not have one score for each of {} heads.",
                     sink->to_string(), desc.heads);
    desc.sink = 8;
  }
  return {};
}

}  // namespace

Result<AttentionDesc> read_cached_attention(const Node& node, const InputShapes& shapes) {
  // Q has the rows of K and V too.
  const bool packed = is_internal(node) && shapes.find(1) == nullptr && shapes.find(2) == nullptr;
  TENON_TRY(require_shapes(node, shapes, packed ? 1 : 3));
  const Attributes attributes(node);
  AttentionDesc desc;
  const std::optional<int64_t> q_heads = attributes.find_integer("q_num_heads"),
                               kv_heads = attributes.find_integer("kv_num_heads");
  Heads q, k, v;
  if (packed) {
    TENON_TRY_ASSIGN(q, packed_heads(*shapes.find(0), q_heads.value_or(0), kv_heads.value_or(0)));
    k = v = q;
    k.heads = v.heads = *kv_heads;
    desc.k = desc.v = desc.q;
    desc.k_offset = q.heads * q.depth;
    desc.v_offset = (q.heads + k.heads) * q.depth;
  } else {
    TENON_TRY_ASSIGN(q, split_heads(*shapes.find(0), q_heads, "Q"));
    TENON_TRY_ASSIGN(k, split_heads(*shapes.find(1), kv_heads, "K"));
    TENON_TRY_ASSIGN(v, split_heads(*shapes.find(2), kv_heads, "V"));
    TENON_INVALID_IF(q.batch != k.batch || q.batch != v.batch || k.positions != v.positions || q.depth != k.depth ||
                         k.heads != v.heads,
                     "Q {}, K {} and V {} do not fit together.", shapes.find(0)->to_string(),
                     shapes.find(1)->to_string(), shapes.find(2)->to_string());
  }
  TENON_INVALID_IF(k.heads == 0 ? q.heads != 0 : q.heads % k.heads != 0,
                   "{} heads of queries do not share {} heads of keys evenly.", q.heads, k.heads);
  desc.batch = q.batch, desc.heads = q.heads, desc.kv_heads = k.heads;
  desc.queries = q.positions, desc.keys = k.positions;
  desc.depth = q.depth, desc.value_depth = v.depth;
  desc.q_at = q.strides, desc.k_at = k.strides, desc.v_at = v.strides;
  const bool apart = shapes.find(0)->rank() == 4;
  const int64_t y_row = desc.heads * desc.value_depth;
  desc.y =
      apart ? Shape{desc.batch, desc.heads, desc.queries, desc.value_depth} : Shape{desc.batch, desc.queries, y_row};
  desc.y_at = {desc.queries * y_row, apart ? desc.queries * desc.value_depth : desc.value_depth,
               apart ? desc.value_depth : y_row};
  const std::optional<float> scale = attributes.find_number("scale");
  desc.scale = scale ? *scale : desc.depth == 0 ? 1 : 1 / std::sqrt(static_cast<double>(desc.depth));
  desc.softcap = attributes.number("softcap");
  TENON_INVALID_IF(!(desc.softcap >= 0), "Attribute \"softcap\" ({}) is negative.", desc.softcap);
  const int64_t causal = attributes.integer("is_causal");
  desc.causal = causal != 0 && (causal != kCausalUnlessSingle || desc.queries > 1);
  desc.left = attributes.integer("left_window_size");
  desc.right = attributes.integer("right_window_size");
  TENON_INVALID_IF(desc.left < -1 || desc.right < -1, "The window ({}, {}) has an end below -1.", desc.left,
                   desc.right);
  desc.score_output = attributes.integer("qk_matmul_output_mode");
  TENON_INVALID_IF(desc.score_output < 0 || desc.score_output > 3,
                   "Attribute \"qk_matmul_output_mode\" ({}) is not in [0, 3].", desc.score_output);
  desc.empty = EmptyQuery::kZeros;
  TENON_TRY(read_past(shapes, desc));
  TENON_TRY(read_lengths(node, shapes, desc));
  TENON_INVALID_IF(!checked_add(desc.past, desc.keys), "{} and {} keys are too many.", desc.past, desc.keys);
  if (const Shape* mask = shapes.find(3)) {
    desc.mask = 3;
    TENON_TRY(read_mask(*mask, is_internal(node), desc));
  }
  if (desc.cache != KeyCache::kShared) {
    desc.present_k = Shape{desc.batch, desc.kv_heads, desc.total_keys(), desc.depth};
    desc.present_v = Shape{desc.batch, desc.kv_heads, desc.total_keys(), desc.value_depth};
  }
  desc.scores = Shape{desc.batch, desc.heads, desc.queries, desc.total_keys()};
  return desc;
}

Result<CacheUpdateDesc> read_cache_update(const Node& node, const InputShapes& shapes) {
  TENON_TRY(require_shapes(node, shapes, 1));
  const Shape *past = shapes.find(1), *lengths = shapes.find(2), *total = shapes.find(3);
  TENON_TRY_ASSIGN(const Heads rows,
                   split_heads(*shapes.find(0), Attributes(node).find_integer("kv_num_heads"), "The new rows"));
  CacheUpdateDesc desc{.batch = rows.batch,
                       .heads = rows.heads,
                       .rows = rows.positions,
                       .depth = rows.depth,
                       .at = rows.strides,
                       .has_past = past != nullptr,
                       .grows = total != nullptr};
  if (past != nullptr) {
    TENON_INVALID_IF(past->rank() != 4 || *past != Shape({desc.batch, desc.heads, (*past)[2], desc.depth}),
                     "The cache {} does not fit {} heads of {} elements in {} batches.", past->to_string(), desc.heads,
                     desc.depth, desc.batch);
    desc.past = (*past)[2];
  }
  TENON_INVALID_IF(lengths == nullptr || lengths->element_count() != desc.batch,
                   "A cache of {} batches needs a length for each of them.", desc.batch);
  TENON_INVALID_IF(total != nullptr && total->element_count() != 1, "The total length has {} elements, not one.",
                   total->element_count());
  return desc;
}

KeyRange key_range(const AttentionDesc& desc, int64_t t, int64_t offset, int64_t keys) {
  KeyRange range{0, keys};
  if (desc.mask != kNoInput) range.last = std::min(range.last, desc.mask_keys);
  const int64_t position = offset + t;
  if (desc.causal) range.last = std::min(range.last, position + 1);
  if (desc.right >= 0 && desc.right < INT64_MAX - 1 - position) {
    range.last = std::min(range.last, position + desc.right + 1);
  }
  if (desc.left >= 0) range.first = std::max<int64_t>(0, position - desc.left);
  return range;
}

namespace infer {
namespace {

Dim sum(const Dim& a, const Dim& b) {
  const bool fits = a.known() && b.known() && checked_add(a.value, b.value);
  return fits ? number(a.value + b.value) : Dim{};
}

// `dims` as [batch, heads, positions, elements of a head].
Dims by_heads(const Dims& dims, std::optional<int64_t> heads) {
  if (dims.size() == 4) return dims;
  const bool divides = heads && *heads > 0 && dims[2].known();
  return {dims[0], heads ? number(*heads) : Dim{}, dims[1], divides ? number(dims[2].value / *heads) : Dim{}};
}

Status infer_cached_attention(Context& c) {
  const Node& node = c.node();
  c.set_type(0, c.type(0));
  c.set_type(1, c.type(c.has(4) ? 4 : c.has(1) ? 1 : 0));
  c.set_type(2, c.type(c.has(5) ? 5 : c.has(2) ? 2 : 0));
  c.set_type(3, c.type(0));
  const bool packed = is_internal(node) && !c.has(1) && !c.has(2);
  for (size_t i = 0; i < (packed ? 1 : 3); ++i) {
    if (!c.ranked(i)) return {};
    TENON_INVALID_IF(c.rank(i) != 3 && c.rank(i) != 4, "Attention takes Q, K and V of 3 or 4 dimensions, not {}.",
                     text(c.dims(i)));
  }
  const InputShapes shapes = input_shapes(c.graph(), node);
  const bool known = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId id) { return id == kNoValue || c.graph().value(id).fully_known(); });
  if (known) TENON_TRY(read_cached_attention(node, shapes).status());
  const Attributes attributes(node);
  const std::optional<int64_t> q_heads = attributes.find_integer("q_num_heads"),
                               kv_heads = attributes.find_integer("kv_num_heads");
  Dims q, k, v;
  if (packed) {
    TENON_INVALID_IF(c.rank(0) != 3 || !q_heads || !kv_heads || *q_heads < 1 || *kv_heads < 1 || *q_heads > INT32_MAX ||
                         *kv_heads > INT32_MAX,
                     "Packed rows {} have {} heads of queries and {} of keys.", text(c.dims(0)), q_heads.value_or(0),
                     kv_heads.value_or(0));
    const Dim& row = c.dims(0)[2];
    q = {c.dims(0)[0], number(*q_heads), c.dims(0)[1],
         row.known() ? number(row.value / (*q_heads + 2 * *kv_heads)) : Dim{}};
    k = v = {q[0], number(*kv_heads), q[2], q[3]};
  } else {
    q = by_heads(c.dims(0), q_heads), k = by_heads(c.dims(1), kv_heads), v = by_heads(c.dims(2), kv_heads);
  }
  if (c.rank(0) == 4) {
    TENON_TRY(c.set_dims(0, {q[0], q[1], q[2], v[3]}));
  } else {
    const bool counted = q[1].known() && v[3].known();
    TENON_TRY_ASSIGN(const Dim row, counted ? product(std::array{q[1], v[3]}) : Result<Dim>(Dim{}));
    TENON_TRY(c.set_dims(0, {q[0], q[2], row}));
  }
  if (c.has(7)) {
    TENON_INVALID_IF(node.outputs.size() > 1, "Attention with a shared cache has one output, not {}.",
                     node.outputs.size());
    return {};
  }
  Dim positions = k[2];
  if (c.has(4)) positions = c.ranked(4) && c.rank(4) == 4 ? sum(c.dims(4)[2], k[2]) : Dim{};
  if (c.has_output(1)) TENON_TRY(c.set_dims(1, {k[0], k[1], positions, k[3]}));
  if (c.has_output(2)) TENON_TRY(c.set_dims(2, {v[0], v[1], positions, v[3]}));
  if (c.has_output(3)) TENON_TRY(c.set_dims(3, {q[0], q[1], q[2], positions}));
  return {};
}

Status infer_cache_update(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || (c.rank(0) != 3 && c.rank(0) != 4)) return {};
  const Dims rows = by_heads(c.dims(0), Attributes(c.node()).find_integer("kv_num_heads"));
  const bool past_known = !c.has(1) || (c.ranked(1) && c.rank(1) == 4);
  const Dim past = !c.has(1) ? number(0) : past_known ? c.dims(1)[2] : Dim{};
  Dim room = past;
  if (c.has(3)) {
    // As much as the past has, or more where the run needs it.
    const auto total = c.values(3);
    const bool known = total && total->size() == 1 && past.known();
    room = known ? number(std::max(past.value, (*total)[0])) : Dim{};
  }
  return c.set_dims(0, {rows[0], rows[1], room, rows[3]});
}

constexpr Row kRows[] = {{"Attention", &infer_cached_attention}};
constexpr Row kInternalRows[] = {{"CacheUpdate", &infer_cache_update}, {"CachedAttention", &infer_cached_attention}};

}  // namespace

std::span<const Row> attention_rows() { return kRows; }

std::span<const Row> internal_cached_attention_rows() { return kInternalRows; }

}  // namespace infer
}  // namespace tenon
