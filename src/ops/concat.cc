#include "ops/concat.h"

#include <algorithm>
#include <utility>

#include "ops/attributes.h"
#include "ops/input_shapes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

Result<int> read_concat_axis(const Node& node, int rank) {
  TENON_INVALID_IF(rank == 0, "Scalars cannot be concatenated.");
  return normalized_axis(Attributes(node).integer("axis"), rank);
}

namespace infer {
namespace {

// Puts input `index`, of shape `part`, behind `whole`, the ones before it joined. `first` is input 0.
Status join(Dims& whole, const Dims& first, const Dims& part, size_t axis, size_t index) {
  TENON_INVALID_IF(part.size() != first.size(), "Inputs 0 and {} have shapes {} and {} of different rank.", index,
                   text(first), text(part));
  for (size_t d = 0; d < whole.size(); ++d) {
    Dim& dim = whole[d];
    if (d == axis) {
      const bool known = dim.known() && part[d].known();
      TENON_INVALID_IF(known && __builtin_add_overflow(dim.value, part[d].value, &dim.value),
                       "The concatenated dimension overflows.");
      if (!known) dim = Dim{};
      continue;
    }
    TENON_INVALID_IF(certainly_differ(dim, part[d]),
                     "Inputs 0 and {} have shapes {} and {}, which differ in dimension {}, and the axis is {}.", index,
                     text(first), text(part), d, axis);
    if (!dim.known() && (part[d].known() || dim.symbol.empty())) dim = part[d];
  }
  return {};
}

bool is_empty(const Value& value) { return value.fully_known() && value.shape().element_count() == 0; }

// Parts without elements may have another shape, as in ONNX Runtime where sizes are known at run time only: those that
// add nothing along the axis are dropped.
void drop_empty_parts(Context& c) {
  std::vector<ValueId>& inputs = c.node().inputs;
  const auto first =
      std::find_if(inputs.begin(), inputs.end(), [&](ValueId id) { return !is_empty(c.graph().value(id)); });
  if (first == inputs.end()) return;
  const Dims& whole = c.graph().value(*first).dims;
  const Result<int> axis = read_concat_axis(c.node(), static_cast<int>(whole.size()));
  if (!axis.ok()) return;
  std::erase_if(inputs, [&](ValueId id) {
    const Value& part = c.graph().value(id);
    if (!is_empty(part)) return false;
    if (part.dims.size() != whole.size()) return part.dims.size() == 1;
    if (part.dims[*axis].value != 0) return false;
    for (size_t d = 0; d < whole.size(); ++d)
      if (std::cmp_not_equal(d, *axis) && certainly_differ(whole[d], part.dims[d])) return true;
    return false;
  });
}

Status infer_concat(Context& c) {
  c.set_type(0, c.type(0));
  for (size_t i = 0; i < c.node().inputs.size(); ++i)
    if (!c.ranked(i)) return {};
  if (c.node().inputs.empty()) return {};
  drop_empty_parts(c);
  const size_t count = c.node().inputs.size();
  TENON_TRY_ASSIGN(const int axis, read_concat_axis(c.node(), c.rank(0)));
  Dims out = c.dims(0);
  for (size_t i = 1; i < count; ++i) TENON_TRY(join(out, c.dims(0), c.dims(i), axis, i));
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {{"Concat", &infer_concat}};

}  // namespace

std::span<const Row> concat_rows() { return kRows; }

}  // namespace infer

Result<ConcatDesc> read_concat(const Node& node, std::span<const Shape> inputs) {
  TENON_INVALID_IF(inputs.empty(), "Concat has no input.");
  TENON_TRY_ASSIGN(const int axis, read_concat_axis(node, inputs[0].rank()));
  ConcatDesc desc;
  const infer::Dims first = infer::to_dims(inputs[0]);
  infer::Dims out = first;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i > 0) TENON_TRY(infer::join(out, first, infer::to_dims(inputs[i]), axis, i));
    desc.lengths.push_back(inputs[i][axis]);
  }
  desc.output = infer::to_shape(out);
  desc.span = axis_span(desc.output, axis);
  return desc;
}

}  // namespace tenon
