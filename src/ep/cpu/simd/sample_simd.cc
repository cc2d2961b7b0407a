#include "ep/cpu/simd/sample.h"

#include "ep/cpu/simd/nearest.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// Compilers make masked gathers of these loops, where the instruction set has them. An element that is not there is not
// read: it could be an infinity, which times a weight of 0 is no 0.
inline float element(const float* __restrict x, int32_t offset) { return offset >= 0 ? x[offset] : 0.0f; }

template <bool first>
void add_taps(const float* __restrict x, const SampleTaps& taps, int k, float* __restrict y, int64_t count) {
  const int32_t* const __restrict a = taps.offset[k], * const __restrict b = taps.offset[k + 1], * const __restrict c = taps.offset[k + 2], * const __restrict d = taps.offset[k + 3];
  const float* const __restrict p = taps.weight[k], * const __restrict q = taps.weight[k + 1], * const __restrict r = taps.weight[k + 2], * const __restrict s = taps.weight[k + 3];
  for (int64_t i = 0; i < count; ++i) {
    const float sum =
        element(x, a[i]) * p[i] + element(x, b[i]) * q[i] + element(x, c[i]) * r[i] + element(x, d[i]) * s[i];
    y[i] = first ? sum : y[i] + sum;
  }
}

void weighted(const float* x, const SampleTaps& taps, float* y, int64_t count) {
  int k = 0;
  if (taps.taps >= 4) {
    add_taps<true>(x, taps, 0, y, count);
    for (k = 4; k + 4 <= taps.taps; k += 4) add_taps<false>(x, taps, k, y, count);
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = 0;
  }
  for (; k < taps.taps; ++k) {
    const int32_t* const __restrict offset = taps.offset[k];
    const float* const __restrict weight = taps.weight[k];
    float* const __restrict out = y;
    for (int64_t i = 0; i < count; ++i) out[i] += element(x, offset[i]) * weight[i];
  }
}

// A coordinate on an axis of `length` elements: the element before it, or one far out, and how far it lies behind.
struct Place {
  VI32 low;
  VF32 part;
};

TENON_INLINE Place place_of(VF32 n, int32_t length, const GridPositions& grid) {
  const DF32 f;
  const auto size = static_cast<float>(length);
  const VF32 one = hn::Set(f, 1.0f), from = hn::Add(n, one), half = hn::Set(f, 0.5f);
  VF32 x = grid.align_corners ? hn::Mul(hn::Mul(from, half), hn::Set(f, size - 1))
                              : hn::Mul(hn::Sub(hn::Mul(from, hn::Set(f, size)), one), half);
  if (grid.border) {
    x = hn::Min(hn::Max(hn::IfThenZeroElse(hn::IsNaN(x), x), hn::Zero(f)), hn::Set(f, size - 1));
  } else {
    // Also a NaN.
    const auto near = hn::And(hn::Gt(x, hn::Set(f, -8.0f)), hn::Lt(x, hn::Set(f, size + 8)));
    x = hn::IfThenElse(near, x, hn::Set(f, -8.0f));
  }
  const VF32 low = hn::Floor(x);
  return {hn::ConvertTo(DI32(), low), hn::Sub(x, low)};
}

void linear_taps(const GridPositions& grid, int32_t* const* offset, float* const* weight) {
  const DF32 f;
  const DI32 d;
  const VI32 width = hn::Set(d, grid.width), none = hn::Set(d, -1), zero = hn::Zero(d);
  for (int64_t i = 0; i < grid.count; i += kLanes) {
    VF32 column, row;
    if (i + kLanes <= grid.count) {
      hn::LoadInterleaved2(f, grid.positions + 2 * i, column, row);
    } else {
      float rest[2 * kLanes] = {};
      for (int64_t j = 2 * i; j < 2 * grid.count; ++j) rest[j - 2 * i] = grid.positions[j];
      hn::LoadInterleaved2(f, rest, column, row);
    }
    const Place x = place_of(column, grid.width, grid), y = place_of(row, grid.height, grid);
    const VF32 one = hn::Set(f, 1.0f);
    for (int k = 0; k < 4; ++k) {
      const VI32 r = k / 2 == 0 ? y.low : hn::Add(y.low, hn::Set(d, 1));
      const VI32 c = k % 2 == 0 ? x.low : hn::Add(x.low, hn::Set(d, 1));
      const VI32 last_row = hn::Set(d, grid.height - 1), last_column = hn::Set(d, grid.width - 1);
      const VI32 near_r = hn::Min(hn::Max(r, zero), last_row), near_c = hn::Min(hn::Max(c, zero), last_column);
      VI32 at = hn::Add(hn::Mul(near_r, width), near_c);
      if (!grid.border) at = hn::IfThenElse(hn::And(hn::Eq(r, near_r), hn::Eq(c, near_c)), at, none);
      hn::StoreU(at, d, offset[k] + i);
      const VF32 down = k / 2 == 0 ? hn::Sub(one, y.part) : y.part, across = k % 2 == 0 ? hn::Sub(one, x.part) : x.part;
      hn::StoreU(hn::Mul(down, across), f, weight[k] + i);
    }
  }
}

}  // namespace

extern const SampleTable sample_table;
const SampleTable sample_table = {&linear_taps, &weighted};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
