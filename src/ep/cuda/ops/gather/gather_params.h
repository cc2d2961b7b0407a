// The parameters of gather.cuh's kernels.
#pragma once

#include <cstdint>

#include "ep/cuda/templates/index_params.h"

namespace tenon::cuda {

struct GatherElementsParams {
  int64_t count = 0;
  int64_t limit = 0, step = 0;  // of the axis: its size, and the elements between two positions
  LoopParams<1> loops;          // over the indices; strides of the data, 0 along the axis
};

struct GatherNdParams {
  int64_t count = 0;
  Divisor slice, tuples;        // elements of a slice, slices of a batch
  int64_t limits[kMostRank]{};  // the sizes that an index tuple chooses from
};

struct ReverseSequenceParams {
  int64_t count = 0;
  Divisor inner, second;  // [first][second][inner]: time and batch, either way round
  int64_t time = 0;       // steps
};

// [outer][size][inner].
struct OneHotParams {
  int64_t count = 0;
  Divisor inner, size;
};

// [...][rows][columns].
struct DiagonalParams {
  int64_t count = 0;
  Divisor columns, rows;
  int64_t diagonal = 0;  // where no tensor says it
};

}  // namespace tenon::cuda
