#include "ops/collective.h"

#include <utility>

#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

// AllReduce has it from give_ranks() alone.
constexpr const char* kGroupSize = "group_size";

}  // namespace

bool is_collective(const Node& node) {
  return node.domain == kContribDomain &&
         (node.op_type == "AllReduce" || node.op_type == "AllGather" || node.op_type == "AllToAll");
}

Result<CollectiveDesc> read_collective(const Node& node) {
  TENON_INVALID_IF(node.inputs.size() != node.outputs.size(), "{} has {} inputs and {} outputs.", node.op_type,
                   node.inputs.size(), node.outputs.size());
  CollectiveDesc desc;
  if (node.op_type == "AllReduce") {
    desc.group_size = Attributes(node).find_integer(kGroupSize).value_or(0);
    return desc;
  }
  desc.group_size = Attributes(node).integer(kGroupSize);
  TENON_INVALID_IF(desc.group_size < 1, "Attribute \"group_size\" ({}) of {} has to be positive.", desc.group_size,
                   node.op_type);
  desc.kind = CollectiveDesc::Kind::kAllToAll;
  if (node.op_type == "AllToAll") return desc;
  desc.kind = CollectiveDesc::Kind::kAllGather;
  desc.axis = Attributes(node).integer("axis");
  return desc;
}

Status give_ranks(Graph& graph, int64_t ranks) {
  for (Node& node : graph.nodes) {
    if (!is_collective(node)) continue;
    TENON_TRY_ASSIGN(const CollectiveDesc desc, read_collective(node));
    TENON_INVALID_IF(desc.group_size != 0 && desc.group_size != ranks, "{} has group_size {}, and there {} {} rank{}.",
                     node.label(graph), desc.group_size, ranks == 1 ? "is" : "are", ranks, ranks == 1 ? "" : "s");
    if (desc.kind == CollectiveDesc::Kind::kAllReduce) node.set_int(kGroupSize, ranks);
  }
  return {};
}

Result<GatherParts> read_gathered(const CollectiveDesc& desc, const Shape& input) {
  TENON_INVALID_IF(input.rank() == 0, "AllGather takes no scalars.");
  TENON_TRY_ASSIGN(const int axis, normalized_axis(desc.axis, input.rank()));
  GatherParts parts{.axis = axis, .output = input};
  int64_t& length = parts.output[axis];
  TENON_INVALID_IF(__builtin_mul_overflow(input[axis], desc.group_size, &length),
                   "AllGather of {} by {} ranks is larger than any tensor.", input.to_string(), desc.group_size);
  return parts;
}

namespace infer {
namespace {

Status infer_same(Context& c) {
  TENON_TRY(read_collective(c.node()).status());
  for (size_t i = 0; i < c.node().outputs.size(); ++i)
    if (c.has(i) && c.has_output(i)) TENON_TRY(c.copy(i, i));
  return {};
}

Status infer_gathered(Context& c) {
  TENON_TRY_ASSIGN(const CollectiveDesc desc, read_collective(c.node()));
  for (size_t i = 0; i < c.node().outputs.size(); ++i) {
    if (!c.has(i) || !c.has_output(i)) continue;
    c.set_type(i, c.type(i));
    if (!c.ranked(i)) continue;
    TENON_INVALID_IF(c.rank(i) == 0, "AllGather takes no scalars.");
    TENON_TRY_ASSIGN(const int axis, normalized_axis(desc.axis, c.rank(i)));
    Dims dims = c.dims(i);
    Dim& length = dims[axis];
    if (!length.known()) {
      if (desc.group_size != 1) length = Dim{};
    } else {
      TENON_INVALID_IF(__builtin_mul_overflow(length.value, desc.group_size, &length.value),
                       "AllGather of {} by {} ranks is larger than any tensor.", text(c.dims(i)), desc.group_size);
    }
    TENON_TRY(c.set_dims(i, std::move(dims)));
  }
  return {};
}

}  // namespace

Status infer_collective(Context& c) { return c.node().op_type == "AllGather" ? infer_gathered(c) : infer_same(c); }

}  // namespace infer
}  // namespace tenon
