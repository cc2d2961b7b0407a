#include "ep/cpu/simd/lines.h"

#include <algorithm>

#include "ep/cpu/ops/loops.h"
#include "ep/cpu/simd/nearest.h"
#include "ep/cpu/simd/wide.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// kVectors vectors of lines. What rounding takes from a sum is subtracted from its next element (Kahan's summation),
// which takes half the time of sums in double.
template <int kVectors, bool kExclusive>
void running_block(const float* x, float* y, int64_t length, int64_t step) {
  const DF32 f;
  VF32 sums[kVectors], lost[kVectors];
  for (int j = 0; j < kVectors; ++j) sums[j] = lost[j] = hn::Zero(f);
  for (int64_t k = 0; k < length; ++k, x += step, y += step) {
    for (int j = 0; j < kVectors; ++j) {
      const VF32 before = sums[j], added = hn::Sub(hn::LoadU(f, x + j * kLanes), lost[j]);
      sums[j] = hn::Add(before, added);
      const VF32 rest = hn::Sub(hn::Sub(sums[j], before), added);
      // Once a sum is infinite or NaN there is no rest.
      lost[j] = hn::IfThenElseZero(hn::IsFinite(rest), rest);
      hn::StoreU(kExclusive ? before : sums[j], f, y + j * kLanes);
    }
  }
}

template <bool kExclusive>
void running_sum_as(const float* x, float* y, int64_t length, int64_t step, int64_t n) {
  constexpr int kVectors = 4;
  int64_t i = 0;
  for (; i + kVectors * kLanes <= n; i += kVectors * kLanes)
    running_block<kVectors, kExclusive>(x + i, y + i, length, step);
  for (; i + kLanes <= n; i += kLanes) running_block<1, kExclusive>(x + i, y + i, length, step);
  for (; i < n; ++i) {
    float sum = 0, lost = 0;
    for (int64_t k = 0, at = i; k < length; ++k, at += step) {
      const float before = sum, added = x[at] - lost;
      sum = before + added;
      lost = (sum - before) - added;
      if (!__builtin_isfinite(lost)) lost = 0;
      y[at] = kExclusive ? before : sum;
    }
  }
}

void running_sum(const float* x, float* y, int64_t length, int64_t step, int64_t n, bool exclusive) {
  exclusive ? running_sum_as<true>(x, y, length, step, n) : running_sum_as<false>(x, y, length, step, n);
}

template <typename T, typename U>
void add(const T* a, const T* b, T* y, int64_t n) {
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(static_cast<U>(a[i]) + static_cast<U>(b[i]));
}

void add_rows(const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, x += x_stride, y += y_stride) {
    if (n < kWide) {
      for (int64_t i = 0; i < n; ++i) y[i] += x[i];
      continue;
    }
    // The last vector overlaps the one before it: a masked store would hold up the next row's loads behind it.
    const FW last = load_wide(y + n - kWide) + load_wide(x + n - kWide);
    for (int64_t i = 0; i + kWide < n; i += kWide) store_wide(y + i, load_wide(y + i) + load_wide(x + i));
    store_wide(y + n - kWide, last);
  }
}

template <int kVectors>
TENON_INLINE void weighted_block(const float* x, const int64_t* offsets, const float* factors, int64_t taps, float bias,
                                 FW* sums) {
  for (int j = 0; j < kVectors; ++j) sums[j] = set_wide(bias);
  for (int64_t t = 0; t < taps; ++t) {
    const FW factor = set_wide(factors[t]);
    for (int j = 0; j < kVectors; ++j) sums[j] = fma8(factor, load_wide(x + offsets[t] + j * kWide), sums[j]);
  }
}

void weighted_sum(const float* x, const int64_t* offsets, const float* factors, int64_t taps, float bias, int64_t n,
                  float* y) {
  constexpr int kVectors = 4;
  int64_t i = 0;
  for (; i + kVectors * kWide <= n; i += kVectors * kWide) {
    FW sums[kVectors];
    weighted_block<kVectors>(x + i, offsets, factors, taps, bias, sums);
    for (int j = 0; j < kVectors; ++j) store_wide(y + i + j * kWide, sums[j]);
  }
  for (; i < n; i += kWide) {
    FW sum[1];
    weighted_block<1>(x + i, offsets, factors, taps, bias, sum);
    if (i + kWide <= n) {
      store_wide(y + i, sum[0]);
      continue;
    }
    float rest[kWide];
    store_wide(rest, sum[0]);
    std::copy_n(rest, n - i, y + i);
  }
}

// kVectors vectors of columns.
template <int kVectors, bool kLargest, bool kLast>
void arg_block(const float* x, int64_t length, int64_t inner, int64_t* y) {
  const DF32 f;
  const DI32 d;
  VF32 best[kVectors];
  VI32 at[kVectors];
  for (int j = 0; j < kVectors; ++j) {
    best[j] = hn::LoadU(f, x + j * kLanes);
    at[j] = hn::Zero(d);
  }
  for (int64_t k = 1; k < length; ++k) {
    const VI32 row = hn::Set(d, static_cast<int32_t>(k));
    for (int j = 0; j < kVectors; ++j) {
      const VF32 v = hn::LoadU(f, x + k * inner + j * kLanes), b = best[j];
      const auto nan = hn::IsNaN(v), kept_nan = hn::IsNaN(b);
      auto takes = hn::Or(kLargest ? hn::Gt(v, b) : hn::Lt(v, b), hn::AndNot(kept_nan, nan));
      if (kLast) takes = hn::Or(takes, hn::Or(hn::Eq(v, b), hn::And(nan, kept_nan)));
      best[j] = hn::IfThenElse(takes, v, b);
      at[j] = hn::IfThenElse(hn::RebindMask(d, takes), row, at[j]);
    }
  }
  alignas(64) int32_t places[kVectors * kLanes];
  for (int j = 0; j < kVectors; ++j) hn::Store(at[j], d, places + j * kLanes);
  for (int64_t i = 0; i < kVectors * kLanes; ++i) y[i] = places[i];
}

template <bool kLargest, bool kLast>
void arg_columns_as(const float* x, int64_t length, int64_t inner, int64_t columns, int64_t* y) {
  constexpr int kVectors = 4;
  int64_t i = 0;
  for (; i + kVectors * kLanes <= columns; i += kVectors * kLanes)
    arg_block<kVectors, kLargest, kLast>(x + i, length, inner, y + i);
  for (; i + kLanes <= columns; i += kLanes) arg_block<1, kLargest, kLast>(x + i, length, inner, y + i);
  for (; i < columns; ++i) {
    int64_t best = 0;
    for (int64_t k = 1; k < length; ++k) {
      const float v = x[k * inner + i], b = x[best * inner + i];
      const bool nan = v != v, kept_nan = b != b;
      if ((kLargest ? v > b : v < b) || (nan && !kept_nan) || (kLast && (v == b || (nan && kept_nan)))) best = k;
    }
    y[i] = best;
  }
}

void arg_columns(const float* x, int64_t length, int64_t inner, int64_t columns, bool largest, bool last, int64_t* y) {
  if (largest && last) return arg_columns_as<true, true>(x, length, inner, columns, y);
  if (largest) return arg_columns_as<true, false>(x, length, inner, columns, y);
  if (last) return arg_columns_as<false, true>(x, length, inner, columns, y);
  arg_columns_as<false, false>(x, length, inner, columns, y);
}

template <int kVectors>
void distances_of(const float* x, const float* columns, int64_t stride, int64_t length, float* y) {
  const DF32 f;
  VF32 sums[kVectors];
  for (int j = 0; j < kVectors; ++j) sums[j] = hn::Zero(f);
  for (int64_t i = 0; i < length; ++i) {
    const VF32 v = hn::Set(f, x[i]);
    for (int j = 0; j < kVectors; ++j) {
      const VF32 d = hn::Sub(v, hn::LoadU(f, columns + i * stride + j * kLanes));
      sums[j] = hn::MulAdd(d, d, sums[j]);
    }
  }
  for (int j = 0; j < kVectors; ++j) hn::StoreU(sums[j], f, y + j * kLanes);
}

void square_distances(const float* x, const float* columns, int64_t stride, int64_t length, int64_t n, float* y) {
  constexpr int kVectors = 8;
  int64_t j = 0;
  for (; j + kVectors * kLanes <= n; j += kVectors * kLanes)
    distances_of<kVectors>(x, columns + j, stride, length, y + j);
  for (; j + kLanes <= n; j += kLanes) distances_of<1>(x, columns + j, stride, length, y + j);
  for (; j < n; ++j) {
    float sum = 0;
    for (int64_t i = 0; i < length; ++i) {
      const float d = x[i] - columns[i * stride + j];
      sum += d * d;
    }
    y[j] = sum;
  }
}

int64_t find(const float* x, int64_t n, float value) {
  const DF32 f;
  const VF32 wanted = hn::Set(f, value);
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    auto found = hn::Eq(hn::LoadU(f, x + i), wanted);
    for (int j = 1; j < 4; ++j) found = hn::Or(found, hn::Eq(hn::LoadU(f, x + i + j * kLanes), wanted));
    if (!hn::AllFalse(f, found)) break;
  }
  for (; i + kLanes <= n; i += kLanes) {
    const auto found = hn::Eq(hn::LoadU(f, x + i), wanted);
    if (!hn::AllFalse(f, found)) break;
  }
  while (i < n && x[i] != value) ++i;
  return i;
}

float squares(const float* x, int64_t n, float mean) {
  const DF32 f;
  const VF32 centre = hn::Set(f, mean);
  VF32 sums[4] = {hn::Zero(f), hn::Zero(f), hn::Zero(f), hn::Zero(f)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) {
      const VF32 d = hn::Sub(hn::LoadU(f, x + i + j * kLanes), centre);
      sums[j] = hn::MulAdd(d, d, sums[j]);
    }
  }
  for (; i + kLanes <= n; i += kLanes) {
    const VF32 d = hn::Sub(hn::LoadU(f, x + i), centre);
    sums[0] = hn::MulAdd(d, d, sums[0]);
  }
  float result = hn::GetLane(hn::SumOfLanes(f, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
  for (; i < n; ++i) result += (x[i] - mean) * (x[i] - mean);
  return result;
}

void standardise(const float* x, float* y, int64_t n, float mean, float factor, float offset) {
  const DF32 f;
  const VF32 m = hn::Set(f, mean), s = hn::Set(f, factor), o = hn::Set(f, offset);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::MulAdd(hn::Sub(hn::LoadU(f, x + i), m), s, o), f, y + i);
  for (; i < n; ++i) y[i] = (x[i] - mean) * factor + offset;
}

TENON_INLINE void turn_pair(float a, float b, float c, float s, float* first, float* second) {
  *first = c * a - s * b;
  *second = s * a + c * b;
}

void turn(const float* x, const float* c, const float* s, int64_t rows, int64_t step, int64_t angle_step, int64_t pairs,
          float* y) {
  const DF32 f;
  for (int64_t r = 0; r < rows; ++r, x += step, y += step, c += angle_step, s += angle_step) {
    int64_t i = 0;
    for (; i + kLanes <= pairs; i += kLanes) {
      const VF32 a = hn::LoadU(f, x + i), b = hn::LoadU(f, x + pairs + i);
      const VF32 cosine = hn::LoadU(f, c + i), sine = hn::LoadU(f, s + i);
      hn::StoreU(hn::NegMulAdd(sine, b, hn::Mul(cosine, a)), f, y + i);
      hn::StoreU(hn::MulAdd(sine, a, hn::Mul(cosine, b)), f, y + pairs + i);
    }
    for (; i < pairs; ++i) turn_pair(x[i], x[pairs + i], c[i], s[i], y + i, y + pairs + i);
  }
}

void turn_interleaved(const float* x, const float* c, const float* s, int64_t rows, int64_t step, int64_t angle_step,
                      int64_t pairs, float* y) {
  const DF32 f;
  for (int64_t r = 0; r < rows; ++r, x += step, y += step, c += angle_step, s += angle_step) {
    int64_t i = 0;
    for (; i + kLanes <= pairs; i += kLanes) {
      VF32 a, b;
      hn::LoadInterleaved2(f, x + 2 * i, a, b);
      const VF32 cosine = hn::LoadU(f, c + i), sine = hn::LoadU(f, s + i);
      hn::StoreInterleaved2(hn::NegMulAdd(sine, b, hn::Mul(cosine, a)), hn::MulAdd(sine, a, hn::Mul(cosine, b)), f,
                            y + 2 * i);
    }
    for (; i < pairs; ++i) turn_pair(x[2 * i], x[2 * i + 1], c[i], s[i], y + 2 * i, y + 2 * i + 1);
  }
}

template <typename T>
void twice(const void* x, int64_t n, int64_t rows, void* y) {
  const hn::CappedTag<T, 64 / sizeof(T)> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* const from = static_cast<const T*>(x);
  T* const to = static_cast<T*>(y);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, from + i);
    for (int64_t r = 0; r < rows; ++r) hn::StoreInterleaved2(v, v, d, to + 2 * (r * n + i));
  }
  for (; i < n; ++i)
    for (int64_t r = 0; r < rows; ++r) to[2 * (r * n + i)] = to[2 * (r * n + i) + 1] = from[i];
}

}  // namespace

extern const LineTable line_table;
const LineTable line_table = {&running_sum,
                              &add<int32_t, uint32_t>,
                              &add<int64_t, uint64_t>,
                              &add_rows,
                              &weighted_sum,
                              &arg_columns,
                              &square_distances,
                              &find,
                              &squares,
                              &standardise,
                              &turn,
                              &turn_interleaved,
                              &twice<uint8_t>,
                              &twice<uint16_t>,
                              &twice<uint32_t>};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
