// Axes as attributes and inputs give them: counted from the end where negative.
#pragma once

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

// The product of the sizes of dimensions [begin, end).
inline int64_t span_product(const Shape& shape, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= shape[i];
  return product;
}

}  // namespace tenon
