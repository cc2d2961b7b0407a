// Loops over the dimensions of several operands, as kernels have them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace tenon::cuda {

// The dimensions that count, outermost in the memory of one operand first, neighbours joined where every operand
// allows.
struct Loops {
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> strides;  // one list an operand
};
Loops join_dims(std::vector<int64_t> dims, const std::vector<std::vector<int64_t>>& strides, size_t order_by);
int64_t count_of(const std::vector<int64_t>& dims);
// Whether 32 bits cannot count the elements, or address what the strides reach.
bool needs_wide_index(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, int64_t offset);
// Errors: kUnsupported for more blocks than a grid may have.
Result<unsigned> blocks_of(int64_t count, int64_t a_block);

}  // namespace tenon::cuda
