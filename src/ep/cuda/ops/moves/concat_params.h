// The parameters of the kernel that joins tensors, as host and device read them.
#pragma once

#include <cstdint>

#include "ep/cuda/templates/index_params.h"

namespace tenon::cuda {

inline constexpr int kMostJoined = 8;  // tensors of a kernel

// Rows of the result: in each, one after the other, a row of each tensor. All sizes are in vectors.
struct ConcatParams {
  Divisor width;               // of the tensors' rows together
  int64_t count = 0;           // of all rows
  int64_t row = 0, first = 0;  // of the result: its rows, and where these tensors begin in them
  int64_t begins[kMostJoined] = {}, widths[kMostJoined] = {};
};

}  // namespace tenon::cuda
