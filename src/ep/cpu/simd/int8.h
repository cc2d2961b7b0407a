// Exact products of bytes, uint8 or int8 each: C[m,n] = A[m,k] * B[k,n] in int32, with zero points, scales and
// requantising at the end. B is packed in panels of 16 columns, in an order that depends on the table. One task of one
// thread; the caller splits.
#pragma once

#include <cstdint>

#include "ops/activation.h"

namespace tenon::cpu {

inline constexpr int64_t kInt8Panel = 16;        // columns of a panel
inline constexpr int64_t kInt8Rows = 6;          // rows of the fastest tile: split M by multiples of it
inline constexpr int64_t kInt8TileColumns = 64;  // split N by multiples of it

inline constexpr int64_t int8_columns(int64_t n) { return (n + kInt8Panel - 1) / kInt8Panel * kInt8Panel; }
inline constexpr int64_t int8_depth(int64_t k) { return (k + 3) / 4 * 4; }
inline constexpr int64_t int8_packed_bytes(int64_t k, int64_t n) { return int8_depth(k) * int8_columns(n); }

enum class Int8Output : uint8_t { kInt32, kFloat, kUint8, kInt8 };

// Integers of a step: q = clamp(round(x * inverse) + zero, 0, 255), rounded to even. NaN becomes 0.
struct Int8Step {
  float inverse = 1, zero = 0;  // of an int8 plus 128
  float low = 0, high = 255;    // of the integers, of an int8 plus 128 too
};

// The products count A as uint8 and B as int8: an int8 element of A counts as it is plus 128, a uint8 one of B less
// 128. Zero points here are those of the numbers so counted.
//
// sum[i,j] = product[i,j] + row_terms[i] + column_terms[j] - row_factors[i] * column_factors[j], which wraps as int32
// does. An absent array holds zeros; with column_factors and without row_factors, these are the sums of A's rows.
// Arrays of columns have int8_columns(n) elements.
//
// kInt32 stores the sum. The others compute x[i,j] = sum * row_scales[i] * column_scales[j] + row_bias[i] +
// column_bias[j], where an absent scale is 1, then
//   middle, if any:  q = middle_step(x), x = (q - middle_step.zero) * middle_scale + middle_bias[j]
//   x = epilogue(x, residual), which kFloat stores; the bytes store table[step(x)].
struct Int8Task {
  const uint8_t* a = nullptr;  // row i begins at i * lda
  int64_t lda = 0;
  bool a_signed = false;
  const uint8_t* b = nullptr;  // the first panel
  int64_t panel_stride = 0;    // bytes from one panel to the next: int8_depth(k) * 16
  int64_t m = 0, n = 0, k = 0;

  const int32_t* row_terms = nullptr;
  const int32_t* column_terms = nullptr;
  const int32_t* row_factors = nullptr;
  const int32_t* column_factors = nullptr;
  const float* row_scales = nullptr;
  const float* column_scales = nullptr;
  const float* row_bias = nullptr;
  const float* column_bias = nullptr;

  bool middle = false;
  Int8Step middle_step = {};
  float middle_scale = 1;
  const float* middle_bias = nullptr;

  Epilogue epilogue = {};
  const float* residual = nullptr;  // [m,n] or null
  int64_t ldr = 0;

  Int8Output output = Int8Output::kInt32;
  Int8Step step = {};
  const uint8_t* table = nullptr;  // of 256 bytes, by the byte that would be stored
  void* c = nullptr;
  int64_t ldc = 0;  // elements
};

struct Int8Table {
  const char* name;  // "avx512vnni"
  void (*run)(const Int8Task& task);
  // Panels [first, last) of B[k,n], whose element (p, j) is b[p * row_stride + j * column_stride]. `sums`, unless null,
  // gets the sums of those panels' columns, numbers counted as in products: 16 a panel, from the first of B on.
  void (*pack)(const uint8_t* b, bool b_signed, int64_t row_stride, int64_t column_stride, int64_t k, int64_t n,
               int64_t first, int64_t last, uint8_t* packed, int32_t* sums);
  // One panel, whose element (p, j) is b[offsets[p] + j]; all 16 columns are read.
  void (*pack_rows)(const uint8_t* b, bool b_signed, const int64_t* offsets, int64_t k, uint8_t* packed, int32_t* sums);
};

const Int8Table& int8_table();

}  // namespace tenon::cpu
