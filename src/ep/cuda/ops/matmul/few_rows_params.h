// The parameters of products of few rows, as host and device read them.
#pragma once

#include <cstdint>

namespace tenon::cuda {

inline constexpr int kMostRowProducts = 3;
inline constexpr int kRowProductThreads = 128, kRowTileThreads = 256;

struct FewRowsParams {
  int32_t rows = 0, depth = 0;
  int32_t columns[kMostRowProducts] = {};  // of each product; 0 behind the last one
  int32_t x_row = 0;                       // elements from one row of x to the next
  float scale = 1;                         // of the product
  float epsilon = 0, inverse_depth = 0;    // of the normalisation before it
  float act_alpha = 0, act_beta = 0;
  int32_t residual_after = 0;
  // Weights of few bits: their bytes of a column, and blocks of 2^block_shift chunks (of 8 weights) that share a scale.
  int32_t column_bytes = 0, blocks = 0, block_shift = 0, zero_bytes = 0;
};

}  // namespace tenon::cuda
