#include "base/format.h"
#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/ops/collective/op.h"
#include "ops/axes.h"
#include "ops/collective.h"

namespace tenon::cuda {

namespace {

// The ranks' tensors come one after the other, each as [outer, inner]; they belong beside each other, [outer, ranks,
// inner].
Status gather_along(Lowering& to, const Node& node, TensorId x, TensorId y, int64_t ranks, int64_t outer,
                    int64_t inner) {
  const DataType type = to.program().tensor(x).type;
  TENON_TRY_ASSIGN(const TensorId parts, to.program().add_tensor(type, Shape{ranks, outer, inner}));
  to.program().add_op(std::make_unique<CollectiveOp>(node.name, CollectiveDesc::Kind::kAllGather, ranks, type,
                                                     outer * inner, x, parts));
  return to.add_generated(node, "gather ranks",
                          {.dims = {outer, ranks, inner},
                           .type = type,
                           .strides = {ranks * inner, inner, 1},
                           .leaves = {{.type = type, .strides = {inner, outer * inner, 1}}}},
                          {parts}, {}, y);
}

Status lower_one(Lowering& to, const Node& node, const CollectiveDesc& desc, ValueId input, ValueId output) {
  const int64_t ranks = desc.group_size;
  if (ranks == 1) {
    TENON_TRY_ASSIGN(const TensorId same, to.any(input));
    to.alias(output, same);
    return Status();
  }
  // Whatever their weights make of a graph, all ranks exchange the same elements.
  TENON_TRY_ASSIGN(const TensorId x, to.plain(input));
  TENON_TRY_ASSIGN(const TensorId y, to.make(output));
  const DeviceTensor tensor = to.program().tensor(x);
  TENON_TRY(nccl_type(tensor.type).status());
  const int64_t count = tensor.shape.element_count();
  if (count == 0) return Status();
  int64_t given = count;
  if (desc.kind == CollectiveDesc::Kind::kAllGather) {
    TENON_TRY_ASSIGN(const GatherParts parts, read_gathered(desc, tensor.shape));
    const AxisSpan span = axis_span(tensor.shape, parts.axis);
    if (span.outer > 1) return gather_along(to, node, x, y, ranks, span.outer, span.length * span.inner);
  } else if (desc.kind == CollectiveDesc::Kind::kAllToAll) {
    TENON_INVALID_IF(count % ranks != 0, "{} splits {} elements of {} among {} ranks.", to.label(node), count,
                     tensor.shape.to_string(), ranks);
    given = count / ranks;
  }
  to.program().add_op(std::make_unique<CollectiveOp>(node.name, desc.kind, ranks, tensor.type, given, x, y));
  return Status();
}

}  // namespace

Status lower_collective(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const CollectiveDesc desc, read_collective(node));
  TENON_UNSUPPORTED_IF(desc.group_size == 0, "Nothing says among how many ranks {} adds.", to.label(node));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    TENON_UNSUPPORTED_IF(node.inputs[i] == kNoValue || node.outputs[i] == kNoValue, "{} leaves a tensor out.",
                         to.label(node));
    TENON_TRY(lower_one(to, node, desc, node.inputs[i], node.outputs[i]));
  }
  return Status();
}

}  // namespace tenon::cuda
