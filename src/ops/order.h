// Along one axis: TopK, CumSum, CumProd and ReverseSequence of ONNX (opsets 1 to 26); NonMaxSuppression (10).
#pragma once

#include <cstdint>
#include <optional>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/axes.h"

namespace tenon {

struct TopKDesc {
  AxisSpan span;
  std::optional<int64_t> k;  // of the attribute (before version 10); input 1 has it since
  bool largest = true;
};
// Errors: a scalar; an axis out of range; an attribute k that check_top_k refuses.
Result<TopKDesc> read_top_k(const Node& node, const Shape& x);
// Errors: a k below 0 or above `length`.
Status check_top_k(int64_t k, int64_t length);

// CumSum and CumProd; input 1 is the axis.
struct CumulativeDesc {
  bool product = false;    // CumProd
  bool exclusive = false;  // an element is not part of its own sum
  bool reverse = false;    // from the end
};
CumulativeDesc read_cumulative(const Node& node);

struct ReverseSequenceDesc {
  int batch_axis = 1, time_axis = 0;  // 0 and 1, either way round
  int64_t batch = 1, time = 1, inner = 1;
};
// Errors: axes other than 0 and 1; a rank below 2; lengths that are not one for each entry of the batch.
Result<ReverseSequenceDesc> read_reverse_sequence(const Node& node, const Shape& x, const Shape& lengths);

// NonMaxSuppression of boxes [batch, boxes, 4] with scores [batch, classes, boxes].
struct NonMaxSuppressionDesc {
  bool center_point = false;  // a box is its centre and size (x, y, width, height), not two corners (y, x, y, x)
  int64_t batch = 0, classes = 0, boxes = 0;
};
// Errors: shapes that do not fit each other, more boxes than an int32 counts, a center_point_box other than 0 and 1.
Result<NonMaxSuppressionDesc> read_non_max_suppression(const Node& node, const Shape& boxes, const Shape& scores);

}  // namespace tenon
