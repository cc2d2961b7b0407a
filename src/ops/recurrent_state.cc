#include "ops/recurrent_state.h"

#include <cmath>

#include "base/status.h"
#include "ops/attributes.h"
#include "ops/axes.h"

namespace tenon {

Result<TensorScatterDesc> read_tensor_scatter(const Node& node, const InputShapes& shapes) {
  TENON_TRY(require_shapes(node, shapes, 2));
  const Attributes attributes(node);
  const Shape &cache = *shapes.find(0), &update = *shapes.find(1);
  TENON_TRY_ASSIGN(const int axis, normalized_axis(attributes.integer("axis"), cache.rank()));
  TENON_INVALID_IF(axis == 0, "TensorScatter has the axis 0, which is the batch.");
  bool fits = update.rank() == cache.rank();
  for (int d = 0; fits && d < cache.rank(); ++d) fits = d == axis ? update[d] <= cache[d] : update[d] == cache[d];
  TENON_INVALID_IF(!fits, "The update {} does not fit the cache {} along axis {}.", update.to_string(),
                   cache.to_string(), axis);
  TensorScatterDesc desc{.batch = cache[0],
                         .middle = span_product(cache, 1, axis),
                         .room = cache[axis],
                         .positions = update[axis],
                         .inner = span_product(cache, axis + 1, cache.rank())};
  const std::string_view mode = attributes.text("mode");
  TENON_INVALID_IF(mode != "linear" && mode != "circular", "TensorScatter has the mode \"{}\".", mode);
  desc.circular = mode == "circular";
  const Shape* first = shapes.find(2);
  TENON_INVALID_IF(first != nullptr && *first != Shape{desc.batch}, "The write indices {} are not one for each of {}.",
                   first->to_string(), desc.batch);
  return desc;
}

Result<CausalConvDesc> read_causal_conv(const Node& node, const InputShapes& shapes) {
  TENON_TRY(require_shapes(node, shapes, 2));
  const Shape &x = *shapes.find(0), &w = *shapes.find(1);
  TENON_INVALID_IF(x.rank() != 3 || w.rank() != 3 || w[0] != x[1] || w[1] != 1 || w[2] < 1,
                   "CausalConvWithState has X {} and weights {}.", x.to_string(), w.to_string());
  CausalConvDesc desc{.batch = x[0], .channels = x[1], .length = x[2], .taps = w[2]};
  const Shape *bias = shapes.find(2), *past = shapes.find(3);
  TENON_INVALID_IF(bias != nullptr && *bias != Shape{desc.channels}, "The bias {} is not one for each of {} channels.",
                   bias->to_string(), desc.channels);
  TENON_INVALID_IF(past != nullptr && *past != Shape({desc.batch, desc.channels, desc.taps - 1}),
                   "The state {} is not [{},{},{}].", past->to_string(), desc.batch, desc.channels, desc.taps - 1);
  const std::string_view activation = Attributes(node).text("activation");
  desc.silu = activation == "silu" || activation == "swish";
  TENON_INVALID_IF(!desc.silu && activation != "none", "CausalConvWithState has the activation \"{}\".", activation);
  return desc;
}

namespace {

Status read_gates(const InputShapes& shapes, LinearAttentionDesc& desc) {
  const Shape *decay = shapes.find(4), *beta = shapes.find(5);
  TENON_INVALID_IF((decay != nullptr) != desc.decays, "LinearAttention has a decay that its update rule {}.",
                   desc.decays ? "needs, and which is absent" : "does not have");
  TENON_INVALID_IF((beta != nullptr) != desc.corrects, "LinearAttention has a beta that its update rule {}.",
                   desc.corrects ? "needs, and which is absent" : "does not have");
  if (decay != nullptr) {
    const bool by_head = *decay == Shape{desc.batch, desc.positions, desc.kv_heads};
    TENON_INVALID_IF(!by_head && *decay != Shape({desc.batch, desc.positions, desc.kv_heads * desc.depth}),
                     "The decay {} fits neither {} heads nor their {} elements.", decay->to_string(), desc.kv_heads,
                     desc.depth);
    desc.decay_width = by_head ? 1 : desc.depth;
  }
  if (beta != nullptr) {
    const bool by_head = *beta == Shape{desc.batch, desc.positions, desc.kv_heads};
    TENON_INVALID_IF(!by_head && *beta != Shape({desc.batch, desc.positions, 1}), "The beta {} does not fit {} heads.",
                     beta->to_string(), desc.kv_heads);
    desc.betas = by_head ? desc.kv_heads : 1;
  }
  return {};
}

}  // namespace

Result<LinearAttentionDesc> read_linear_attention(const Node& node, const InputShapes& shapes) {
  TENON_TRY(require_shapes(node, shapes, 3));
  const Attributes attributes(node);
  const Shape &q = *shapes.find(0), &k = *shapes.find(1), &v = *shapes.find(2);
  LinearAttentionDesc desc{.heads = attributes.find_integer("q_num_heads").value_or(0),
                           .kv_heads = attributes.find_integer("kv_num_heads").value_or(0)};
  TENON_INVALID_IF(desc.heads < 1 || desc.kv_heads < 1 || desc.heads % desc.kv_heads != 0,
                   "LinearAttention has {} heads of queries and {} of keys.", desc.heads, desc.kv_heads);
  bool fits = q.rank() == 3 && k.rank() == 3 && v.rank() == 3 && q[0] == k[0] && q[0] == v[0] && q[1] == k[1] &&
              q[1] == v[1] && q[2] % desc.heads == 0 && v[2] % desc.kv_heads == 0;
  fits = fits && k[2] == q[2] / desc.heads * desc.kv_heads;
  TENON_INVALID_IF(!fits, "Q {}, K {} and V {} do not fit together with {} and {} heads.", q.to_string(), k.to_string(),
                   v.to_string(), desc.heads, desc.kv_heads);
  desc.batch = q[0], desc.positions = q[1];
  desc.depth = q[2] / desc.heads, desc.value_depth = v[2] / desc.kv_heads;
  const std::string_view rule = attributes.text("update_rule");
  desc.decays = rule == "gated" || rule == "gated_delta";
  desc.corrects = rule == "delta" || rule == "gated_delta";
  TENON_INVALID_IF(!desc.decays && !desc.corrects && rule != "linear", "LinearAttention has the update rule \"{}\".",
                   rule);
  desc.scale = attributes.number("scale");
  if (desc.scale == 0) desc.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(desc.depth)));
  const Shape* past = shapes.find(3);
  TENON_INVALID_IF(past != nullptr && *past != Shape({desc.batch, desc.kv_heads, desc.depth, desc.value_depth}),
                   "The state {} is not [{},{},{},{}].", past->to_string(), desc.batch, desc.kv_heads, desc.depth,
                   desc.value_depth);
  TENON_TRY(read_gates(shapes, desc));
  return desc;
}

namespace infer {
namespace {

Status infer_tensor_scatter(Context& c) { return c.copy(0); }

Status infer_causal_conv(Context& c) {
  TENON_TRY(c.copy(0));
  if (c.has(3)) return c.copy(3, 1);
  c.set_type(1, c.type(0));
  if (!c.ranked(0) || c.rank(0) != 3 || !c.ranked(1) || c.rank(1) != 3) return {};
  const Dim taps = c.dims(1)[2];
  return c.set_dims(1, {c.dims(0)[0], c.dims(0)[1], taps.known() && taps.value > 0 ? number(taps.value - 1) : Dim{}});
}

Status infer_linear_attention(Context& c) {
  c.set_type(0, c.type(0));
  c.set_type(1, c.has(3) ? c.type(3) : c.type(0));
  const Attributes attributes(c.node());
  const int64_t heads = attributes.find_integer("q_num_heads").value_or(0),
                kv_heads = attributes.find_integer("kv_num_heads").value_or(0);
  TENON_INVALID_IF(heads < 1 || kv_heads < 1 || heads % kv_heads != 0,
                   "LinearAttention has {} heads of queries and {} of keys.", heads, kv_heads);
  if (!c.ranked(0) || c.rank(0) != 3 || !c.ranked(2) || c.rank(2) != 3) return {};
  const Dim &q = c.dims(0)[2], &v = c.dims(2)[2];
  const Dim depth = q.known() ? number(q.value / heads) : Dim{};
  const Dim width = v.known() ? number(v.value / kv_heads) : Dim{};
  TENON_TRY_ASSIGN(const Dim row, width.known() ? product(std::array{number(heads), width}) : Result<Dim>(Dim{}));
  TENON_TRY(c.set_dims(0, {c.dims(0)[0], c.dims(0)[1], row}));
  return c.set_dims(1, {c.dims(0)[0], number(kv_heads), depth, width});
}

constexpr Row kRows[] = {{"CausalConvWithState", &infer_causal_conv},
                         {"LinearAttention", &infer_linear_attention},
                         {"TensorScatter", &infer_tensor_scatter}};

}  // namespace

std::span<const Row> recurrent_state_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
