#include "ops/gather.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "ops/attributes.h"
#include "ops/input_shapes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace infer {
namespace {

// x with `indices` in place of the axis.
Dims gathered(const Dims& x, const Dims& indices, int axis) {
  Dims out(x.begin(), x.begin() + axis);
  out.insert(out.end(), indices.begin(), indices.end());
  out.insert(out.end(), x.begin() + axis + 1, x.end());
  return out;
}

struct NdForm {
  int batch_rank = 0;
  int width = -1;  // -1: the length of a tuple is only known at run time
  Dims output;
};
Result<NdForm> nd_form(const Node& node, const Dims& x, const Dims& indices) {
  const bool scatters = node.op_type == "ScatterND";
  const auto rank = static_cast<int64_t>(x.size()), index_rank = static_cast<int64_t>(indices.size());
  const int64_t batch = scatters ? 0 : Attributes(node).integer("batch_dims");
  TENON_INVALID_IF(index_rank < 1 || batch < 0 || batch >= index_rank || batch > rank,
                   "Data {} and indices {} do not fit batch_dims {}.", text(x), text(indices), batch);
  for (int d = 0; d < batch; ++d)
    TENON_INVALID_IF(certainly_differ(x[d], indices[d]), "Data {} and indices {} differ in batch dimension {}.",
                     text(x), text(indices), d);
  const Dim& width = indices.back();
  if (!width.known()) return NdForm();
  TENON_INVALID_IF(width.value < (scatters ? 0 : 1) || width.value > rank - batch,
                   "Indices {} address {} dimensions of data {} after {} batch dimensions.", text(indices), width.value,
                   text(x), batch);
  NdForm form{.batch_rank = static_cast<int>(batch), .width = static_cast<int>(width.value), .output = {}};
  form.output.assign(indices.begin(), indices.end() - 1);
  form.output.insert(form.output.end(), x.begin() + batch + width.value, x.end());
  return form;
}

}  // namespace
}  // namespace infer

namespace {

Status check_rank(const Node& node, size_t rank) {
  TENON_UNSUPPORTED_IF(rank > Shape::kMaxRank, "{} makes rank {}; the limit is {}.", node.op_type, rank,
                       Shape::kMaxRank);
  return {};
}

}  // namespace

Result<int> read_gather_axis(const Node& node, int rank) {
  TENON_INVALID_IF(rank < 1, "The data is a scalar; gathering needs rank 1 or more.");
  // LookupOrDefault has rows and no attribute.
  return node.domain == "tenon" ? Result<int>(0) : normalized_axis(Attributes(node).integer("axis"), rank);
}

Result<GatherDesc> read_gather(const Node& node, const Shape& x, const Shape& indices) {
  TENON_TRY_ASSIGN(const int axis, read_gather_axis(node, x.rank()));
  const infer::Dims output = infer::gathered(infer::to_dims(x), infer::to_dims(indices), axis);
  TENON_TRY(check_rank(node, output.size()));
  return GatherDesc{.span = axis_span(x, axis), .count = indices.element_count(), .output = infer::to_shape(output)};
}

Result<int> read_elements_axis(const Node& node, const Shape& x, const Shape& indices) {
  TENON_TRY_ASSIGN(const int axis, normalized_axis(Attributes(node).integer("axis"), x.rank()));
  bool inside = indices.rank() == x.rank();
  for (int d = 0; inside && d < x.rank(); ++d) inside = d == axis || indices[d] <= x[d];
  TENON_INVALID_IF(!inside, "{} has indices {} for {} along axis {}.", node.op_type, indices.to_string(), x.to_string(),
                   axis);
  return axis;
}

Result<GatherNdDesc> read_gather_nd(const Node& node, const Shape& x, const Shape& indices) {
  TENON_TRY_ASSIGN(const infer::NdForm form, infer::nd_form(node, infer::to_dims(x), infer::to_dims(indices)));
  TENON_TRY(check_rank(node, form.output.size()));
  return GatherNdDesc{.batch_rank = form.batch_rank,
                      .width = form.width,
                      .batch = span_product(x, 0, form.batch_rank),
                      .tuples = span_product(indices, form.batch_rank, indices.rank() - 1),
                      .slice = span_product(x, form.batch_rank + form.width, x.rank()),
                      .output = infer::to_shape(form.output)};
}

namespace {

constexpr std::array<std::string_view, 5> kReductions = {"none", "add", "mul", "max", "min"};

}  // namespace

std::string_view scatter_reduction_name(ScatterReduction reduction) {
  return kReductions[static_cast<size_t>(reduction)];
}

Result<ScatterReduction> read_scatter_reduction(const Node& node) {
  if (node.op_type == "Scatter") return ScatterReduction::kNone;
  const std::string_view name = Attributes(node).text("reduction");
  const auto* const found = std::find(kReductions.begin(), kReductions.end(), name);
  TENON_UNSUPPORTED_IF(found == kReductions.end(), "{} has the unknown reduction \"{}\".", node.op_type, name);
  return static_cast<ScatterReduction>(found - kReductions.begin());
}

Result<int> read_one_hot_axis(const Node& node, int indices_rank) {
  return normalized_axis(Attributes(node).integer("axis"), indices_rank + 1);
}

Result<Shape> one_hot_shape(const Shape& indices, int axis, int64_t depth) {
  TENON_INVALID_IF(depth < 1, "The depth {} has to be positive.", depth);
  TENON_UNSUPPORTED_IF(indices.rank() + 1 > Shape::kMaxRank, "OneHot makes rank {}.", indices.rank() + 1);
  Shape shape;
  for (int d = 0; d <= indices.rank(); ++d) shape.push_back(d == axis ? depth : indices[d < axis ? d : d - 1]);
  TENON_TRY(shape.checked_element_count().status());
  return shape;
}

Result<std::optional<int>> read_compress_axis(const Node& node, int rank) {
  const std::optional<int64_t> given = Attributes(node).find_integer("axis");
  if (!given) return std::optional<int>();
  TENON_TRY_ASSIGN(const int axis, normalized_axis(*given, rank));
  return std::optional(axis);
}

Result<UniqueDesc> read_unique(const Node& node, int rank) {
  UniqueDesc desc{.sorted = Attributes(node).flag("sorted")};
  TENON_TRY_ASSIGN(desc.axis, read_compress_axis(node, rank));
  return desc;
}

namespace infer {
namespace {

Status infer_gather(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || !c.ranked(1)) return {};
  TENON_TRY_ASSIGN(const int axis, read_gather_axis(c.node(), c.rank(0)));
  return c.set_dims(0, gathered(c.dims(0), c.dims(1), axis));
}

Status infer_gather_elements(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(1)) return {};
  if (c.ranked(0)) {
    TENON_INVALID_IF(c.rank(0) != c.rank(1), "The data {} and the indices {} differ in rank.", text(c.dims(0)),
                     text(c.dims(1)));
    TENON_TRY(normalized_axis(Attributes(c.node()).integer("axis"), c.rank(0)).status());
  }
  return c.set_dims(0, c.dims(1));
}

Status infer_gather_nd(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || !c.ranked(1)) return {};
  TENON_TRY_ASSIGN(NdForm form, nd_form(c.node(), c.dims(0), c.dims(1)));
  return form.width >= 0 ? c.set_dims(0, std::move(form.output)) : Status();
}

Status infer_one_hot(Context& c) {
  c.set_type(0, c.type(2));
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(const int axis, read_one_hot_axis(c.node(), c.rank(0)));
  Dim depth;
  if (std::optional<std::vector<int64_t>> value = c.values(1); value && value->size() == 1) {
    TENON_INVALID_IF((*value)[0] < 1, "The depth {} has to be positive.", (*value)[0]);
    depth = number((*value)[0]);
  } else if (std::optional<double> real = c.scalar(1)) {
    TENON_INVALID_IF(!(*real >= 1 && *real < 9.0e18), "The depth {} has to be positive.", *real);
    depth = number(static_cast<int64_t>(*real));
  }
  Dims out = c.dims(0);
  out.insert(out.begin() + axis, depth);
  return c.set_dims(0, std::move(out));
}

// Output 0 of Compress and Unique: its size along the axis, or flat, is only known at run time.
Status leave_axis_open(Context& c) {
  if (!Attributes(c.node()).find_integer("axis")) return c.set_dims(0, {Dim{}});
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(const std::optional<int> axis, read_compress_axis(c.node(), c.rank(0)));
  Dims out = c.dims(0);
  out[*axis] = Dim{};
  return c.set_dims(0, std::move(out));
}

Status infer_compress(Context& c) {
  c.set_type(0, c.type(0));
  return leave_axis_open(c);
}

Status infer_unique(Context& c) {
  c.set_type(0, c.type(0));
  for (size_t i = 1; i < 4; ++i) {
    c.set_type(i, DataType::kInt64);
    TENON_TRY(c.set_dims(i, {Dim{}}));
  }
  return leave_axis_open(c);
}

constexpr Row kRows[] = {
    {"Compress", &infer_compress},  {"Gather", &infer_gather},  {"GatherElements", &infer_gather_elements},
    {"GatherND", &infer_gather_nd}, {"OneHot", &infer_one_hot}, {"Unique", &infer_unique},
};

}  // namespace

std::span<const Row> gather_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
