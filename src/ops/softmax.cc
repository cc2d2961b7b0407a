#include "ops/softmax.h"

#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

Result<int> read_softmax_axis(const Node& node, int rank) {
  if (rank == 0) return 0;
  return normalized_axis(Attributes(node).integer("axis"), rank);
}

Result<SoftmaxDesc> read_softmax(const Node& node, const Shape& x) {
  using Kind = SoftmaxDesc::Kind;
  const bool internal = node.domain == "tenon";
  SoftmaxDesc desc{.kind = node.op_type == "LogSoftmax" ? Kind::kLogSoftmax
                           : node.op_type == "Hardmax"  ? Kind::kHardmax
                                                        : Kind::kSoftmax,
                   .flat = !internal && node.since_version < 13,
                   .guarded = internal};
  TENON_TRY_ASSIGN(desc.axis, read_softmax_axis(node, x.rank()));
  if (x.rank() == 0) return desc;
  const int end = desc.flat ? x.rank() : desc.axis + 1;
  desc.outer = span_product(x, 0, desc.axis);
  desc.length = span_product(x, desc.axis, end);
  desc.inner = span_product(x, end, x.rank());
  return desc;
}

namespace infer {
namespace {

Status infer_softmax(Context& c) {
  if (c.ranked(0)) TENON_TRY(read_softmax_axis(c.node(), c.rank(0)).status());
  return c.copy(0);
}

constexpr Row kRows[] = {{"Hardmax", &infer_softmax}, {"LogSoftmax", &infer_softmax}, {"Softmax", &infer_softmax}};

}  // namespace

std::span<const Row> softmax_rows() { return kRows; }

std::span<const Row> internal_softmax_rows() {
  static constexpr Row kInternal[] = {{"GuardedSoftmax", &infer_softmax}};
  return kInternal;
}

}  // namespace infer
}  // namespace tenon
