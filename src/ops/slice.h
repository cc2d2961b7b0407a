// Slice of ONNX (opsets 1 to 13).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/integer_inputs.h"

namespace tenon {

// Elements start, start + step, ... of a dimension, `count` of them, all inside of it. A count of 0 has the start 0.
struct SliceRange {
  int64_t start = 0, step = 1, count = 0;
};
// Of start:end:step in a dimension of `size`. With a negative step the start is clamped to [0, size - 1], as the
// operator's text says, and an end of INT32_MAX or INT64_MAX is before the first element (docs/reference/operators.md).
// Errors: a step of 0.
Result<SliceRange> slice_range(int64_t start, int64_t end, int64_t step, int64_t size);

// The bounds as a node gives them.
struct SliceBounds {
  std::span<const int64_t> starts, ends;
  std::optional<std::span<const int64_t>> axes;   // left out: the first ones
  std::optional<std::span<const int64_t>> steps;  // left out: 1
};
// True for versions before 10, where the bounds are attributes; inputs 1 to 4 hold them since.
bool has_slice_attributes(const Node& node);
// Borrows the node.
SliceBounds slice_attributes(const Node& node);

struct SliceDesc {
  std::array<SliceRange, Shape::kMaxRank> ranges;  // of each axis of the input
  Shape output;
};
// Errors: lists that differ in length, axes out of range or repeated, a step of 0.
Result<SliceDesc> resolve_slice(const Shape& x, const SliceBounds& bounds);
// The same with the bounds of the attributes, or of the inputs that `integers` reads.
Result<SliceDesc> read_slice(const Node& node, const Shape& x, const ReadIntegers& integers);

}  // namespace tenon
