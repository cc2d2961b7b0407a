// The parameters of scatter.cuh's kernels.
#pragma once

#include <cstdint>

#include "ep/cuda/templates/index_params.h"

namespace tenon::cuda {

// How an update meets what is there.
enum class ScatterCombine : uint8_t { kReplace, kAdd, kMultiply, kMax, kMin };

// Updates go to elements of the output by index. A thread takes one of `count` lines: the `steps` updates of a line,
// one after the other, or one update where each has a thread.
struct ScatterParams {
  int64_t count = 0, steps = 1;
  // ScatterElements: over the updates; strides of the updates, 0 along the axis for lines, and of the output, 0 along
  // the axis. ScatterND: unused.
  LoopParams<2> loops;
  int64_t update_step = 0;  // between the updates of a line
  Divisor slice;            // ScatterND: elements of a slice
  // Of each index of a tuple, of which ScatterElements has one: the size of what it chooses from, and the elements of
  // the output between two positions.
  int64_t limits[kMostRank]{}, strides[kMostRank]{};
};

struct ScatterSumParams {
  ScatterParams scatter;
  int32_t kept_bits = 0;  // below the greatest exponent of an element's updates
};

}  // namespace tenon::cuda
