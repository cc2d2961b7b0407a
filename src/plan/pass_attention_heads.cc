// Turns softmax(Q K^T * scale + mask) V, of heads that come from anywhere, into tenon.Attention of four dimensions:
// what pass_attention.cc does not find, because positions were rotated, heads normalised, or channels lie first; also
// with scores that are cap * tanh(scale / cap * Q K^T).
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ops/attention.h"
#include "ops/matmul.h"
#include "ops/softmax.h"
#include "ops/transpose.h"
#include "ops/unary.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

// Heads with more elements are channels whose attention is over positions; products take them as well.
constexpr int64_t kMostDepth = 512;
// Of fewer scores the three operators take less time than keys and values that are packed for each head.
constexpr int64_t kFewScores = 96 * 96;

struct Pattern {
  ValueId q = kNoValue;
  ValueId k = kNoValue, v = kNoValue;  // [..., S, D] and [..., S, E], or turned: with the last two swapped
  bool k_turned = false, v_turned = false;
  ValueId factor = kNoValue;  // of the scores, one number a head; kNoValue without one
  ValueId mask = kNoValue;
  float scale = 1;
  float softcap = 0;      // 0 without one
  bool guarded = false;   // the softmax is tenon.GuardedSoftmax
  bool y_turned = false;  // the result is [..., E, T]
};

bool known_floats(const Rewriter& rewriter, ValueId id) {
  return id != kNoValue && rewriter.is_float(id) && rewriter.value(id).fully_known();
}

// The axes in order, but for the last two.
bool swaps_last_two(const Node& node, int rank) {
  const Result<std::vector<int64_t>> perm = read_perm(node, rank);
  if (!perm.ok() || rank < 2) return false;
  for (int i = 0; i < rank; ++i) {
    const int from = i < rank - 2 ? i : 2 * rank - 3 - i;
    if ((*perm)[i] != from) return false;
  }
  return true;
}

// The product of the probabilities and V, or of V and the turned probabilities; the value of the softmax.
std::optional<ValueId> match_last(const Rewriter& rewriter, const Node& node, Pattern& found) {
  if (node.domain != "tenon" || node.op_type != "MatMul") return std::nullopt;
  const MatMulForm form = read_matmul_form(node);
  if (!form.is_bare() || form.alpha != 1.0F) return std::nullopt;
  const auto is_softmax = [&](ValueId id) {
    return rewriter.made_by(id, "Softmax") != nullptr || rewriter.made_by(id, "GuardedSoftmax", "tenon") != nullptr;
  };
  if (!form.trans_b && is_softmax(node.inputs[0])) {
    found.v = node.inputs[1];
    return node.inputs[0];
  }
  found.y_turned = found.v_turned = true;
  found.v = node.inputs[0];
  if (form.trans_b) return is_softmax(node.inputs[1]) ? std::optional(node.inputs[1]) : std::nullopt;
  const Node* const turn = rewriter.made_by(node.inputs[1], "Transpose");
  if (turn == nullptr || !rewriter.read_once(node.inputs[1]) || !known_floats(rewriter, turn->inputs[0]) ||
      !swaps_last_two(*turn, rewriter.value(turn->inputs[0]).shape().rank()) || !is_softmax(turn->inputs[0]))
    return std::nullopt;
  return turn->inputs[0];
}

std::optional<Pattern> match_pattern(const Rewriter& rewriter, const Node& node) {
  Pattern found;
  const std::optional<ValueId> probabilities = match_last(rewriter, node, found);
  if (!probabilities || !rewriter.read_once(*probabilities) || !known_floats(rewriter, *probabilities))
    return std::nullopt;
  const Node& softmax = *rewriter.producer(*probabilities);
  found.guarded = softmax.op_type == "GuardedSoftmax";
  const int rank = rewriter.value(*probabilities).shape().rank();
  const Result<int> axis = read_softmax_axis(softmax, rank);
  if (!axis.ok() || *axis != rank - 1) return std::nullopt;
  ValueId scores = softmax.inputs[0];
  const auto is_product = [&](ValueId id) { return rewriter.made_by(id, "MatMul", "tenon") != nullptr; };
  const auto is_scaled = [&](ValueId id) {
    const Node* const mul = rewriter.made_by(id, "Mul");
    return mul != nullptr && std::any_of(mul->inputs.begin(), mul->inputs.end(), is_product);
  };
  if (const Node* const add = rewriter.made_by(scores, "Add")) {
    auto parts = split_operands(*add, [&](ValueId a, ValueId) { return is_product(a) || is_scaled(a); });
    if (!parts || !rewriter.read_once(scores)) return std::nullopt;
    std::tie(scores, found.mask) = *parts;
  }
  if (const Node* const mul = rewriter.made_by(scores, "Mul")) {
    auto parts = split_operands(*mul, [&](ValueId a, ValueId) { return is_product(a); });
    if (!parts || !rewriter.read_once(scores)) return std::nullopt;
    std::tie(scores, found.factor) = *parts;
  }
  const Node* const product = rewriter.made_by(scores, "MatMul", "tenon");
  if (product == nullptr || !rewriter.read_once(scores) || !known_floats(rewriter, scores) ||
      rewriter.value(scores).shape() != rewriter.value(*probabilities).shape())
    return std::nullopt;
  MatMulForm form = read_matmul_form(*product);
  if (form.activated) {
    const std::optional<float> cap = rewriter.scalar(found.factor);
    const Result<Epilogue> epilogue = read_epilogue(*product);
    if (!cap || !(*cap > 0) || !epilogue.ok() || epilogue->activation != Activation::kTanh) return std::nullopt;
    found.softcap = *cap;
    found.factor = kNoValue;
    form.activated = false;
  }
  if (!form.is_bare()) return std::nullopt;
  found.scale = found.softcap > 0 ? form.alpha * found.softcap : form.alpha;
  found.q = product->inputs[0];
  found.k = product->inputs[1];
  found.k_turned = !form.trans_b;
  return found;
}

// Q [batch..., H, T, D], K and V likewise, as [B, H, ..., ...].
struct Sizes {
  Shape leading;  // batch..., H
  int64_t batch = 1, heads = 1, queries = 0, keys = 0, depth = 0, value_depth = 0;
};

std::optional<Sizes> sizes_of(const Rewriter& rewriter, const Pattern& pattern) {
  for (ValueId id : {pattern.q, pattern.k, pattern.v})
    if (!known_floats(rewriter, id)) return std::nullopt;
  const Shape q = rewriter.value(pattern.q).shape();
  Shape k = rewriter.value(pattern.k).shape(), v = rewriter.value(pattern.v).shape();
  const int rank = q.rank();
  if (rank < 3 || k.rank() != rank || v.rank() != rank || q.element_count() == 0) return std::nullopt;
  if (pattern.k_turned) std::swap(k[rank - 2], k[rank - 1]);
  if (pattern.v_turned) std::swap(v[rank - 2], v[rank - 1]);
  Sizes sizes;
  for (int i = 0; i < rank - 2; ++i) {
    if (q[i] != k[i] || q[i] != v[i]) return std::nullopt;
    sizes.leading.push_back(q[i]);
    if (i < rank - 3) sizes.batch *= q[i];
  }
  sizes.heads = q[rank - 3];
  sizes.queries = q[rank - 2], sizes.keys = k[rank - 2];
  sizes.depth = q[rank - 1], sizes.value_depth = v[rank - 1];
  if (k[rank - 1] != sizes.depth || v[rank - 2] != sizes.keys || sizes.keys < 1 || sizes.value_depth < 1 ||
      std::max(sizes.depth, sizes.value_depth) > kMostDepth)
    return std::nullopt;
  return sizes;
}

// The shape of a value that broadcasts to [leading..., T, S], as one that broadcasts to [B, H, T, S]; nullopt where
// there is none.
std::optional<Shape> folded_shape(const Rewriter& rewriter, ValueId id, const Sizes& sizes) {
  if (!known_floats(rewriter, id)) return std::nullopt;
  const Shape shape = rewriter.value(id).shape();
  const int rank = sizes.leading.rank() + 2, missing = rank - shape.rank();
  if (missing < 0) return std::nullopt;
  const auto dim = [&](int i) { return i < missing ? 1 : shape[i - missing]; };
  bool repeats = true, whole = true;
  for (int i = 0; i < rank - 3; ++i) {
    repeats = repeats && dim(i) == 1;
    whole = whole && dim(i) == sizes.leading[i];
  }
  const auto fits = [](int64_t size, int64_t wanted) { return size == 1 || size == wanted; };
  const Shape folded{repeats ? 1 : sizes.batch, dim(rank - 3), dim(rank - 2), dim(rank - 1)};
  if ((!repeats && !whole) || !fits(folded[1], sizes.heads) || !fits(folded[2], sizes.queries) ||
      !fits(folded[3], sizes.keys))
    return std::nullopt;
  return folded;
}

// Adds nodes before node `here`.
class Maker {
 public:
  Maker(Rewriter& rewriter, NodeId here) : rewriter_(rewriter), here_(here) {}

  ValueId value_like(ValueId id, const char* suffix, const Shape& shape) {
    Value value = rewriter_.value(id);
    value.name += suffix;
    value.set_shape(shape);
    return rewriter_.add_value(std::move(value));
  }
  ValueId reshaped(ValueId id, const Shape& shape) {
    if (rewriter_.value(id).shape() == shape) return id;
    const ValueId made = value_like(id, ":heads", shape);
    rewriter_.insert_before(here_, reshape(id, shape, made));
    return made;
  }
  Node reshape(ValueId from, const Shape& shape, ValueId to) {
    const std::string name = rewriter_.value(to).name;
    return make_node("Reshape", 13, name,
                     {from, rewriter_.add_constant(name + ":shape", make_int64_constant(shape.dims()))}, {to});
  }
  // The last two dimensions change places: as part of the Transpose that made the value where there is one.
  ValueId turned(ValueId id) {
    Shape shape = rewriter_.value(id).shape();
    const int rank = shape.rank();
    std::vector<int64_t> perm(rank);
    ValueId from = id;
    for (int i = 0; i < rank; ++i) perm[i] = i;
    if (const Node* const made = rewriter_.made_by(id, "Transpose"))
      if (Result<std::vector<int64_t>> own = read_perm(*made, rank); own.ok())
        perm = *std::move(own), from = made->inputs[0];
    std::swap(perm[rank - 2], perm[rank - 1]);
    if (std::is_sorted(perm.begin(), perm.end())) return from;
    std::swap(shape[rank - 2], shape[rank - 1]);
    const ValueId made = value_like(id, ":turned", shape);
    Node transpose = make_node("Transpose", 13, rewriter_.value(made).name, {from}, {made});
    transpose.set_ints("perm", std::move(perm));
    rewriter_.insert_before(here_, std::move(transpose));
    return made;
  }
  ValueId scaled(ValueId id, ValueId factor) {
    const ValueId made = value_like(id, ":scaled", rewriter_.value(id).shape());
    rewriter_.insert_before(here_, make_node("Mul", 14, rewriter_.value(made).name, {id, factor}, {made}));
    return made;
  }

 private:
  Rewriter& rewriter_;
  NodeId here_;
};

Status attention_of_heads(Graph& graph, bool capped) {
  const auto is_softmax = [](const Node& node) {
    return node.op_type == "Softmax" || node.op_type == "GuardedSoftmax";
  };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_softmax)) return {};
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const std::optional<Pattern> pattern = match_pattern(rewriter, rewriter.node(i));
    const std::optional<Sizes> sizes = pattern ? sizes_of(rewriter, *pattern) : std::nullopt;
    if (!sizes || !known_floats(rewriter, rewriter.node(i).outputs[0]) || (pattern->softcap > 0) != capped) continue;
    const bool is_bare = pattern->mask == kNoValue && pattern->factor == kNoValue && !pattern->y_turned;
    if (is_bare && sizes->queries * sizes->keys < kFewScores) continue;
    std::optional<Shape> mask, factor;
    if (pattern->mask != kNoValue) {
      mask = folded_shape(rewriter, pattern->mask, *sizes);
      if (!mask) continue;
    }
    if (pattern->factor != kNoValue) {
      factor = folded_shape(rewriter, pattern->factor, *sizes);
      if (!factor || (*factor)[2] != 1 || (*factor)[3] != 1) continue;
    }
    const ValueId y = rewriter.node(i).outputs[0];
    Maker maker(rewriter, i);
    const auto heads = [&](ValueId id, int64_t rows, int64_t columns) {
      return maker.reshaped(id, Shape{sizes->batch, sizes->heads, rows, columns});
    };
    ValueId q = heads(pattern->q, sizes->queries, sizes->depth);
    if (factor) q = maker.scaled(q, maker.reshaped(pattern->factor, *factor));
    const ValueId k = heads(pattern->k_turned ? maker.turned(pattern->k) : pattern->k, sizes->keys, sizes->depth);
    const ValueId v = heads(pattern->v_turned ? maker.turned(pattern->v) : pattern->v, sizes->keys, sizes->value_depth);
    Node fused = make_internal("Attention", rewriter.node(i).name, {q, k, v}, {y});
    if (mask) fused.inputs.push_back(maker.reshaped(pattern->mask, *mask));
    write_attention(sizes->heads, pattern->scale, pattern->guarded, fused, pattern->softcap);
    const Shape wanted = rewriter.value(y).shape();
    const Shape made{sizes->batch, sizes->heads, sizes->queries, sizes->value_depth};
    if (!pattern->y_turned && wanted == made) {
      rewriter.replace(i, std::move(fused));
      continue;
    }
    const ValueId whole = maker.value_like(y, ":heads", made);
    fused.outputs = {whole};
    rewriter.insert_before(i, std::move(fused));
    if (!pattern->y_turned) {
      rewriter.replace(i, maker.reshape(whole, wanted, y));
      continue;
    }
    const Shape turned{made[0], made[1], made[3], made[2]};
    const bool is_last = wanted == turned;
    const ValueId columns = is_last ? y : maker.value_like(y, ":turned", turned);
    Node transpose = make_node("Transpose", 13, rewriter.value(columns).name, {whole}, {columns});
    transpose.set_ints("perm", {0, 1, 3, 2});
    if (!is_last) {
      rewriter.insert_before(i, std::move(transpose));
      transpose = maker.reshape(columns, wanted, y);
    }
    rewriter.replace(i, std::move(transpose));
  }
  rewriter.finish();
  return {};
}

}  // namespace

Status pass_attention_heads(Graph& graph, const PassOptions&) { return attention_of_heads(graph, false); }
Status pass_capped_attention(Graph& graph, const PassOptions&) { return attention_of_heads(graph, true); }

}  // namespace tenon
