// Axes as attributes and inputs give them: counted from the end where negative.
#pragma once

#include <bitset>
#include <cstdint>
#include <span>

#include <tenon/types.h>

#include "base/status.h"

namespace tenon {

// `axis` in [0, rank). Errors: an axis outside [-rank, rank); the message has both numbers.
inline Result<int> normalized_axis(int64_t axis, int rank) {
  TENON_INVALID_IF(axis < -rank || axis >= rank, "Axis {} is out of range for rank {}.", axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// Bit d: axis d is a member.
using AxisSet = std::bitset<Shape::kMaxRank>;

// Adds `axis` and returns it in [0, rank). Errors: an axis out of range, or a member already.
inline Result<int> add_axis(AxisSet& set, int64_t axis, int rank) {
  TENON_TRY_ASSIGN(const int d, normalized_axis(axis, rank));
  TENON_INVALID_IF(set.test(d), "Axis {} is repeated.", d);
  set.set(d);
  return d;
}

// Errors: an axis out of range or named twice.
inline Result<AxisSet> axis_set(std::span<const int64_t> axes, int rank) {
  AxisSet set;
  for (int64_t axis : axes) TENON_TRY(add_axis(set, axis, rank).status());
  return set;
}

// The product of the sizes of dimensions [begin, end).
inline int64_t span_product(const Shape& shape, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= shape[i];
  return product;
}

// A tensor around one axis, as [outer, length, inner].
struct AxisSpan {
  int axis = 0;  // in [0, rank)
  int64_t outer = 1, length = 1, inner = 1;
};
inline AxisSpan axis_span(const Shape& shape, int axis) {
  return {axis, span_product(shape, 0, axis), shape[axis], span_product(shape, axis + 1, shape.rank())};
}

}  // namespace tenon
