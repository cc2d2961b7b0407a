// Softmax, LogSoftmax and Hardmax of ONNX, and tenon.GuardedSoftmax.
#pragma once

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// A tensor as [outer, length, inner]: each of the outer * inner groups of `length` elements is normalised. From version
// 13 on a group lies along one axis; before, it has all elements from the axis on (inner is then 1).
struct SoftmaxDesc {
  enum class Kind : uint8_t { kSoftmax, kLogSoftmax, kHardmax };
  Kind kind = Kind::kSoftmax;
  bool flat = false;     // a version before 13
  bool guarded = false;  // tenon.GuardedSoftmax: a group of NaN becomes zeros
  int axis = 0;          // in [0, rank); 0 for a scalar, which is one group of one element
  int64_t outer = 1, length = 1, inner = 1;
};

// The axis in [0, rank), or 0 for a scalar. Errors: out of range.
Result<int> read_softmax_axis(const Node& node, int rank);
Result<SoftmaxDesc> read_softmax(const Node& node, const Shape& x);

}  // namespace tenon
