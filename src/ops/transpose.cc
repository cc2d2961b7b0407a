#include "ops/transpose.h"

#include <utility>

#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

Result<std::vector<int64_t>> read_perm(const Node& node, int rank) {
  const Attributes attributes(node);
  std::vector<int64_t> perm;
  if (!attributes.has("perm")) {
    for (int64_t axis = rank - 1; axis >= 0; --axis) perm.push_back(axis);
    return perm;
  }
  const std::span<const int64_t> given = attributes.integers("perm");
  TENON_INVALID_IF(std::ssize(given) != rank, "Attribute \"perm\" has {} values for rank {}.", given.size(), rank);
  AxisSet seen;
  for (size_t i = 0; i < given.size(); ++i) {
    TENON_INVALID_IF(given[i] < 0 || given[i] >= rank || seen.test(given[i]),
                     "Attribute \"perm\" is no permutation: {} at position {}.", given[i], i);
    seen.set(given[i]);
  }
  perm.assign(given.begin(), given.end());
  return perm;
}

Shape transposed_shape(const Shape& x, std::span<const int64_t> perm) {
  Shape shape;
  for (int64_t axis : perm) shape.push_back(x[static_cast<int>(axis)]);
  return shape;
}

bool moves_only_ones(std::span<const int64_t> perm, const Shape& x) {
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (x[static_cast<int>(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

namespace infer {
namespace {

Status infer_transpose(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(const std::vector<int64_t> perm, read_perm(c.node(), c.rank(0)));
  Dims out;
  for (int64_t axis : perm) out.push_back(c.dims(0)[axis]);
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {{"Transpose", &infer_transpose}};

}  // namespace

std::span<const Row> transpose_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
