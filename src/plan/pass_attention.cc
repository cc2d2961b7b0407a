// Turns scaled dot product attention, written as several operators, into tenon.Attention or tenon.PackedAttention.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ops/attention.h"
#include "ops/gather.h"
#include "ops/integer_inputs.h"
#include "ops/matmul.h"
#include "ops/slice.h"
#include "ops/softmax.h"
#include "ops/split.h"
#include "ops/transpose.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

struct Heads {
  ValueId projected = kNoValue;  // [B,T,parts*H*D]
  ValueId reshaped = kNoValue;   // [B,T,H,D]; of several parts [B,T,parts,H,D]
  ValueId transposed = kNoValue;
  // Which of the parts these heads are: a product makes queries, keys and values side by side.
  int64_t part = 0, parts = 1;
  // Or each head [B,T,H,W] of the product has its query, key and value, of which these are `depth` elements from
  // `column` on; -1: they are whole heads.
  int64_t column = -1, depth = 0;
};

// softmax(Q K^T * scale + mask) V, heads in dimension 1.
struct Pattern {
  Heads q, k, v;
  ValueId product = kNoValue;  // Q K^T
  ValueId masked = kNoValue;   // kNoValue without a mask
  ValueId softmax = kNoValue;
  ValueId mask = kNoValue;
  float scale = 1;
  bool guarded = false;  // the softmax is tenon.GuardedSoftmax
};

constexpr std::array<int64_t, 4> kHeadsFirst{0, 2, 1, 3}, kKeysLast{0, 2, 3, 1};

bool has_perm(const Node& node, std::array<int64_t, 4> wanted) {
  const Result<std::vector<int64_t>> perm = read_perm(node, 4);
  return perm.ok() && std::equal(perm->begin(), perm->end(), wanted.begin(), wanted.end());
}

std::optional<int64_t> sliced_part(const Rewriter& rewriter, const Node& slice, ValueId& whole) {
  const Value& x = rewriter.value(slice.inputs[0]);
  if (!x.fully_known() || x.dims.size() != 5) return std::nullopt;
  const Result<SliceDesc> desc = read_slice(slice, x.shape(), constant_integers(rewriter.graph(), slice));
  if (!desc.ok()) return std::nullopt;
  Shape one = x.shape();
  one[0] = 1;
  if (desc->output != one) return std::nullopt;
  // A step backward may take the others from their end.
  for (int axis = 1; axis < one.rank(); ++axis)
    if (desc->ranges[axis].start != 0) return std::nullopt;
  whole = slice.inputs[0];
  return desc->ranges[0].start;
}

// Which part of dimension 0 of what `id` is taken from (`whole`); nullopt where it is none by itself.
std::optional<int64_t> taken_part(const Rewriter& rewriter, ValueId id, ValueId& whole) {
  const Node* taken = rewriter.producer(id);
  if (!taken || !taken->domain.empty()) return std::nullopt;
  if (taken->op_type == "Gather") {
    const Result<int> axis = read_gather_axis(*taken, 5);
    const ConstantRef& index = rewriter.constant(taken->inputs[1]);
    if (!axis.ok() || *axis != 0 || !index || index->shape.rank() != 0) return std::nullopt;
    whole = taken->inputs[0];
    if (index->type == DataType::kInt32) return index->as<int32_t>()[0];
    return index->type == DataType::kInt64 ? std::optional(index->as<int64_t>()[0]) : std::nullopt;
  }
  if (taken->op_type != "Squeeze" && taken->op_type != "Reshape") return std::nullopt;
  const Node* split = rewriter.producer(taken->inputs[0]);
  if (!split || !split->domain.empty()) return std::nullopt;
  if (split->op_type == "Slice") return sliced_part(rewriter, *split, whole);
  if (split->op_type != "Split") return std::nullopt;
  const Result<int> axis = read_split_axis(*split, 5);
  if (!axis.ok() || *axis != 0) return std::nullopt;
  whole = split->inputs[0];
  return std::find(split->outputs.begin(), split->outputs.end(), taken->inputs[0]) - split->outputs.begin();
}

// Heads [B,H,T,D] that are one part of Transpose(Reshape(x, [B,T,parts,H,D]), [2,0,3,1,4]).
std::optional<Heads> match_part(const Rewriter& rewriter, ValueId id) {
  ValueId whole = kNoValue;
  const std::optional<int64_t> part = taken_part(rewriter, id, whole);
  if (!part) return std::nullopt;
  const Node* transpose = rewriter.made_by(whole, "Transpose");
  if (!transpose) return std::nullopt;
  const Result<std::vector<int64_t>> perm = read_perm(*transpose, 5);
  if (!perm.ok() || *perm != std::vector<int64_t>{2, 0, 3, 1, 4}) return std::nullopt;
  const Node* reshape = rewriter.made_by(transpose->inputs[0], "Reshape");
  if (!reshape || !rewriter.value(transpose->inputs[0]).fully_known() || !rewriter.value(id).fully_known())
    return std::nullopt;
  const Shape all = rewriter.value(transpose->inputs[0]).shape();
  if (all.rank() != 5 || rewriter.value(id).shape() != Shape{all[0], all[3], all[1], all[4]}) return std::nullopt;
  const int64_t index = *part < 0 ? *part + all[2] : *part;
  if (index < 0 || index >= all[2]) return std::nullopt;
  return Heads{reshape->inputs[0], transpose->inputs[0], id, index, all[2]};
}

// Elements along the last of four dimensions, from `first` on, that `id` is of `whole`.
struct Columns {
  ValueId whole = kNoValue;
  int64_t first = 0;
};
std::optional<Columns> taken_columns(const Rewriter& rewriter, ValueId id) {
  const Node* taken = rewriter.producer(id);
  if (!taken || !taken->domain.empty() || (taken->op_type != "Split" && taken->op_type != "Slice")) return std::nullopt;
  const Value& x = rewriter.value(taken->inputs[0]);
  if (!rewriter.read_once(id) || !x.fully_known() || x.dims.size() != 4) return std::nullopt;
  Columns columns{.whole = taken->inputs[0]};
  if (taken->op_type == "Split") {
    const Result<int> axis = read_split_axis(*taken, 4);
    if (!axis.ok() || *axis != 3) return std::nullopt;
    for (ValueId part : taken->outputs) {
      if (part == id) return columns;
      if (part == kNoValue || !rewriter.value(part).fully_known()) return std::nullopt;
      columns.first += rewriter.value(part).shape()[3];
    }
    return std::nullopt;
  }
  const Result<SliceDesc> desc = read_slice(*taken, x.shape(), constant_integers(rewriter.graph(), *taken));
  if (!desc.ok()) return std::nullopt;
  for (int axis = 0; axis < 4; ++axis) {
    const SliceRange& range = desc->ranges[axis];
    if (range.step != 1 || (axis < 3 && range.count != x.shape()[axis])) return std::nullopt;
  }
  columns.first = desc->ranges[3].start;
  return columns;
}

// Columns of each head: before or behind the Transpose that brings the heads to the front.
std::optional<Heads> match_columns(const Rewriter& rewriter, ValueId id, std::array<int64_t, 4> perm) {
  std::optional<Columns> columns;
  ValueId reshaped = kNoValue;
  const Node* transpose = rewriter.made_by(id, "Transpose");
  if (transpose && has_perm(*transpose, perm)) {
    columns = taken_columns(rewriter, transpose->inputs[0]);
    if (columns) reshaped = columns->whole;
  } else {
    if (perm == kKeysLast) {
      if (!transpose || !has_perm(*transpose, {0, 1, 3, 2}) || !rewriter.read_once(id)) return std::nullopt;
      id = transpose->inputs[0];
    }
    columns = taken_columns(rewriter, id);
    const Node* first = columns ? rewriter.made_by(columns->whole, "Transpose") : nullptr;
    if (!first || !has_perm(*first, kHeadsFirst)) return std::nullopt;
    reshaped = first->inputs[0];
  }
  const Node* reshape = columns ? rewriter.made_by(reshaped, "Reshape") : nullptr;
  if (!reshape || !rewriter.value(id).fully_known() || rewriter.value(id).dims.size() != 4) return std::nullopt;
  const Shape taken = rewriter.value(id).shape();
  const bool turned = transpose && perm == kKeysLast && id == transpose->outputs[0];
  return Heads{.projected = reshape->inputs[0],
               .reshaped = reshaped,
               .transposed = id,
               .column = columns->first,
               .depth = taken[turned ? 2 : 3]};
}

std::optional<Heads> match_heads(const Rewriter& rewriter, ValueId id, std::array<int64_t, 4> perm) {
  if (const std::optional<Heads> heads = match_columns(rewriter, id, perm)) return heads;
  if (perm == kHeadsFirst)
    if (const std::optional<Heads> heads = match_part(rewriter, id)) return heads;
  const Node* transpose = rewriter.made_by(id, "Transpose");
  if (!transpose) return std::nullopt;
  if (perm == kKeysLast && has_perm(*transpose, {0, 1, 3, 2}) && rewriter.read_once(id))
    return match_part(rewriter, transpose->inputs[0]);
  if (!has_perm(*transpose, perm)) return std::nullopt;
  const Node* reshape = rewriter.made_by(transpose->inputs[0], "Reshape");
  if (!reshape) return std::nullopt;
  return Heads{reshape->inputs[0], transpose->inputs[0], id};
}

// `node` is the product of the probabilities and V.
std::optional<Pattern> match_pattern(const Rewriter& rewriter, const Node& node) {
  if (node.domain != "tenon" || node.op_type != "MatMul") return std::nullopt;
  const MatMulForm last = read_matmul_form(node);
  if (!last.is_bare() || last.trans_b || last.alpha != 1.0f) return std::nullopt;
  Pattern found;
  found.softmax = node.inputs[0];
  const Node* softmax = rewriter.made_by(found.softmax, "Softmax");
  if (!softmax) {
    softmax = rewriter.made_by(found.softmax, "GuardedSoftmax", "tenon");
    found.guarded = true;
  }
  if (!softmax) return std::nullopt;
  const Result<int> axis = read_softmax_axis(*softmax, 4);
  if (!axis.ok() || *axis != 3) return std::nullopt;
  found.product = softmax->inputs[0];
  if (const Node* add = rewriter.made_by(found.product, "Add")) {
    auto parts =
        split_operands(*add, [&](ValueId a, ValueId) { return rewriter.made_by(a, "MatMul", "tenon") != nullptr; });
    if (!parts) return std::nullopt;
    found.masked = found.product;
    std::tie(found.product, found.mask) = *parts;
  }
  const Node* scores = rewriter.made_by(found.product, "MatMul", "tenon");
  if (!scores) return std::nullopt;
  const MatMulForm first = read_matmul_form(*scores);
  if (!first.is_bare()) return std::nullopt;
  found.scale = first.alpha;
  std::optional<Heads> q = match_heads(rewriter, scores->inputs[0], kHeadsFirst);
  std::optional<Heads> k = match_heads(rewriter, scores->inputs[1], first.trans_b ? kHeadsFirst : kKeysLast);
  std::optional<Heads> v = match_heads(rewriter, node.inputs[1], kHeadsFirst);
  if (!q || !k || !v) return std::nullopt;
  found.q = *q;
  found.k = *k;
  found.v = *v;
  return found;
}

// X W + b with constant W [K,N] and b [N].
const Node* projection(const Rewriter& rewriter, ValueId id) {
  const Node* node = rewriter.made_by(id, "MatMul", "tenon");
  if (!node) return nullptr;
  const MatMulForm form = read_matmul_form(*node);
  if (form.activated || form.residual != kNoInput || form.trans_b || form.alpha != 1.0f) return nullptr;
  const ConstantRef& weights = rewriter.constant(node->inputs[1]);
  if (!weights || weights->type != DataType::kFloat || weights->shape.rank() != 2) return nullptr;
  const ConstantRef& bias = rewriter.constant(node->input(2));
  if (node->input(2) != kNoValue && (!bias || bias->type != DataType::kFloat)) return nullptr;
  return node;
}

// [K,N] three times, side by side.
Result<ConstantRef> join_columns(const std::array<const Node*, 3>& nodes, const Rewriter& rewriter) {
  const Shape& one = rewriter.constant(nodes[0]->inputs[1])->shape;
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef joined, make_constant(DataType::kFloat, Shape{one[0], 3 * one[1]}, &data));
  auto* dst = reinterpret_cast<float*>(data);
  const size_t columns = one[1];
  for (size_t row = 0; row < static_cast<size_t>(one[0]); ++row)
    for (const Node* node : nodes) {
      std::span<const float> src = rewriter.constant(node->inputs[1])->as<float>().subspan(row * columns, columns);
      dst = std::copy(src.begin(), src.end(), dst);
    }
  return joined;
}

Result<ConstantRef> join_biases(const std::array<const Node*, 3>& nodes, const Rewriter& rewriter, int64_t columns) {
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef joined, make_constant(DataType::kFloat, Shape{3 * columns}, &data));
  auto* dst = reinterpret_cast<float*>(data);
  for (const Node* node : nodes) {
    if (const ConstantRef& bias = rewriter.constant(node->input(2));
        bias && bias->as<float>().size() == static_cast<size_t>(columns))
      std::copy(bias->as<float>().begin(), bias->as<float>().end(), dst);
    dst += columns;
  }
  return joined;
}

Status pack(Rewriter& rewriter, const Pattern& pattern) {
  const std::array<ValueId, 3> outputs{pattern.q.projected, pattern.k.projected, pattern.v.projected};
  std::array<const Node*, 3> nodes{};
  for (const Heads* part : {&pattern.q, &pattern.k, &pattern.v})
    if (part->parts != 1 || part->column >= 0) return {};
  for (size_t i = 0; i < 3; ++i) {
    nodes[i] = projection(rewriter, outputs[i]);
    if (!nodes[i] || nodes[i]->inputs[0] != nodes[0]->inputs[0]) return {};
    if (rewriter.constant(nodes[i]->inputs[1])->shape != rewriter.constant(nodes[0]->inputs[1])->shape) return {};
    for (size_t other = 0; other < i; ++other)
      if (nodes[other] == nodes[i]) return {};
  }
  const int64_t columns = rewriter.constant(nodes[0]->inputs[1])->shape[1];
  const size_t weight_bytes = rewriter.constant(nodes[0]->inputs[1])->size_bytes;
  if (columns > INT32_MAX || weight_bytes > SIZE_MAX / 8 || !rewriter.may_make(3 * weight_bytes)) return {};
  TENON_TRY_ASSIGN(ConstantRef weights, join_columns(nodes, rewriter));
  TENON_TRY_ASSIGN(ConstantRef bias, join_biases(nodes, rewriter, columns));
  const std::string name = rewriter.value(outputs[0]).name + ":qkv";
  Value packed = rewriter.value(outputs[0]);
  packed.name = name;
  packed.dims.back() = Dim{.value = 3 * columns, .symbol = {}};
  const size_t rank = packed.dims.size();
  const ValueId x = nodes[0]->inputs[0];
  const ValueId packed_id = rewriter.add_value(std::move(packed));
  std::array<NodeId, 3> places;
  for (size_t i = 0; i < 3; ++i) places[i] = rewriter.producer_id(outputs[i]);
  const NodeId first = *std::min_element(places.begin(), places.end());
  rewriter.insert_before(first, make_internal("MatMul", name,
                                              {x, rewriter.add_constant(name + ":weights", std::move(weights)),
                                               rewriter.add_constant(name + ":bias", std::move(bias))},
                                              {packed_id}));
  Node split;
  split.name = name;
  split.op_type = "Split";
  split.since_version = 13;
  split.inputs = {
      packed_id,
      rewriter.add_constant(name + ":split", make_int64_constant(std::array<int64_t, 3>{columns, columns, columns}))};
  split.outputs = {outputs.begin(), outputs.end()};
  split.set_int("axis", static_cast<int64_t>(rank) - 1);
  rewriter.replace(first, std::move(split));
  for (NodeId place : places)
    if (place != first) rewriter.erase(place);
  return {};
}

// The value with Q, K and V side by side: the product itself, or the input of a Split into three equal parts that
// nobody else reads; kNoValue where there is none.
ValueId packed_source(const Rewriter& rewriter, const Pattern& pattern) {
  if (pattern.q.parts == 3) {
    const bool in_order = pattern.q.part == 0 && pattern.k.part == 1 && pattern.v.part == 2;
    const bool together = pattern.k.reshaped == pattern.q.reshaped && pattern.v.reshaped == pattern.q.reshaped;
    return in_order && together ? pattern.q.projected : kNoValue;
  }
  const Node* split = rewriter.producer(pattern.q.projected);
  if (!split || split->op_type != "Split" || !split->domain.empty() || split->outputs.size() != 3) return kNoValue;
  const std::array<ValueId, 3> wanted{pattern.q.projected, pattern.k.projected, pattern.v.projected};
  if (!std::equal(wanted.begin(), wanted.end(), split->outputs.begin())) return kNoValue;
  const Result<int> axis = read_split_axis(*split, 3);
  if (!axis.ok() || *axis != 2) return kNoValue;
  for (ValueId id : wanted)
    if (!rewriter.read_once(id) || rewriter.value(id).shape() != rewriter.value(wanted[0]).shape()) return kNoValue;
  return split->inputs[0];
}

bool known_rank(const Rewriter& rewriter, ValueId id, size_t rank) {
  return rewriter.is_float(id) && rewriter.value(id).fully_known() && rewriter.value(id).dims.size() == rank;
}

// The heads are exactly the pieces of the projected rows, and nobody else reads the steps between.
bool heads_fit(const Rewriter& rewriter, const Heads& heads, int64_t count) {
  if (!rewriter.is_float(heads.projected) || !rewriter.value(heads.projected).fully_known()) return false;
  if (!known_rank(rewriter, heads.reshaped, heads.parts == 1 ? 4 : 5)) return false;
  // The other parts are read too.
  const bool alone = heads.parts == 1 && heads.column < 0;
  if ((alone && !rewriter.read_once(heads.reshaped)) || !rewriter.read_once(heads.transposed)) return false;
  const Shape rows = rewriter.value(heads.projected).shape(), split = rewriter.value(heads.reshaped).shape();
  return rows.rank() > 0 && rows.element_count() == split.element_count() && split[split.rank() - 2] == count &&
         rows[rows.rank() - 1] == heads.parts * count * split[split.rank() - 1];
}

// [B,T,H*D] of heads that fit.
Shape rows_of(const Rewriter& rewriter, const Heads& heads) {
  const Shape split = rewriter.value(heads.reshaped).shape();
  const int64_t depth = heads.column < 0 ? split[split.rank() - 1] : heads.depth;
  return Shape{split[0], split[1], split[split.rank() - 2] * depth};
}

// Whether each head of one product is the query, the key and the value, one after the other.
bool interleaved(const Rewriter& rewriter, const Pattern& pattern) {
  const Heads &q = pattern.q, &k = pattern.k, &v = pattern.v;
  const int64_t width = rewriter.value(q.reshaped).shape()[3];
  return q.reshaped == k.reshaped && q.reshaped == v.reshaped && q.column == 0 && k.column == q.depth &&
         k.depth == q.depth && v.column == 2 * q.depth && v.column + v.depth == width;
}

// `id` with `shape`: itself, or a Reshape before node `here`.
ValueId with_shape(Rewriter& rewriter, NodeId here, ValueId id, const Shape& shape) {
  if (rewriter.value(id).shape() == shape) return id;
  Value value = rewriter.value(id);
  value.name += ":rows";
  value.set_shape(shape);
  const std::string name = value.name;
  const ValueId made = rewriter.add_value(std::move(value));
  const ValueId sizes = rewriter.add_constant(name + ":shape", make_int64_constant(shape.dims()));
  rewriter.insert_before(here, make_node("Reshape", 13, name, {id, sizes}, {made}));
  return made;
}

// The value that has `heads` as its rows; one part of several becomes a value before node `here`, once.
ValueId rows_value(Rewriter& rewriter, NodeId here, const Heads& heads,
                   std::vector<std::pair<ValueId, std::vector<ValueId>>>& divided) {
  const Shape shape = rows_of(rewriter, heads);
  if (heads.parts == 1) return with_shape(rewriter, here, heads.projected, shape);
  for (const auto& [reshaped, values] : divided)
    if (reshaped == heads.reshaped) return values[heads.part];
  const std::string name = rewriter.value(heads.projected).name + ":parts";
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < heads.parts; ++i) {
    Value part = rewriter.value(heads.projected);
    part.name = name + std::to_string(i);
    part.set_shape(shape);
    parts.push_back(rewriter.add_value(std::move(part)));
  }
  const std::vector<int64_t> sizes(heads.parts, shape[2]);
  const ValueId whole = with_shape(rewriter, here, heads.projected, Shape{shape[0], shape[1], heads.parts * shape[2]});
  Node split =
      make_node("Split", 13, name, {whole, rewriter.add_constant(name + ":sizes", make_int64_constant(sizes))}, parts);
  split.set_int("axis", 2);
  rewriter.insert_before(here, std::move(split));
  divided.emplace_back(heads.reshaped, parts);
  return parts[heads.part];
}

bool mask_fits(const Rewriter& rewriter, ValueId mask, const Shape& scores) {
  if (mask == kNoValue) return true;
  if (!rewriter.is_float(mask) || !rewriter.value(mask).fully_known()) return false;
  const Shape shape = rewriter.value(mask).shape();
  if (shape.rank() > 4) return false;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t wanted = scores[4 - shape.rank() + i];
    if (shape[i] != 1 && shape[i] != wanted) return false;
  }
  return true;
}

}  // namespace

Status pass_pack_qkv(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    std::optional<Pattern> pattern = match_pattern(rewriter, rewriter.node(i));
    if (!pattern) continue;
    const Value& q = rewriter.value(pattern->q.projected);
    if (q.has_rank && q.dims.size() == 3) TENON_TRY(pack(rewriter, *pattern));
  }
  rewriter.finish();
  return {};
}

Status pass_attention(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    // Ends in Reshape(Transpose(probabilities * V)).
    const Node& last = rewriter.node(i);
    if (last.op_type != "Reshape" || !last.domain.empty()) continue;
    const Node* transpose = rewriter.made_by(last.inputs[0], "Transpose");
    if (!transpose || !has_perm(*transpose, {0, 2, 1, 3}) || !rewriter.read_once(last.inputs[0])) continue;
    const ValueId context = transpose->inputs[0];
    const Node* product = rewriter.made_by(context, "MatMul", "tenon");
    if (!product || !rewriter.read_once(context)) continue;
    std::optional<Pattern> pattern = match_pattern(rewriter, *product);
    if (!pattern) continue;
    if (!rewriter.value(pattern->q.reshaped).fully_known() || !rewriter.value(last.outputs[0]).fully_known()) continue;
    const Shape reshaped = rewriter.value(pattern->q.reshaped).shape();
    if (reshaped.rank() < 4) continue;
    const int64_t heads = reshaped[reshaped.rank() - 2];
    if (!heads_fit(rewriter, pattern->q, heads) || !heads_fit(rewriter, pattern->k, heads) ||
        !heads_fit(rewriter, pattern->v, heads))
      continue;
    const bool read_elsewhere = !rewriter.read_once(pattern->product) || !rewriter.read_once(pattern->softmax) ||
                                (pattern->masked != kNoValue && !rewriter.read_once(pattern->masked));
    if (read_elsewhere) continue;
    const Shape q = rows_of(rewriter, pattern->q), k = rows_of(rewriter, pattern->k), v = rows_of(rewriter, pattern->v);
    if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || q[2] != k[2]) continue;
    if (!mask_fits(rewriter, pattern->mask, Shape{q[0], heads, q[1], k[1]})) continue;
    const bool by_columns = pattern->q.column >= 0 || pattern->k.column >= 0 || pattern->v.column >= 0;
    if (by_columns && !interleaved(rewriter, *pattern)) continue;
    const Shape made{q[0], q[1], v[2]}, wanted = rewriter.value(last.outputs[0]).shape();
    Node fused = make_internal("Attention", last.name, {}, last.outputs);
    if (by_columns) {
      fused.op_type = "PackedAttention";
      fused.inputs = {with_shape(rewriter, i, pattern->q.projected, Shape{q[0], q[1], 2 * q[2] + v[2]})};
      fused.set_int("depth", pattern->q.depth);
    } else if (const ValueId packed = packed_source(rewriter, *pattern); packed != kNoValue) {
      fused.op_type = "PackedAttention";
      fused.inputs = {with_shape(rewriter, i, packed, Shape{q[0], q[1], 3 * q[2]})};
    } else {
      std::vector<std::pair<ValueId, std::vector<ValueId>>> divided;
      for (const Heads& part : {pattern->q, pattern->k, pattern->v})
        fused.inputs.push_back(rows_value(rewriter, i, part, divided));
    }
    if (pattern->mask != kNoValue) fused.inputs.push_back(pattern->mask);
    write_attention(heads, pattern->scale, pattern->guarded, fused);
    if (made == wanted) {
      rewriter.replace(i, std::move(fused));
      continue;
    }
    Value rows = rewriter.value(last.outputs[0]);
    rows.name += ":rows";
    rows.set_shape(made);
    Node reshape = last;
    reshape.inputs = {
        rewriter.add_value(std::move(rows)),
        rewriter.add_constant(rewriter.value(last.outputs[0]).name + ":shape", make_int64_constant(wanted.dims()))};
    reshape.attributes.clear();
    fused.outputs = {reshape.inputs[0]};
    rewriter.insert_before(i, std::move(fused));
    rewriter.replace(i, std::move(reshape));
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
