// The parameters of pack.cuh's kernel.
#pragma once

#include <cstdint>

#include "ep/cuda/templates/index_params.h"

namespace tenon::cuda {

// Element i0, i1, ... of the packed weights is the given one at sum(i * strides), and 0 where some i is not below its
// limit.
struct PackParams {
  int64_t count = 0;
  Divisor dims[4];
  int64_t strides[4]{}, limits[4]{};
};

}  // namespace tenon::cuda
