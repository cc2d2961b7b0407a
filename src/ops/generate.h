// Operators that make tensors from little or nothing: Shape, Size, Constant, ConstantOfShape, Range, EyeLike, NonZero
// and Trilu of ONNX (opsets 1 to 25).
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// Shape: the dimensions [begin, end) of a tensor of `rank`; none where end is not above begin.
struct ShapeInterval {
  size_t begin = 0, end = 0;
};
ShapeInterval read_shape_interval(const Node& node, int rank);

// ConstantOfShape: the element. Null: a float32 of 0. Borrows nothing.
ConstantRef read_fill_value(const Node& node);

// EyeLike: the diagonal of ones, counted from the main one upwards.
int64_t read_eye_diagonal(const Node& node);

// Trilu: the upper triangle of the matrices, not the lower one. Input 1 is its diagonal.
bool read_trilu_upper(const Node& node);

}  // namespace tenon
