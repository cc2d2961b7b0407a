// The operators of docs/internal-operators.md.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "ops/conv.h"
#include "ops/shape_inference_context.h"

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

Status infer_activation(Context& c) { return c.copy(0); }

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
    {"Activation", &infer_activation},  {"Conv", &infer_internal_conv}, {"ConvTranspose", &infer_internal_conv},
    {"LookupOrDefault", &infer_lookup}, {"Reorder", &infer_activation},
};

}  // namespace

std::span<const Row> internal_rows() { return kRows; }

}  // namespace tenon::infer
