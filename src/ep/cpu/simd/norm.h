// Softmax, layer norm and reductions on f32: the loops of one thread.
#pragma once

#include <cstdint>

namespace tenon::cpu {

struct LayerNormTask {
  const float* x = nullptr;
  const float* skip = nullptr;  // added to x; or null
  const float* scale = nullptr;
  const float* bias = nullptr;  // or null
  float* y = nullptr;
  float* sum = nullptr;          // receives x + skip; or null
  float* mean = nullptr;         // one value a row; or null
  float* inverse_std = nullptr;  // one value a row; or null
  int64_t rows = 0, n = 0;
  float epsilon = 0;
  bool subtract_mean = true;  // false: the root of the mean square takes the place of the deviation
};

enum class Reduction : uint8_t { kSum, kMean, kMax, kMin, kSumSquare, kL2, kL1 };

struct NormTable {
  // y = softmax(x), or its logarithm, over rows of n contiguous values. y may be x.
  void (*softmax_rows)(const float* x, float* y, int64_t rows, int64_t n, bool log);
  // The same down columns [first, last) of x[n][inner].
  void (*softmax_columns)(const float* x, float* y, int64_t n, int64_t inner, int64_t first, int64_t last, bool log);
  // y = e^(x - top), and the sum of these; y may be x, or null where only the sum is wanted.
  float (*row_exponentials)(const float* x, float* y, int64_t n, float top);
  // s = e^(s + mask - top) in place, mask null or with stride 0 or 1; the sum of the new values. `top` becomes the
  // largest of what it was and s + mask; -infinity before the first part of a row. A row that is masked with -infinity
  // throughout becomes 0 and sums to 0; top is finite then.
  float (*exponentials)(float* s, const float* mask, int64_t mask_stride, int64_t n, float* top);
  // y[rows][n] *= factors[row]
  void (*scale_rows)(float* y, int64_t row_stride, int64_t rows, int64_t n, const float* factors);
  // y may be x or skip.
  void (*layer_norm)(const LayerNormTask& task);
  // One value for each row of n contiguous values.
  void (*reduce_rows)(const float* x, float* y, int64_t rows, int64_t n, Reduction reduction);
  // y[column] over x[n][inner], columns [first, last).
  void (*reduce_columns)(const float* x, float* y, int64_t n, int64_t inner, int64_t first, int64_t last,
                         Reduction reduction);
};

const NormTable& norm_table();

}  // namespace tenon::cpu
