// The operators of docs/reference/internal-operators.md.
#include <utility>

#include "base/status.h"
#include "ops/conv.h"
#include "ops/reorder.h"
#include "ops/shape_inference_context.h"

namespace tenon::infer {
namespace {

Status infer_internal_conv(Context& c) {
  TENON_TRY(infer_conv(c));
  const Value* y = c.has_output(0) ? &c.graph().value(c.node().outputs[0]) : nullptr;
  return c.ranked(3) && y != nullptr && y->has_rank ? check_residual(c.dims(3), y->dims) : Status();
}

Status infer_quantized_conv(Context& c) {
  TENON_TRY(infer_conv(c));
  const Value* y = c.has_output(0) ? &c.graph().value(c.node().outputs[0]) : nullptr;
  return c.ranked(9) && y != nullptr && y->has_rank ? check_residual(c.dims(9), y->dims) : Status();
}

Status infer_quantized_softmax(Context& c) {
  TENON_TRY(c.copy(0));
  c.set_type(0, c.has(4) ? c.type(4) : DataType::kUint8);
  return {};
}

Status infer_lookup_bytes(Context& c) {
  TENON_TRY(c.copy(0));
  c.set_type(0, c.type(1));
  return {};
}

Status infer_activation(Context& c) { return c.copy(0); }

// How the spatial dimensions are split is not the node's to say.
Status infer_reorder(Context& c) {
  TENON_TRY_ASSIGN(const ReorderDesc desc, read_reorder(c.node()));
  if (!desc.channels_last) return c.copy(0);
  c.set_type(0, c.type(0));
  return {};
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
    {"Activation", &infer_activation},
    {"Conv", &infer_internal_conv},
    {"ConvTranspose", &infer_internal_conv},
    {"LookupBytes", &infer_lookup_bytes},
    {"LookupOrDefault", &infer_lookup},
    {"QuantizedConv", &infer_quantized_conv},
    {"QuantizedSoftmax", &infer_quantized_softmax},
    {"Reorder", &infer_reorder},
};

}  // namespace

std::span<const Row> internal_rows() { return kRows; }

}  // namespace tenon::infer
