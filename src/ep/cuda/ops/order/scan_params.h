// The parameters of scan.cuh's kernels.
#pragma once

#include <cstdint>

#include "ep/cuda/templates/index_params.h"

namespace tenon::cuda {

// [outer][length][inner], scanned along the length. Lines are cut into chunks, of which the last may be shorter.
struct ScanParams {
  int64_t count = 0;  // threads of the kernels for columns
  int64_t length = 0, inner = 1;
  int64_t chunk = 0;  // elements
  Divisor chunks, inner_size;
};

}  // namespace tenon::cuda
