// Rows of few elements, reduced as columns.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ep/cpu/ops/moves/copy.h"

namespace tenon::cpu::nn {

// Rows of at most so many elements are: a vector is made of one element of each of many rows.
inline constexpr int64_t kShortRow = 32;

// Calls columns(block, first, count) for the rows [first, first + count) of x[rows][n], n <= kShortRow, a block after
// the other: block[n][count] is on the stack.
template <typename T, typename Columns>
void for_short_rows(const T* x, int64_t rows, int64_t n, const Columns& columns) {
  constexpr int64_t kElements = 4096, kMost = 512;
  alignas(64) T block[kElements];
  const int64_t together = std::min(kMost, kElements / n / 16 * 16);
  for (int64_t first = 0; first < rows; first += together) {
    const int64_t count = std::min(together, rows - first);
    transpose(sizeof(T), x + first * n, n, block, count, count, n);
    columns(static_cast<const T*>(block), first, count);
  }
}

}  // namespace tenon::cpu::nn
