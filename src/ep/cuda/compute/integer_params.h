// The parameters of the integer product's kernel, as host and device read them.
#pragma once

#include <cstdint>

namespace tenon::cuda {

// y[row][column] = the sum over the depth of (a - a_zero) * (b - b_zero); a is [row][depth], b [column][depth], of
// bytes.
struct IntegerProductParams {
  const void* a = nullptr;
  const void* b = nullptr;
  int32_t* y = nullptr;
  // Zero points, of the type of a or b: one, or one a row of a (`a_zero_step` 1), one a column (`b_zero_step`). May be
  // null, which is 0.
  const void* a_zero = nullptr;
  const void* b_zero = nullptr;
  const int32_t* a_sums = nullptr;  // of the rows of a; where b has zero points
  const int32_t* b_sums = nullptr;  // of the rows of b; where a has zero points
  int32_t rows = 0, columns = 0;
  int32_t depth = 0;         // in memory: a multiple of 16, filled up with zeros
  int32_t summed_depth = 0;  // without what it is filled up with
  int32_t a_zero_step = 0, b_zero_step = 0;
  int32_t batch = 1;
  int64_t a_matrix = 0, b_matrix = 0;  // bytes from one matrix of the batch to the next
};

}  // namespace tenon::cuda
