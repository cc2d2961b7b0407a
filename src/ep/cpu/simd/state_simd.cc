#include "ep/cpu/simd/state.h"

#include "ep/cpu/simd/wide.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int kTile = 4;  // vectors of columns whose sums stay in registers

TENON_INLINE FW load_columns(const float* p, int64_t count) {
  return count == kWide ? load_wide(p) : load_part_wide(p, count, 0.0f);
}
TENON_INLINE void store_columns(float* p, int64_t count, FW x) {
  if (count == kWide) {
    store_wide(p, x);
  } else {
    store_part_wide(p, count, x);
  }
}

// kVectors vectors of columns; of a single one `count` columns count.
template <int kVectors>
TENON_INLINE void read_columns(const float* state, const float* x, float scale, int64_t depth, int64_t width,
                               int64_t count, float* y) {
  FW sums[kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) sums[i] = zero_wide();
  for (int64_t d = 0; d < depth; ++d) {
    const FW factor = set_wide(x[d]);
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      const FW row = kVectors == 1 ? load_columns(state + d * width, count) : load_wide(state + d * width + i * kWide);
      sums[i] = fma8(factor, row, sums[i]);
    }
  }
  const FW times = set_wide(scale);
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    store_columns(y + i * kWide, kVectors == 1 ? count : kWide, sums[i] * times);
  }
}

template <int kVectors>
TENON_INLINE void update_columns(float* state, const float* factor, const float* k, const float* v, const float* q,
                                 float scale, int64_t depth, int64_t width, int64_t count, float* y) {
  const int64_t lanes = kVectors == 1 ? count : kWide;
  FW sums[kVectors], values[kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) sums[i] = zero_wide(), values[i] = load_columns(v + i * kWide, lanes);
  for (int64_t d = 0; d < depth; ++d) {
    const FW kept = set_wide(factor[d]), key = set_wide(k[d]), query = set_wide(q[d]);
    float* const row = state + d * width;
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      const FW changed = fma8(key, values[i], kept * load_columns(row + i * kWide, lanes));
      store_columns(row + i * kWide, lanes, changed);
      sums[i] = fma8(query, changed, sums[i]);
    }
  }
  const FW times = set_wide(scale);
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) store_columns(y + i * kWide, lanes, sums[i] * times);
}

void read(const float* state, const float* x, float scale, int64_t depth, int64_t width, float* y) {
  int64_t at = 0;
  for (; at + kTile * kWide <= width; at += kTile * kWide)
    read_columns<kTile>(state + at, x, scale, depth, width, kWide, y + at);
  for (; at < width; at += kWide) {
    const int64_t count = width - at < kWide ? width - at : kWide;
    read_columns<1>(state + at, x, scale, depth, width, count, y + at);
  }
}

void update(float* state, const float* factor, const float* k, const float* v, const float* q, float scale,
            int64_t depth, int64_t width, float* y) {
  int64_t at = 0;
  for (; at + kTile * kWide <= width; at += kTile * kWide)
    update_columns<kTile>(state + at, factor, k, v + at, q, scale, depth, width, kWide, y + at);
  for (; at < width; at += kWide) {
    const int64_t count = width - at < kWide ? width - at : kWide;
    update_columns<1>(state + at, factor, k, v + at, q, scale, depth, width, count, y + at);
  }
}

}  // namespace

extern const StateTable state_table;
const StateTable state_table = {&read, &update};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
