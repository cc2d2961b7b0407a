// The parameters of einsum.cuh's kernel.
#pragma once

#include <cstdint>

#include "ep/cuda/templates/index_params.h"

namespace tenon::cuda {

// The host writes these member by member, for as many operands as a node has (lower.cc). Strides of each operand over
// the result's dimensions, and over those that are summed.
template <int kOperands>
struct EinsumLoops {
  Divisor dims[kMostRank];
  int64_t strides[kOperands][kMostRank] = {};
};
template <int kOperands>
struct EinsumParams {
  int64_t count = 0, steps = 0;
  EinsumLoops<kOperands> kept, summed;
};

}  // namespace tenon::cuda
