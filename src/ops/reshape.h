// Operators that keep the elements in their order, and those that repeat them to a target shape: Reshape, Flatten,
// Squeeze, Unsqueeze, Expand and Tile of ONNX (opsets 5 to 25).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/integer_inputs.h"

namespace tenon {

// Reshape: a 0 of the target is a size of 0, instead of the input's size there.
bool read_allow_zero(const Node& node);
// Makes `node` a Reshape of `x` to the int64 constant `shape`, in which a 0 is a size of 0.
void write_reshape(Node& node, ValueId x, ValueId shape);
// Flatten: in [0, rank]. Errors: an axis out of range.
Result<int> read_flatten_axis(const Node& node, int rank);
// Squeeze and Unsqueeze: the axes as the attribute (before version 13) or the input has them, empty without either.
Result<std::vector<int64_t>> read_squeeze_axes(const Node& node, const ReadIntegers& integers);
// The attribute alone. Borrows the node.
std::span<const int64_t> squeeze_axes_attribute(const Node& node);

// The shapes of the results. Errors: a target that does not fit `x`; a rank above Shape::kMaxRank.
Result<Shape> reshaped(const Shape& x, std::span<const int64_t> target, bool allow_zero);
Result<Shape> flattened(const Shape& x, int axis);
// No axes: every dimension of 1 goes (docs/reference/operators.md).
Result<Shape> squeezed(const Shape& x, std::span<const int64_t> axes);
Result<Shape> unsqueezed(const Shape& x, std::span<const int64_t> axes);
Result<Shape> tiled(const Shape& x, std::span<const int64_t> repeats);

}  // namespace tenon
