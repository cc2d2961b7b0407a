#include "ep/cpu/simd/attention.h"

#include "ep/cpu/simd/f8.h"
#include "ep/cpu/simd/tail8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// kKeys dot products at once: q is loaded once for all of them.
template <int kKeys>
TENON_INLINE void dots(const float* q, const float* k, int64_t row, int64_t depth, float factor, float* scores) {
  F8 sum[kKeys];
#pragma GCC unroll 4
  for (int j = 0; j < kKeys; ++j) sum[j] = zero8();
  int64_t i = 0;
  for (; i + 8 <= depth; i += 8) {
    const F8 x = load8(q + i);
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) sum[j] = fma8(x, load8(k + j * row + i), sum[j]);
  }
  if (i < depth) {
    const F8 x = load_part8(q + i, depth - i, 0);
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) sum[j] = fma8(x, load_part8(k + j * row + i, depth - i, 0), sum[j]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < kKeys; ++j) scores[j] = factor * sum8(sum[j]);
}

void scores_of(const float* q, const float* k, int64_t row, int64_t n, int64_t depth, float factor, float* scores) {
  int64_t s = 0;
  for (; s + 4 <= n; s += 4) dots<4>(q, k + s * row, row, depth, factor, scores + s);
  for (; s < n; ++s) dots<1>(q, k + s * row, row, depth, factor, scores + s);
}

// Columns [0, 8 * kEights) of y.
template <int kEights>
TENON_INLINE void sum_columns(const float* weights, const float* v, int64_t row, int64_t n, float y_factor, float* y) {
  F8 sum[kEights];
#pragma GCC unroll 8
  for (int j = 0; j < kEights; ++j) sum[j] = y_factor == 0 ? zero8() : load8(y + 8 * j) * set8(y_factor);
  for (int64_t s = 0; s < n; ++s) {
    const F8 weight = set8(weights[s]);
#pragma GCC unroll 8
    for (int j = 0; j < kEights; ++j) sum[j] = fma8(weight, load8(v + s * row + 8 * j), sum[j]);
  }
#pragma GCC unroll 8
  for (int j = 0; j < kEights; ++j) store8(y + 8 * j, sum[j]);
}

void weighted_sum(const float* weights, const float* v, int64_t row, int64_t n, int64_t width, float y_factor,
                  float* y) {
  int64_t i = 0;
  for (; i + 64 <= width; i += 64) sum_columns<8>(weights, v + i, row, n, y_factor, y + i);
  for (; i + 16 <= width; i += 16) sum_columns<2>(weights, v + i, row, n, y_factor, y + i);
  for (; i < width; i += 8) {
    const int64_t count = width - i < 8 ? width - i : 8;
    F8 sum = y_factor == 0 ? zero8() : load_part8(y + i, count, 0) * set8(y_factor);
    for (int64_t s = 0; s < n; ++s) sum = fma8(set8(weights[s]), load_part8(v + s * row + i, count, 0), sum);
    store_part8(y + i, count, sum);
  }
}

}  // namespace

extern const AttentionTable attention_table;
const AttentionTable attention_table = {&scores_of, &weighted_sum};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
