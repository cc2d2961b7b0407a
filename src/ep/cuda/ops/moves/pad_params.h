// The parameters of pad.cuh's kernel.
#pragma once

#include <cstdint>

#include "ep/cuda/templates/index_params.h"

namespace tenon::cuda {

enum class MirrorPad : uint8_t { kEdge, kReflect, kWrap };

struct MirrorPadParams {
  int64_t count = 0;
  Divisor dims[kMostRank];  // of the result, outermost first
  // Coordinate i of the result is element i - begin of the `size` elements that are repeated, the first of which is
  // `crop` of the input; element e has the offset e * stride.
  struct Axis {
    int64_t begin = 0, size = 1, crop = 0, stride = 0;
    // kReflect and kWrap: the elements come again after `period`; shift is the least number above -begin that is a
    // multiple of it, less begin.
    Divisor period;
    int64_t shift = 0;
  };
  Axis axes[kMostRank];
};

}  // namespace tenon::cuda
