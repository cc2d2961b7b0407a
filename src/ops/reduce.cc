#include "ops/reduce.h"

#include <utility>

#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

// 1 alone keeps the reduced axes, as the standard's shape inference has it.
bool keeps_dims(const Attributes& attributes) { return attributes.integer("keepdims") == 1; }

}  // namespace

ReduceDesc read_reduce(const Node& node) {
  const Attributes attributes(node);
  ReduceDesc desc{.keepdims = keeps_dims(attributes), .noop_with_empty_axes = attributes.flag("noop_with_empty_axes")};
  const std::span<const int64_t> axes = attributes.integers("axes");
  desc.axes.assign(axes.begin(), axes.end());
  return desc;
}

std::optional<ReduceDesc> read_reduce(const Node& node, bool has_input, const ConstantRef& input) {
  ReduceDesc desc = read_reduce(node);
  if (!has_input) return desc;
  if (input == nullptr || input->type != DataType::kInt64) return std::nullopt;
  const std::span<const int64_t> axes = input->as<int64_t>();
  desc.axes.assign(axes.begin(), axes.end());
  return desc;
}

Result<AxisSet> reduced_axes(std::span<const int64_t> axes, bool noop_with_empty_axes, int rank) {
  TENON_TRY_ASSIGN(AxisSet reduced, axis_set(axes, rank));
  if (axes.empty() && !noop_with_empty_axes)
    for (int d = 0; d < rank; ++d) reduced.set(d);
  return reduced;
}

Shape reduced_shape(const Shape& x, const AxisSet& reduced, bool keepdims) {
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) {
    const bool gone = reduced.test(d);
    if (!gone || keepdims) shape.push_back(gone ? 1 : x[d]);
  }
  return shape;
}

Result<ArgReduceDesc> read_arg_reduce(const Node& node, const Shape& x) {
  const Attributes attributes(node);
  ArgReduceDesc desc{.largest = node.op_type == "ArgMax",
                     .keepdims = keeps_dims(attributes),
                     .select_last_index = attributes.flag("select_last_index")};
  TENON_TRY_ASSIGN(desc.axis, normalized_axis(attributes.integer("axis"), x.rank()));
  desc.outer = span_product(x, 0, desc.axis);
  desc.length = x[desc.axis];
  desc.inner = span_product(x, desc.axis + 1, x.rank());
  TENON_INVALID_IF(desc.length == 0 && desc.outer * desc.inner != 0,
                   "{} over axis {} of {} has nothing to choose from.", node.op_type, desc.axis, x.to_string());
  desc.output = reduced_shape(x, AxisSet().set(desc.axis), desc.keepdims);
  return desc;
}

namespace infer {
namespace {

Dims reduced_dims(const Dims& x, const AxisSet& reduced, bool keepdims) {
  Dims dims;
  for (size_t d = 0; d < x.size(); ++d)
    if (!reduced.test(d) || keepdims) dims.push_back(reduced.test(d) ? number(1) : x[d]);
  return dims;
}

Status infer_reduce(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  ReduceDesc desc = read_reduce(c.node());
  if (c.has(1)) {
    std::optional<std::vector<int64_t>> axes = c.values(1);
    if (!axes) {
      // The number of axes may be known where they are not.
      if (desc.keepdims) return c.set_dims(0, Dims(c.dims(0).size()));
      const Dim count = c.ranked(1) && c.rank(1) == 1 ? c.dims(1)[0] : Dim{};
      if (count.value < 1 || count.value > c.rank(0)) return {};
      return c.set_dims(0, Dims(c.rank(0) - count.value));
    }
    desc.axes = std::move(*axes);
  }
  TENON_TRY_ASSIGN(const AxisSet reduced, reduced_axes(desc.axes, desc.noop_with_empty_axes, c.rank(0)));
  return c.set_dims(0, reduced_dims(c.dims(0), reduced, desc.keepdims));
}

Status infer_arg_reduce(Context& c) {
  c.set_type(0, DataType::kInt64);
  if (!c.ranked(0)) return {};
  const Attributes attributes(c.node());
  TENON_TRY_ASSIGN(const int axis, normalized_axis(attributes.integer("axis"), c.rank(0)));
  return c.set_dims(0, reduced_dims(c.dims(0), AxisSet().set(axis), keeps_dims(attributes)));
}

// Det: a number for each matrix.
Status infer_det(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  Dims out = c.dims(0);
  TENON_INVALID_IF(out.size() < 2 || certainly_differ(out[out.size() - 2], out.back()),
                   "Det needs square matrices, not {}.", text(out));
  out.resize(out.size() - 2);
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {
    {"ArgMax", &infer_arg_reduce},      {"ArgMin", &infer_arg_reduce}, {"Det", &infer_det},
    {"ReduceL1", &infer_reduce},        {"ReduceL2", &infer_reduce},   {"ReduceLogSum", &infer_reduce},
    {"ReduceLogSumExp", &infer_reduce}, {"ReduceMax", &infer_reduce},  {"ReduceMean", &infer_reduce},
    {"ReduceMin", &infer_reduce},       {"ReduceProd", &infer_reduce}, {"ReduceSum", &infer_reduce},
    {"ReduceSumSquare", &infer_reduce},
};

}  // namespace

std::span<const Row> reduce_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
