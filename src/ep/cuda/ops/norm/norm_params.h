// The parameters of the normalisations' kernels, as host and device read them.
#pragma once

#include <cstdint>

#include "ep/cuda/templates/index_params.h"

namespace tenon::cuda {

// A group's elements are divided by their standard deviation about the mean, the root of their mean square, the sum of
// their absolute values or their Euclidean norm.
enum class NormMeasure : int32_t { kDeviation, kSquares, kOne, kTwo };

// A block has threads >> lane_bits groups, of each of which 2^lane_bits threads (lanes) have a share.
struct NormParams {
  LoopParams<2> kept;          // over the groups: strides of the input, then of scale and bias
  LoopParams<2> reduced;       // over a group's elements, the last dimension counted in vectors
  int64_t outputs = 0;         // groups
  int64_t steps = 0;           // vectors of a group
  int64_t parameter_step = 0;  // of scale and bias, from one element of a vector to the next
  double inverse_count = 1;    // 1 / elements of a group; and the same as a float
  float inverse_count_float = 1, epsilon = 0;
  uint32_t lane_bits = 0;
  int32_t beside = 0;   // groups lie beside each other in memory: neighbours are threads of different groups
  int32_t guarded = 0;  // softmax: zeros instead of a row of NaN
};

}  // namespace tenon::cuda
