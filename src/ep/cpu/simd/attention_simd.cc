#include "ep/cpu/simd/attention.h"

#include "ep/cpu/simd/wide.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// kKeys dot products at once: q is loaded once for all of them.
template <int kKeys>
TENON_INLINE void dots(const float* q, const float* k, int64_t row, int64_t depth, float factor, float* scores) {
  FW sum[kKeys];
#pragma GCC unroll 4
  for (int j = 0; j < kKeys; ++j) sum[j] = zero_wide();
  int64_t i = 0;
  for (; i + kWide <= depth; i += kWide) {
    const FW x = load_wide(q + i);
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) sum[j] = fma8(x, load_wide(k + j * row + i), sum[j]);
  }
  if (i < depth) {
    const FW x = load_part_wide(q + i, depth - i, 0);
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) sum[j] = fma8(x, load_part_wide(k + j * row + i, depth - i, 0), sum[j]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < kKeys; ++j) scores[j] = factor * sum8(sum[j]);
}

void scores_of(const float* q, const float* k, int64_t row, int64_t n, int64_t depth, float factor, float* scores) {
  int64_t s = 0;
  for (; s + 4 <= n; s += 4) dots<4>(q, k + s * row, row, depth, factor, scores + s);
  for (; s < n; ++s) dots<1>(q, k + s * row, row, depth, factor, scores + s);
}

// Columns [0, kColumns) of y.
template <int kColumns>
TENON_INLINE void sum_columns(const float* weights, const float* v, int64_t row, int64_t n, float y_factor, float* y) {
  constexpr int kVectors = kColumns / static_cast<int>(kWide);
  FW sum[kVectors];
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j)
    sum[j] = y_factor == 0 ? zero_wide() : load_wide(y + kWide * j) * set_wide(y_factor);
  for (int64_t s = 0; s < n; ++s) {
    const FW weight = set_wide(weights[s]);
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sum[j] = fma8(weight, load_wide(v + s * row + kWide * j), sum[j]);
  }
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) store_wide(y + kWide * j, sum[j]);
}

void weighted_sum(const float* weights, const float* v, int64_t row, int64_t n, int64_t width, float y_factor,
                  float* y) {
  int64_t i = 0;
  for (; i + 64 <= width; i += 64) sum_columns<64>(weights, v + i, row, n, y_factor, y + i);
  for (; i + 16 <= width; i += 16) sum_columns<16>(weights, v + i, row, n, y_factor, y + i);
  for (; i < width; i += kWide) {
    const int64_t count = width - i < kWide ? width - i : kWide;
    FW sum = y_factor == 0 ? zero_wide() : load_part_wide(y + i, count, 0) * set_wide(y_factor);
    for (int64_t s = 0; s < n; ++s) sum = fma8(set_wide(weights[s]), load_part_wide(v + s * row + i, count, 0), sum);
    store_part_wide(y + i, count, sum);
  }
}

}  // namespace

extern const AttentionTable attention_table;
const AttentionTable attention_table = {&scores_of, &weighted_sum};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
