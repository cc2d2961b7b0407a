// The Reduce operators, ArgMax and ArgMin of ONNX.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/axes.h"

namespace tenon {

// ReduceSum and its kin. The axes are an attribute, or input 1 (ReduceSum from version 13 on, the others from 18 on).
struct ReduceDesc {
  std::vector<int64_t> axes;          // as the attribute has them
  bool keepdims = true;               // reduced axes stay, with size 1
  bool noop_with_empty_axes = false;  // no axes: nothing is reduced, instead of everything
};
// Reads the attributes; where input 1 is there, its elements are the axes.
ReduceDesc read_reduce(const Node& node);
// The same with the axes of `input`, the constant of input 1, where `has_input`; nullopt where that is no constant.
std::optional<ReduceDesc> read_reduce(const Node& node, bool has_input, const ConstantRef& input);

// Errors: an axis out of range or named twice.
Result<AxisSet> reduced_axes(std::span<const int64_t> axes, bool noop_with_empty_axes, int rank);
// The shape of the result.
Shape reduced_shape(const Shape& x, const AxisSet& reduced, bool keepdims);

// ArgMax and ArgMin: x as [outer, length, inner].
struct ArgReduceDesc {
  bool largest = true;
  bool keepdims = true;
  bool select_last_index = false;  // of equal elements
  int axis = 0;                    // in [0, rank)
  int64_t outer = 1, length = 1, inner = 1;
  Shape output;
};
// Errors: an axis out of range; one of size 0 where the output has elements.
Result<ArgReduceDesc> read_arg_reduce(const Node& node, const Shape& x);

}  // namespace tenon
