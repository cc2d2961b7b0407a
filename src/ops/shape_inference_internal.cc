// The operators of docs/internal-operators.md.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "ops/shape_inference_math.h"
#include "ops/shape_inference_window.h"

namespace tenon::infer {
namespace {

const Value* output(Context& c) { return c.has_output(0) ? &c.graph().value(c.node().outputs[0]) : nullptr; }

// The residual has the shape of Y: it never broadcasts.
Status check_residual(Context& c, size_t input) {
  if (!c.ranked(input) || !output(c) || !output(c)->has_rank) return {};
  const Dims &residual = c.dims(input), &y = output(c)->dims;
  bool fits = residual.size() == y.size();
  for (size_t i = 0; fits && i < y.size(); ++i) fits = !certainly_differ(y[i], residual[i]);
  TENON_INVALID_IF(!fits, "The residual has shape {}, the result {}.", text(residual), text(y));
  return {};
}

Status infer_internal_conv(Context& c) {
  TENON_TRY(infer_conv(c));
  return check_residual(c, 3);
}

Status infer_internal_conv_transpose(Context& c) {
  TENON_TRY(infer_conv_transpose(c));
  return check_residual(c, 3);
}

Status infer_internal_matmul(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || !c.ranked(1)) return {};
  TENON_INVALID_IF(c.rank(0) < 2 || c.rank(1) < 2, "A {} and B {} need rank 2 or more.", text(c.dims(0)),
                   text(c.dims(1)));
  Dims b = c.dims(1);
  if (c.node().int_or("trans_b", 0) != 0) std::swap(b[b.size() - 1], b[b.size() - 2]);
  TENON_TRY_ASSIGN(Dims dims, matmul_dims(c.dims(0), b));
  if (c.ranked(2)) {
    TENON_TRY(c.require_rank(2, 1, "bias"));
    const Dim& length = c.dims(2)[0];
    TENON_INVALID_IF(length.known() && dims.back().known() && length.value != dims.back().value,
                     "The bias has {} elements for {} columns.", length.value, dims.back().value);
  }
  TENON_TRY(c.set_dims(0, std::move(dims)));
  return check_residual(c, 3);
}

Status infer_activation(Context& c) { return c.copy(0); }

Status infer_layer_norm(Context& c) {
  TENON_TRY(c.copy(0, 0));
  TENON_TRY(c.copy(0, 1));
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(int64_t axis, c.axis_attribute(-1, c.rank(0)));
  TENON_TRY(check_residual(c, 1));
  TENON_TRY_ASSIGN(Dim wanted, product(std::span<const Dim>(c.dims(0)).subspan(static_cast<size_t>(axis))));
  for (size_t i = 2; i < 4; ++i) {
    if (!c.ranked(i)) continue;
    TENON_TRY_ASSIGN(Dim length, product(c.dims(i)));
    TENON_INVALID_IF(length.known() && wanted.known() && length.value != wanted.value,
                     "Input {} has {} elements for {} normalised ones.", i, length.value, wanted.value);
  }
  return {};
}

Status check_mask(Context& c, size_t input, const Dims& scores) {
  if (!c.ranked(input)) return {};
  TENON_TRY_ASSIGN(Dims both, broadcast(scores, c.dims(input)));
  bool fits = both.size() == scores.size();
  for (size_t i = 0; fits && i < both.size(); ++i) fits = !certainly_differ(scores[i], both[i]);
  TENON_INVALID_IF(!fits, "The mask {} does not broadcast to the scores {}.", text(c.dims(input)), text(scores));
  return {};
}

Result<int64_t> heads_of(const Context& c) {
  int64_t heads = c.node().int_or("num_heads", 0);
  TENON_INVALID_IF(heads < 1, "Attribute \"num_heads\" ({}) has to be positive.", heads);
  return heads;
}

Status infer_attention(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY_ASSIGN(int64_t heads, heads_of(c));
  for (size_t i = 0; i < 3; ++i) {
    TENON_TRY(c.require_rank(i, 3, "Q, K or V"));
    if (!c.ranked(i)) return {};
    const Dim& width = c.dims(i)[2];
    TENON_INVALID_IF(width.known() && width.value % heads != 0, "Input {} {} does not divide into {} heads.", i,
                     text(c.dims(i)), heads);
  }
  const Dims &q = c.dims(0), &k = c.dims(1), &v = c.dims(2);
  TENON_INVALID_IF(certainly_differ(q[0], k[0]) || certainly_differ(q[0], v[0]) || certainly_differ(k[1], v[1]) ||
                       certainly_differ(q[2], k[2]),
                   "Q {}, K {} and V {} do not fit together.", text(q), text(k), text(v));
  TENON_TRY(check_mask(c, 3, {q[0], number(heads), q[1], k[1]}));
  return c.set_dims(0, {q[0], q[1], v[2]});
}

Status infer_packed_attention(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY_ASSIGN(int64_t heads, heads_of(c));
  TENON_TRY(c.require_rank(0, 3, "QKV"));
  if (!c.ranked(0)) return {};
  Dims out = c.dims(0);
  if (out[2].known()) {
    TENON_INVALID_IF(out[2].value % 3 != 0 || out[2].value / 3 % heads != 0,
                     "QKV {} does not divide into 3 times {} heads.", text(c.dims(0)), heads);
    out[2].value /= 3;
  } else {
    out[2] = Dim{};
  }
  TENON_TRY(check_mask(c, 1, {out[0], number(heads), out[1], out[1]}));
  return c.set_dims(0, std::move(out));
}

Status infer_lookup(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY(c.require_rank(0, 2, "table"));
  if (!c.ranked(0) || !c.ranked(1)) return {};
  TENON_INVALID_IF(c.dims(0)[0].value == 0, "The table {} has no default row.", text(c.dims(0)));
  Dims out = c.dims(1);
  out.push_back(c.dims(0)[1]);
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {
    {"Activation", &infer_activation},  {"Attention", &infer_attention},
    {"Conv", &infer_internal_conv},     {"ConvTranspose", &infer_internal_conv_transpose},
    {"LayerNorm", &infer_layer_norm},   {"LookupOrDefault", &infer_lookup},
    {"MatMul", &infer_internal_matmul}, {"PackedAttention", &infer_packed_attention},
    {"Reorder", &infer_activation},
};

}  // namespace

std::span<const Row> internal_rows() { return kRows; }

}  // namespace tenon::infer
