// The parameters of the reductions' kernels, as host and device read them.
#pragma once

#include <cstdint>

#include "ep/cuda/templates/index_params.h"

namespace tenon::cuda {

// kRoot is the square root of a sum.
enum class ReduceKind : int32_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kL1,
  kL2,
  kRoot,
  kSumSquare,
  kLogSum,
  kLogSumExp,
  kArgMax,
  kArgMin
};

inline constexpr unsigned kReduceThreads = 256;

// A block makes kReduceThreads >> lane_bits results, of each of which 2^lane_bits threads (lanes) have a share.
struct ReduceParams {
  LoopParams<2> kept;     // over the results: strides of the input, then of the output
  LoopParams<1> reduced;  // over a result's elements, the last dimension counted in vectors
  int64_t outputs = 0;
  int64_t steps = 0, steps_a_part = 0;  // vectors of a result, of one of its parts
  int64_t count = 1;                    // a mean divides by it
  // Of kArgMax and kArgMin: so many positions are all that a result chooses from, -1 for none. 0: all elements.
  int64_t candidates = 0;
  Divisor parts;  // blocks that share a result; their numbers lie together
  uint32_t lane_bits = 0;
  int32_t beside = 0;  // results lie beside each other in the input: neighbours are threads of different results
};

}  // namespace tenon::cuda
