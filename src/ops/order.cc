#include "ops/order.h"

#include <utility>
#include <vector>

#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

Result<int> read_top_k_axis(const Node& node, int rank) {
  TENON_INVALID_IF(rank < 1, "X is a scalar; TopK needs rank 1 or more.");
  return normalized_axis(Attributes(node).integer("axis"), rank);
}

}  // namespace

Result<TopKDesc> read_top_k(const Node& node, const Shape& x) {
  TENON_TRY_ASSIGN(const int axis, read_top_k_axis(node, x.rank()));
  const Attributes attributes(node);
  TopKDesc desc{.span = axis_span(x, axis), .k = attributes.find_integer("k"), .largest = attributes.flag("largest")};
  if (desc.k) TENON_TRY(check_top_k(*desc.k, desc.span.length));
  return desc;
}

Status check_top_k(int64_t k, int64_t length) {
  TENON_INVALID_IF(k < 0 || k > length, "TopK asks for {} of {} elements.", k, length);
  return {};
}

CumulativeDesc read_cumulative(const Node& node) {
  const Attributes attributes(node);
  return {.product = node.op_type == "CumProd",
          .exclusive = attributes.flag("exclusive"),
          .reverse = attributes.flag("reverse")};
}

Result<ReverseSequenceDesc> read_reverse_sequence(const Node& node, const Shape& x, const Shape& lengths) {
  const Attributes attributes(node);
  const int64_t batch_axis = attributes.integer("batch_axis"), time_axis = attributes.integer("time_axis");
  TENON_INVALID_IF(x.rank() < 2 || batch_axis + time_axis != 1 || batch_axis < 0 || batch_axis > 1,
                   "ReverseSequence has batch axis {} and time axis {} for {}.", batch_axis, time_axis, x.to_string());
  ReverseSequenceDesc desc{.batch_axis = static_cast<int>(batch_axis), .time_axis = static_cast<int>(time_axis)};
  desc.batch = x[desc.batch_axis];
  desc.time = x[desc.time_axis];
  desc.inner = span_product(x, 2, x.rank());
  TENON_INVALID_IF(lengths != Shape{desc.batch}, "ReverseSequence has lengths of shape {} for a batch of {}.",
                   lengths.to_string(), desc.batch);
  return desc;
}

Result<NonMaxSuppressionDesc> read_non_max_suppression(const Node& node, const Shape& boxes, const Shape& scores) {
  const bool fits = boxes.rank() == 3 && boxes[2] == 4 && scores.rank() == 3 && scores[0] == boxes[0] &&
                    scores[2] == boxes[1] && boxes[1] <= INT32_MAX;
  TENON_INVALID_IF(!fits,
                   "NonMaxSuppression has boxes of shape {} and scores of {}; it needs [batch,boxes,4] and "
                   "[batch,classes,boxes].",
                   boxes.to_string(), scores.to_string());
  const int64_t form = Attributes(node).integer("center_point_box");
  TENON_INVALID_IF(form != 0 && form != 1, "Attribute \"center_point_box\" is {}; it has to be 0 or 1.", form);
  return NonMaxSuppressionDesc{.center_point = form == 1, .batch = boxes[0], .classes = scores[1], .boxes = boxes[1]};
}

namespace infer {
namespace {

Status infer_top_k(Context& c) {
  c.set_type(0, c.type(0));
  c.set_type(1, DataType::kInt64);
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(const int axis, read_top_k_axis(c.node(), c.rank(0)));
  Dims out = c.dims(0);
  Dim& dim = out[axis];
  std::optional<int64_t> k = Attributes(c.node()).find_integer("k");
  if (const std::optional<std::vector<int64_t>> input = c.values(1); input && input->size() == 1) k = (*input)[0];
  if (k) {
    TENON_INVALID_IF(*k < 0 || (dim.known() && *k > dim.value), "K ({}) is out of range for axis {} of {}.", *k, axis,
                     text(c.dims(0)));
    dim = number(*k);
  } else {
    dim = Dim{};
  }
  TENON_TRY(c.set_dims(1, out));
  return c.set_dims(0, std::move(out));
}

Status infer_non_max_suppression(Context& c) {
  c.set_type(0, DataType::kInt64);
  return c.set_dims(0, {Dim{}, number(3)});
}

constexpr Row kRows[] = {
    {"NonMaxSuppression", &infer_non_max_suppression},
    {"TopK", &infer_top_k},
};

}  // namespace

std::span<const Row> order_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
