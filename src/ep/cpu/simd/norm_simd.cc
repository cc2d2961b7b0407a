#include "ep/cpu/simd/norm.h"

#include "ep/cpu/simd/math8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr float kLowest = -3.40282347e38f;
constexpr float kInfinity = __builtin_inff();
// Columns that are worked on together: four cache lines of each row.
constexpr int64_t kColumnBlock = 64;

TENON_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Calls body(index, count) for 0, kWide, 2 * kWide, ...; count is kWide but for the last.
template <typename Body>
TENON_INLINE void for_wides(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kWide <= n; i += kWide) body(i, kWide);
  if (i < n) body(i, n - i);
}

TENON_INLINE FW load_some(const float* p, int64_t count, float fill) {
  return count == kWide ? load_wide(p) : load_part_wide(p, count, fill);
}

TENON_INLINE void store_some(float* p, int64_t count, FW a) {
  if (count == kWide) {
    store_wide(p, a);
  } else {
    store_part_wide(p, count, a);
  }
}

float row_maximum(const float* x, int64_t n) {
  FW a = set_wide(-kInfinity), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * kWide <= n; i += 4 * kWide) {
    a = max8(a, load_wide(x + i));
    b = max8(b, load_wide(x + i + kWide));
    c = max8(c, load_wide(x + i + 2 * kWide));
    d = max8(d, load_wide(x + i + 3 * kWide));
  }
  for_wides(n - i, [&](int64_t j, int64_t count) { a = max8(a, load_some(x + i + j, count, -kInfinity)); });
  return maximum8(max8(max8(a, b), max8(c, d)));
}

template <bool kStores>
TENON_INLINE float row_exponentials_as(const float* x, float* y, int64_t n, float top) {
  const FW maximum = set_wide(top);
  FW a = zero_wide(), b = zero_wide();
  int64_t i = 0;
  for (; i + 2 * kWide <= n; i += 2 * kWide) {
    const FW e = exp8_bounded(load_wide(x + i) - maximum), f = exp8_bounded(load_wide(x + i + kWide) - maximum);
    if constexpr (kStores) store_wide(y + i, e), store_wide(y + i + kWide, f);
    a = a + e;
    b = b + f;
  }
  for_wides(n - i, [&](int64_t j, int64_t count) {
    const FW e = exp8_bounded(load_some(x + i + j, count, -kInfinity) - maximum);
    a = a + e;
    if constexpr (kStores) store_some(y + i + j, count, e);
  });
  return sum8(a + b);
}

float row_exponentials(const float* x, float* y, int64_t n, float top) {
  return y != nullptr ? row_exponentials_as<true>(x, y, n, top) : row_exponentials_as<false>(x, y, n, top);
}

void softmax_rows(const float* x, float* y, int64_t rows, int64_t n, bool log) {
  for (int64_t row = 0; row < rows; ++row, x += n, y += n) {
    const float top = row_maximum(x, n);
    if (log) {
      const FW maximum = set_wide(top);
      float logs[kWide];
      store_wide(logs, log8(set_wide(row_exponentials(x, nullptr, n, top))));
      const FW shift = set_wide(logs[0]);
      for_wides(
          n, [&](int64_t i, int64_t count) { store_some(y + i, count, load_some(x + i, count, 0) - maximum - shift); });
      continue;
    }
    const FW factor = set_wide(1.0f / row_exponentials(x, y, n, top));
    for_wides(n, [&](int64_t i, int64_t count) { store_some(y + i, count, load_some(y + i, count, 0) * factor); });
  }
}

void softmax_columns(const float* x, float* y, int64_t n, int64_t inner, int64_t first, int64_t last, bool log) {
  float maxima[kColumnBlock], sums[kColumnBlock];
  for (int64_t c0 = first; c0 < last; c0 += kColumnBlock) {
    const int64_t width = least(kColumnBlock, last - c0);
    for (int64_t j = 0; j < kColumnBlock; ++j) maxima[j] = -kInfinity, sums[j] = 0;
    for (int64_t p = 0; p < n; ++p)
      for_wides(width, [&](int64_t j, int64_t count) {
        store_wide(maxima + j, max8(load_wide(maxima + j), load_some(x + p * inner + c0 + j, count, 0)));
      });
    for (int64_t p = 0; p < n; ++p)
      for_wides(width, [&](int64_t j, int64_t count) {
        const FW e = exp8_bounded(load_some(x + p * inner + c0 + j, count, 0) - load_wide(maxima + j));
        store_wide(sums + j, load_wide(sums + j) + e);
        if (!log) store_some(y + p * inner + c0 + j, count, e);
      });
    for (int64_t j = 0; j < kColumnBlock; j += kWide) {
      const FW s = load_wide(sums + j);
      store_wide(sums + j, log ? log8(s) : set_wide(1.0f) / s);
    }
    for (int64_t p = 0; p < n; ++p)
      for_wides(width, [&](int64_t j, int64_t count) {
        float* const out = y + p * inner + c0 + j;
        store_some(out, count,
                   log ? load_some(x + p * inner + c0 + j, count, 0) - load_wide(maxima + j) - load_wide(sums + j)
                       : load_some(out, count, 0) * load_wide(sums + j));
      });
  }
}

float exponentials(float* s, const float* mask, int64_t mask_stride, int64_t n, float* top) {
  if (mask != nullptr) {
    const FW same = set_wide(mask[0]);
    for_wides(n, [&](int64_t i, int64_t count) {
      const FW m = mask_stride == 0 ? same : load_some(mask + i, count, 0);
      store_some(s + i, count, load_some(s + i, count, 0) + m);
    });
  }
  const float largest = row_maximum(s, n);
  if (!(largest <= *top)) *top = largest;
  if (*top < kLowest) *top = kLowest;  // all -infinity: e^(-inf - lowest) is 0, where -inf - -inf would be NaN
  return row_exponentials(s, s, n, *top);
}

void scale_rows(float* y, int64_t row_stride, int64_t rows, int64_t n, const float* factors) {
  for (int64_t row = 0; row < rows; ++row, y += row_stride) {
    const FW factor = set_wide(factors[row]);
    for_wides(n, [&](int64_t i, int64_t count) { store_some(y + i, count, load_some(y + i, count, 0) * factor); });
  }
}

void layer_norm(const LayerNormTask& t) {
  const float count = static_cast<float>(t.n);
  for (int64_t row = 0; row < t.rows; ++row) {
    const float* x = t.x + row * t.n;
    float* const y = t.y + row * t.n;
    FW sum0 = zero_wide(), sum1 = zero_wide();
    // With a skip the sum is kept (in y if nobody asks for it) and read again from L1.
    if (t.skip != nullptr) {
      const float* const skip = t.skip + row * t.n;
      float* const kept = t.sum != nullptr ? t.sum + row * t.n : y;
      for_wides(t.n, [&](int64_t i, int64_t part) {
        const FW v = load_some(x + i, part, 0) + load_some(skip + i, part, 0);
        store_some(kept + i, part, v);
        sum0 = sum0 + v;
      });
      x = kept;
    } else {
      int64_t i = 0;
      for (; i + 2 * kWide <= t.n; i += 2 * kWide) {
        sum0 = sum0 + load_wide(x + i);
        sum1 = sum1 + load_wide(x + i + kWide);
      }
      for_wides(t.n - i, [&](int64_t j, int64_t part) { sum0 = sum0 + load_some(x + i + j, part, 0); });
      if (t.sum != nullptr)
        for_wides(t.n,
                  [&](int64_t j, int64_t part) { store_some(t.sum + row * t.n + j, part, load_some(x + j, part, 0)); });
    }
    const float mean = t.subtract_mean ? sum8(sum0 + sum1) / count : 0;
    const FW m = set_wide(mean);
    FW square0 = zero_wide(), square1 = zero_wide();
    int64_t i = 0;
    for (; i + 2 * kWide <= t.n; i += 2 * kWide) {
      const FW a = load_wide(x + i) - m, b = load_wide(x + i + kWide) - m;
      square0 = fma8(a, a, square0);
      square1 = fma8(b, b, square1);
    }
    for_wides(t.n - i, [&](int64_t j, int64_t part) {
      const FW a = load_some(x + i + j, part, mean) - m;
      square0 = fma8(a, a, square0);
    });
    float lanes[kWide];
    store_wide(lanes, set_wide(1.0f) / sqrt8(set_wide(sum8(square0 + square1) / count + t.epsilon)));
    const FW factor = set_wide(lanes[0]);
    if (t.mean != nullptr) t.mean[row] = mean;
    if (t.inverse_std != nullptr) t.inverse_std[row] = lanes[0];
    if (t.bias != nullptr) {
      for_wides(t.n, [&](int64_t j, int64_t part) {
        const FW v = (load_some(x + j, part, 0) - m) * factor;
        store_some(y + j, part, fma8(v, load_some(t.scale + j, part, 0), load_some(t.bias + j, part, 0)));
      });
    } else {
      for_wides(t.n, [&](int64_t j, int64_t part) {
        const FW v = (load_some(x + j, part, 0) - m) * factor;
        store_some(y + j, part, v * load_some(t.scale + j, part, 0));
      });
    }
  }
}

// How each reduction starts, takes one more value, joins lanes and ends. One NaN makes a maximum or a minimum NaN.
template <Reduction kReduction>
struct Reducer {
  static constexpr float kStart = kReduction == Reduction::kMax   ? -kInfinity
                                  : kReduction == Reduction::kMin ? kInfinity
                                                                  : 0;
  template <typename F>
  static TENON_INLINE F take(F sum, F x) {
    if constexpr (kReduction == Reduction::kMax) return max_or_nan8(sum, x);
    if constexpr (kReduction == Reduction::kMin) return min_or_nan8(sum, x);
    if constexpr (kReduction == Reduction::kSumSquare || kReduction == Reduction::kL2) return fma8(x, x, sum);
    if constexpr (kReduction == Reduction::kL1) return sum + abs8(x);
    return sum + x;
  }
  // take() of a start and x, whose sign a zero keeps.
  static TENON_INLINE FW first(FW x) {
    if constexpr (kReduction == Reduction::kMax || kReduction == Reduction::kMin) return x;
    if constexpr (kReduction == Reduction::kSum || kReduction == Reduction::kMean) return x;
    if constexpr (kReduction == Reduction::kL1) return abs8(x);
    return x * x;
  }
  static TENON_INLINE FW join(FW a, FW b) {
    if constexpr (kReduction == Reduction::kMax) return max_or_nan8(a, b);
    if constexpr (kReduction == Reduction::kMin) return min_or_nan8(a, b);
    return a + b;
  }
  static TENON_INLINE float lanes(FW a) {
    if constexpr (kReduction == Reduction::kMax) return maximum_or_nan8(a);
    if constexpr (kReduction == Reduction::kMin) return minimum_or_nan8(a);
    return sum8(a);
  }
  template <typename F>
  static TENON_INLINE F finish(F a, float count) {
    if constexpr (kReduction == Reduction::kMean) return a / splat<F>(count);
    if constexpr (kReduction == Reduction::kL2) return sqrt8(a);
    return a;
  }
};

#ifdef __AVX__
// Rows so short that joining the lanes of each takes longer than adding its elements: kWide of them are joined at once.
constexpr int64_t kShortRow = 4 * kWide;

#if HWY_MAX_BYTES >= 64
using RowTag = DW;
#else
using RowTag = DF;
#endif

// One result for each vector of `rows`, in their order. Once for all reductions that join lanes in one way.
template <Reduction kReduction>
[[gnu::noinline]] FW join_lanes(const float* rows) {
  using R = Reducer<kReduction>;
  const RowTag d;
  const hn::Repartition<double, RowTag> pairs;
  FW twos[kWide / 2], fours[kWide / 4];
#pragma GCC unroll 8
  for (int i = 0; i < kWide / 2; ++i) {
    const auto a = hn::LoadU(d, rows + 2 * i * kWide), b = hn::LoadU(d, rows + (2 * i + 1) * kWide);
    twos[i] = R::join(FW{hn::InterleaveLower(d, a, b)}, FW{hn::InterleaveUpper(d, a, b)});
  }
#pragma GCC unroll 4
  for (int i = 0; i < kWide / 4; ++i) {
    const auto a = hn::BitCast(pairs, twos[2 * i].v), b = hn::BitCast(pairs, twos[2 * i + 1].v);
    fours[i] = R::join(FW{hn::BitCast(d, hn::InterleaveLower(pairs, a, b))},
                       FW{hn::BitCast(d, hn::InterleaveUpper(pairs, a, b))});
  }
  // Blocks of four lanes are left.
#if HWY_MAX_BYTES >= 64
  FW eights[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512 a = fours[2 * i].v.raw, b = fours[2 * i + 1].v.raw;
    eights[i] =
        R::join(FW{hn::Vec<DW>{_mm512_shuffle_f32x4(a, b, 0x44)}}, FW{hn::Vec<DW>{_mm512_shuffle_f32x4(a, b, 0xee)}});
  }
  const __m512 a = eights[0].v.raw, b = eights[1].v.raw;
  return R::join(FW{hn::Vec<DW>{_mm512_shuffle_f32x4(a, b, 0x88)}}, FW{hn::Vec<DW>{_mm512_shuffle_f32x4(a, b, 0xdd)}});
#else
  const __m256 a = fours[0].v.raw, b = fours[1].v.raw;
  return R::join(FW{hn::Vec<DF>{_mm256_permute2f128_ps(a, b, 0x20)}},
                 FW{hn::Vec<DF>{_mm256_permute2f128_ps(a, b, 0x31)}});
#endif
}

// At most kWide rows, each in the same order wherever it stands.
template <Reduction kReduction>
void reduce_short_rows(const float* x, float* y, int64_t rows, int64_t n) {
  using R = Reducer<kReduction>;
  alignas(64) float results[kWide * kWide];
#if HWY_MAX_BYTES >= 64
  const auto load_rest = [&](const float* p, int64_t count) { return load_part_wide(p, count, R::kStart); };
#else
  const auto inside = hn::FirstN(DF(), static_cast<size_t>(n % kWide));
  const auto start = hn::Set(DF(), R::kStart);
  const auto load_rest = [&](const float* p, int64_t) {
    return F8{hn::IfThenElse(inside, hn::MaskedLoad(inside, DF(), p), start)};
  };
#endif
  for (int64_t r = 0; r < rows; ++r, x += n) {
    FW result = R::first(n < kWide ? load_rest(x, n) : load_wide(x));
    int64_t i = kWide;
    for (; i + kWide <= n; i += kWide) result = R::take(result, load_wide(x + i));
    if (i < n) result = R::take(result, load_rest(x + i, n - i));
    store_wide(results + r * kWide, result);
  }
  for (int64_t r = rows; r < kWide; ++r) store_wide(results + r * kWide, zero_wide());
  constexpr bool kExtreme = kReduction == Reduction::kMax || kReduction == Reduction::kMin;
  const FW joined = join_lanes<kExtreme ? kReduction : Reduction::kSum>(results);
  store_some(y, rows, R::finish(joined, static_cast<float>(n)));
}
#else
constexpr int64_t kShortRow = 8;

template <Reduction kReduction>
void reduce_short_rows(const float* x, float* y, int64_t, int64_t n) {
  using R = Reducer<kReduction>;
  F8 sum = splat<F8>(R::kStart);
  for (int64_t p = 0; p < n; ++p) sum = R::take(sum, set8(x[p]));
  float lanes[8];
  store8(lanes, R::finish(sum, static_cast<float>(n)));
  *y = lanes[0];
}
#endif

template <Reduction kReduction>
void reduce_rows_as(const float* x, float* y, int64_t rows, int64_t n) {
  using R = Reducer<kReduction>;
  if (n <= kShortRow) {
#ifdef __AVX__
    constexpr int64_t kTogether = kWide;
#else
    constexpr int64_t kTogether = 1;
#endif
    for (int64_t row = 0; row < rows; row += kTogether)
      reduce_short_rows<kReduction>(x + row * n, y + row, least(kTogether, rows - row), n);
    return;
  }
  for (int64_t row = 0; row < rows; ++row, x += n) {
    FW a = set_wide(R::kStart), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * kWide <= n; i += 4 * kWide) {
      a = R::take(a, load_wide(x + i));
      b = R::take(b, load_wide(x + i + kWide));
      c = R::take(c, load_wide(x + i + 2 * kWide));
      d = R::take(d, load_wide(x + i + 3 * kWide));
    }
    for_wides(n - i, [&](int64_t j, int64_t count) { a = R::take(a, load_some(x + i + j, count, R::kStart)); });
    float lanes[kWide];
    store_wide(lanes, R::finish(set_wide(R::lanes(R::join(R::join(a, b), R::join(c, d)))), static_cast<float>(n)));
    y[row] = lanes[0];
  }
}

template <Reduction kReduction>
void reduce_columns_as(const float* x, float* y, int64_t n, int64_t inner, int64_t first, int64_t last) {
  using R = Reducer<kReduction>;
  float sums[kColumnBlock];
  for (int64_t c0 = first; c0 < last; c0 += kColumnBlock) {
    const int64_t width = least(kColumnBlock, last - c0);
    if (width == kColumnBlock) {
      constexpr int kVectors = static_cast<int>(kColumnBlock / kWide);
      FW s[kVectors];
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) s[j] = set_wide(R::kStart);
      for (int64_t p = 0; p < n; ++p) {
        const float* const row = x + p * inner + c0;
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) s[j] = R::take(s[j], load_wide(row + kWide * j));
      }
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) store_wide(sums + kWide * j, s[j]);
    } else {
      for (int64_t j = 0; j < kColumnBlock; ++j) sums[j] = R::kStart;
      for (int64_t p = 0; p < n; ++p)
        for_wides(width, [&](int64_t j, int64_t count) {
          store_wide(sums + j, R::take(load_wide(sums + j), load_some(x + p * inner + c0 + j, count, 0)));
        });
    }
    for_wides(width, [&](int64_t j, int64_t count) {
      store_some(y + c0 + j, count, R::finish(load_wide(sums + j), static_cast<float>(n)));
    });
  }
}

void reduce_rows(const float* x, float* y, int64_t rows, int64_t n, Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return reduce_rows_as<Reduction::kSum>(x, y, rows, n);
    case Reduction::kMean:
      return reduce_rows_as<Reduction::kMean>(x, y, rows, n);
    case Reduction::kMax:
      return reduce_rows_as<Reduction::kMax>(x, y, rows, n);
    case Reduction::kMin:
      return reduce_rows_as<Reduction::kMin>(x, y, rows, n);
    case Reduction::kSumSquare:
      return reduce_rows_as<Reduction::kSumSquare>(x, y, rows, n);
    case Reduction::kL2:
      return reduce_rows_as<Reduction::kL2>(x, y, rows, n);
    case Reduction::kL1:
      return reduce_rows_as<Reduction::kL1>(x, y, rows, n);
  }
}

void reduce_columns(const float* x, float* y, int64_t n, int64_t inner, int64_t first, int64_t last,
                    Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return reduce_columns_as<Reduction::kSum>(x, y, n, inner, first, last);
    case Reduction::kMean:
      return reduce_columns_as<Reduction::kMean>(x, y, n, inner, first, last);
    case Reduction::kMax:
      return reduce_columns_as<Reduction::kMax>(x, y, n, inner, first, last);
    case Reduction::kMin:
      return reduce_columns_as<Reduction::kMin>(x, y, n, inner, first, last);
    case Reduction::kSumSquare:
      return reduce_columns_as<Reduction::kSumSquare>(x, y, n, inner, first, last);
    case Reduction::kL2:
      return reduce_columns_as<Reduction::kL2>(x, y, n, inner, first, last);
    case Reduction::kL1:
      return reduce_columns_as<Reduction::kL1>(x, y, n, inner, first, last);
  }
}

}  // namespace

extern const NormTable norm_table;
const NormTable norm_table = {&softmax_rows, &softmax_columns, &row_exponentials, &exponentials,
                              &scale_rows,   &layer_norm,      &reduce_rows,      &reduce_columns};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
