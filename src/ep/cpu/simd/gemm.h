// Matrix product on packed B: [ceil(N/16)][K][16], missing columns zero. One task of one thread; the caller splits.
#pragma once

#include <cstdint>

#include "ops/activation.h"

namespace tenon::cpu {

inline constexpr int64_t kGemmPanel = 16;  // columns of a panel
inline constexpr int64_t kGemmRows = 6;    // rows of the fastest tile: split M by multiples of it

inline constexpr int64_t gemm_panels(int64_t n) { return (n + kGemmPanel - 1) / kGemmPanel; }
inline constexpr int64_t gemm_packed_floats(int64_t k, int64_t n) { return gemm_panels(n) * k * kGemmPanel; }

// C[m,n] = act(alpha * A[m,k] * B[k,n] + bias[n] + residual[m,n]). C must not overlap A. The residual may be C itself
// only where k <= kGemmDepth (partial sums of a longer k wait in C).
struct GemmTask {
  const float* a = nullptr;
  int64_t lda = 0;
  const float* b = nullptr;  // the first panel
  // B in 16 bits instead, packed alike: float16, or bfloat16 if `brain`. For at most kGemmNarrowRows rows.
  const uint16_t* narrow_b = nullptr;
  bool brain = false;
  int64_t panel_stride = 0;  // elements from one panel to the next: K * 16
  // B unpacked instead, whose element (p, j) is plain_b[p * row_stride + j * column_stride]; one of the strides is 1.
  const float* plain_b = nullptr;
  int64_t row_stride = 0, column_stride = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  int64_t m = 0, n = 0, k = 0;
  float alpha = 1;
  const float* bias = nullptr;      // [n] or null
  const float* residual = nullptr;  // or null
  int64_t ldr = 0;
  Epilogue epilogue;
};
inline constexpr int64_t kGemmDepth = 512;
inline constexpr int64_t kGemmNarrowRows = 4;
// Whether a product is best done as dot products with columns of B that have been made its rows: where there are few of
// them, most lanes would be empty.
inline constexpr bool gemm_takes_dots(int64_t n, int64_t k) { return n == 1 ? k >= 16 : n <= 4 && k >= 64; }
// Whether a product takes less time than packing B first. Where B is transposed it is dot products, which read B again
// for every four rows; one column is best read so in any case.
inline constexpr bool gemm_takes_plain(int64_t m, int64_t n, int64_t k, bool trans_b) {
  return (n == 1 && trans_b) || m <= (trans_b ? (k >= 256 ? 12 : 4) : 16);
}

struct GemmTable {
  void (*run)(const GemmTask& task);
  // Panels [first, last) of B[k,n], whose element (p, j) is b[p * row_stride + j * column_stride].
  void (*pack)(const float* b, int64_t row_stride, int64_t column_stride, int64_t k, int64_t n, int64_t first,
               int64_t last, float* packed);
};

const GemmTable& gemm_table();

}  // namespace tenon::cpu
