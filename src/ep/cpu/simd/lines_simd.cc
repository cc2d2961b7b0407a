#include "ep/cpu/simd/lines.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "ep/cpu/ops/loops.h"
#include "ep/cpu/simd/nearest.h"
#include "ep/cpu/simd/wide.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

template <typename T>
using LineTag = hn::CappedTag<T, 64 / sizeof(T)>;

// kVectors vectors of lines, of which the last one has `count`. What rounding takes from a sum of float32 is subtracted
// from its next element (Kahan's summation), which takes half the time of sums in double.
template <typename T, int kVectors>
void running_block(const T* x, T* y, int64_t length, int64_t step, int64_t count) {
  const LineTag<T> d;
  using V = hn::Vec<LineTag<T>>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
#if HWY_MAX_BYTES >= 64
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  const auto load = [&](const T* p) { return kVectors == 1 ? hn::MaskedLoad(mask, d, p) : hn::LoadU(d, p); };
  const auto store = [&](V v, T* p) { kVectors == 1 ? hn::BlendedStore(v, mask, d, p) : hn::StoreU(v, d, p); };
#else
  (void)count;
  const auto load = [&](const T* p) { return hn::LoadU(d, p); };
  const auto store = [&](V v, T* p) { hn::StoreU(v, d, p); };
#endif
  V sums[kVectors], lost[kVectors];
  for (int j = 0; j < kVectors; ++j) sums[j] = lost[j] = hn::Zero(d);
  for (int64_t k = 0; k < length; ++k, x += step, y += step) {
    for (int j = 0; j < kVectors; ++j) {
      if constexpr (std::is_same_v<T, float>) {
        const V before = sums[j], added = hn::Sub(load(x + j * lanes), lost[j]);
        sums[j] = hn::Add(before, added);
        const V rest = hn::Sub(hn::Sub(sums[j], before), added);
        // Once a sum is infinite or NaN there is no rest.
        lost[j] = hn::IfThenElseZero(hn::IsFinite(rest), rest);
      } else {
        sums[j] = hn::Add(sums[j], load(x + j * lanes));
      }
      store(sums[j], y + j * lanes);
    }
  }
}

// The same for float32 by sums in double, 8 lines or fewer with 512 bits: where few vectors go side by side, each of
// the steps above would wait for the one before it.
void running_doubles(const float* x, float* y, int64_t length, int64_t step, int64_t count) {
  const LineTag<double> d;
  const hn::Rebind<float, LineTag<double>> f;
#if HWY_MAX_BYTES >= 64
  const auto mask = hn::FirstN(f, static_cast<size_t>(count));
#else
  (void)count;
#endif
  auto sum = hn::Zero(d);
  for (int64_t k = 0; k < length; ++k, x += step, y += step) {
#if HWY_MAX_BYTES >= 64
    sum = hn::Add(sum, hn::PromoteTo(d, hn::MaskedLoad(mask, f, x)));
    hn::BlendedStore(hn::DemoteTo(f, sum), mask, f, y);
#else
    sum = hn::Add(sum, hn::PromoteTo(d, hn::LoadU(f, x)));
    hn::StoreU(hn::DemoteTo(f, sum), f, y);
#endif
  }
}

template <typename T>
void running_sum(const T* x, T* y, int64_t length, int64_t step, int64_t n, bool exclusive) {
  if (exclusive && length > 0) {
    for (int64_t i = 0; i < n; ++i) y[i] = T(0);
    y += step;
    --length;
  }
  constexpr int kVectors = 4;
  constexpr bool kDoubles = std::is_same_v<T, float>;
  const auto whole = static_cast<int64_t>(hn::Lanes(LineTag<T>())), lanes = kDoubles ? whole / 2 : whole;
  const auto run_one = [&](int64_t at, int64_t count) {
    if constexpr (kDoubles) {
      running_doubles(x + at, y + at, length, step, count);
    } else {
      running_block<T, 1>(x + at, y + at, length, step, count);
    }
  };
  if constexpr (!kDoubles) {
    // Whole rows: those of many lines may be so far apart that few of their cache lines fit at a time.
    if (n >= kVectors * whole && length > 0) {
      const LineTag<T> d;
      for (int64_t i = 0; i < n; ++i) y[i] = x[i];
      for (int64_t k = 1; k < length; ++k) {
        x += step;
        y += step;
        for (int64_t i = 0; i < n; i += whole) {
          const int64_t at = i + whole <= n ? i : n - whole;
          hn::StoreU(hn::Add(hn::LoadU(d, y - step + at), hn::LoadU(d, x + at)), d, y + at);
        }
      }
      return;
    }
  }
  int64_t i = 0;
  for (; kDoubles && i + kVectors * whole <= n; i += kVectors * whole)
    running_block<T, kVectors>(x + i, y + i, length, step, whole);
  for (; i + lanes <= n; i += lanes) run_one(i, lanes);
  if (i == n) return;
  if (HWY_MAX_BYTES >= 64) return run_one(i, n - i);
  // The last vector overlaps the one before it.
  if (n >= lanes) return run_one(n - lanes, lanes);
  for (; i < n; ++i) {
    using A = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
    A sum = 0;
    for (int64_t k = 0, at = i; k < length; ++k, at += step) y[at] = static_cast<T>(sum += static_cast<A>(x[at]));
  }
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

#if HWY_MAX_BYTES >= 32
// The k first so far are sorted, each line in its lane. An element that is not among them in any lane costs a
// comparison; another one moves those behind it.
template <typename T>
void top_vector(const TopLines<T>& lines, int64_t first) {
  const LineTag<T> d;
  using V = hn::Vec<LineTag<T>>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto inside = hn::FirstN(d, static_cast<size_t>(std::min(lanes, lines.n - first)));
  const V magnitude = hn::Set(d, lines.magnitude), infinity = hn::Set(d, lines.infinity), flip = hn::Set(d, lines.flip);
  const V nan = hn::Xor(hn::Set(d, std::numeric_limits<T>::max()), flip);
  // Negative NaNs lie below everything: of the largest they are the first all the same.
  const bool below = lines.magnitude != 0 && lines.flip == 0;
  const V low = hn::Set(d, below ? ~lines.infinity : std::numeric_limits<T>::min());
  alignas(64) T keys[kMostTop * kTopLines];
  std::fill_n(keys, lines.k * lanes, T(0));
  T* const order = lines.order + first;
  const int64_t last = lines.k - 1;
  V worst = low;
  const T* x = lines.x + first;
  for (int64_t i = 0; i < lines.length; ++i, x += lines.step) {
    const V bits = hn::MaskedLoad(inside, d, x);
    V key = hn::Xor(hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), magnitude)), flip);
    auto moves = hn::Or(hn::Gt(key, worst), hn::Lt(key, low));
    if (i > last && hn::AllFalse(d, moves)) continue;
    if (lines.magnitude != 0) {
      const V size = hn::And(bits, magnitude);
      key = hn::IfThenElse(hn::Eq(size, hn::Zero(d)), flip, key);
      key = hn::IfThenElse(hn::Gt(size, infinity), nan, key);
    }
    moves = i > last ? hn::Gt(key, worst) : hn::Eq(key, key);
    int64_t j = std::min(i, last);
    const V place = hn::Set(d, static_cast<T>(i));
    const auto put = [&](V other_key, V other_place, decltype(moves) others) {
      T *const to = keys + j * lanes, *const at = order + j * kTopLines;
      const V kept = hn::IfThenElse(moves, key, hn::Load(d, to)),
              stays = hn::IfThenElse(moves, place, hn::LoadU(d, at));
      hn::Store(hn::IfThenElse(others, other_key, kept), d, to);
      hn::StoreU(hn::IfThenElse(others, other_place, stays), d, at);
    };
    for (; j > 0; --j) {
      const V before = hn::Load(d, keys + (j - 1) * lanes);
      const auto larger = hn::And(moves, hn::Gt(key, before));
      if (hn::AllFalse(d, larger)) break;
      put(before, hn::LoadU(d, order + (j - 1) * kTopLines), larger);
      moves = larger;
    }
    put(key, place, moves);
    if (i >= last) worst = hn::Load(d, keys + last * lanes);
  }
}
#endif

template <typename T>
bool top_lines([[maybe_unused]] const TopLines<T>& lines) {
#if HWY_MAX_BYTES >= 32
  constexpr int64_t kFewest = 4, kMost = int64_t{1} << 31;
  if (lines.n < kFewest || lines.k < 1 || lines.k > kMostTop || lines.length >= kMost) return false;
  for (int64_t i = 0; i < lines.n; i += static_cast<int64_t>(hn::Lanes(LineTag<T>()))) top_vector(lines, i);
  return true;
#else
  return false;
#endif
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
#if HWY_MAX_BYTES >= 32
  if (i < n) {
    const auto first = hn::FirstN(f, static_cast<size_t>(n - i));
    const VF32 d = hn::IfThenElseZero(first, hn::Sub(hn::MaskedLoad(first, f, x + i), centre));
    sums[1] = hn::MulAdd(d, d, sums[1]);
    i = n;
  }
#endif
  float result = hn::GetLane(hn::SumOfLanes(f, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
  for (; i < n; ++i) result += (x[i] - mean) * (x[i] - mean);
  return result;
}

void standardise(const float* x, float* y, int64_t n, float mean, float factor, float offset) {
  const DF32 f;
  const VF32 m = hn::Set(f, mean), s = hn::Set(f, factor), o = hn::Set(f, offset);
  const auto at = [&](int64_t i) { return hn::MulAdd(hn::Sub(hn::LoadU(f, x + i), m), s, o); };
  int64_t i = 0;
  if (n >= kLanes) {
    // Overlaps the vector before it, which may take the place of what it reads.
    const VF32 last = at(n - kLanes);
    for (; i + kLanes <= n; i += kLanes) hn::StoreU(at(i), f, y + i);
    hn::StoreU(last, f, y + n - kLanes);
    return;
  }
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
const LineTable line_table = {&running_sum<float>,
                              &running_sum<double>,
                              &running_sum<int32_t>,
                              &running_sum<int64_t>,
                              &add_rows,
                              &weighted_sum,
                              &arg_columns,
                              &top_lines<int32_t>,
                              &top_lines<int64_t>,
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
