#include "ep/cpu/simd/norm.h"

#include "ep/cpu/simd/math8.h"
#include "ep/cpu/simd/tail8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr float kLowest = -3.40282347e38f;
constexpr float kInfinity = __builtin_inff();
// Columns that are worked on together: four cache lines of each row.
constexpr int64_t kColumnBlock = 64;

TENON_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Calls body(index, count) for 0, 8, 16, ...; count is 8 but for the last.
template <typename Body>
TENON_INLINE void for_eights(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) body(i, int64_t{8});
  if (i < n) body(i, n - i);
}

TENON_INLINE F8 load_some8(const float* p, int64_t count, float fill) {
  return count == 8 ? load8(p) : load_part8(p, count, fill);
}

TENON_INLINE void store_some8(float* p, int64_t count, F8 a) {
  if (count == 8) {
    store8(p, a);
  } else {
    store_part8(p, count, a);
  }
}

float row_maximum(const float* x, int64_t n) {
  F8 a = set8(-kInfinity), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    a = max8(a, load8(x + i));
    b = max8(b, load8(x + i + 8));
    c = max8(c, load8(x + i + 16));
    d = max8(d, load8(x + i + 24));
  }
  for_eights(n - i, [&](int64_t j, int64_t count) { a = max8(a, load_some8(x + i + j, count, -kInfinity)); });
  return maximum8(max8(max8(a, b), max8(c, d)));
}

// y = e^(x - maximum), and the sum of it; y may be x.
float row_exponentials(const float* x, float* y, int64_t n, float top) {
  const F8 maximum = set8(top);
  F8 a = zero8(), b = zero8();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const F8 e = exp8_bounded(load8(x + i) - maximum), f = exp8_bounded(load8(x + i + 8) - maximum);
    store8(y + i, e);
    store8(y + i + 8, f);
    a = a + e;
    b = b + f;
  }
  for_eights(n - i, [&](int64_t j, int64_t count) {
    const F8 e = exp8_bounded(load_some8(x + i + j, count, -kInfinity) - maximum);
    a = a + e;
    store_some8(y + i + j, count, e);
  });
  return sum8(a + b);
}

void softmax_rows(const float* x, float* y, int64_t rows, int64_t n, bool log) {
  for (int64_t row = 0; row < rows; ++row, x += n, y += n) {
    const float top = row_maximum(x, n);
    if (log) {
      const F8 maximum = set8(top);
      F8 sum = zero8();
      for_eights(n, [&](int64_t i, int64_t count) {
        sum = sum + exp8_bounded(load_some8(x + i, count, -kInfinity) - maximum);
      });
      float logs[8];
      store8(logs, log8(set8(sum8(sum))));
      const F8 shift = set8(logs[0]);
      for_eights(n, [&](int64_t i, int64_t count) {
        store_some8(y + i, count, load_some8(x + i, count, 0) - maximum - shift);
      });
      continue;
    }
    const F8 factor = set8(1.0f / row_exponentials(x, y, n, top));
    for_eights(n, [&](int64_t i, int64_t count) { store_some8(y + i, count, load_some8(y + i, count, 0) * factor); });
  }
}

void softmax_columns(const float* x, float* y, int64_t n, int64_t inner, int64_t first, int64_t last, bool log) {
  float maxima[kColumnBlock], sums[kColumnBlock];
  for (int64_t c0 = first; c0 < last; c0 += kColumnBlock) {
    const int64_t width = least(kColumnBlock, last - c0);
    for (int64_t j = 0; j < kColumnBlock; ++j) maxima[j] = -kInfinity, sums[j] = 0;
    for (int64_t p = 0; p < n; ++p)
      for_eights(width, [&](int64_t j, int64_t count) {
        store8(maxima + j, max8(load8(maxima + j), load_some8(x + p * inner + c0 + j, count, 0)));
      });
    for (int64_t p = 0; p < n; ++p)
      for_eights(width, [&](int64_t j, int64_t count) {
        const F8 e = exp8_bounded(load_some8(x + p * inner + c0 + j, count, 0) - load8(maxima + j));
        store8(sums + j, load8(sums + j) + e);
        if (!log) store_some8(y + p * inner + c0 + j, count, e);
      });
    for (int64_t j = 0; j < kColumnBlock; j += 8) {
      const F8 s = load8(sums + j);
      store8(sums + j, log ? load8(maxima + j) + log8(s) : set8(1.0f) / s);
    }
    for (int64_t p = 0; p < n; ++p)
      for_eights(width, [&](int64_t j, int64_t count) {
        float* const out = y + p * inner + c0 + j;
        store_some8(out, count,
                    log ? load_some8(x + p * inner + c0 + j, count, 0) - load8(sums + j)
                        : load_some8(out, count, 0) * load8(sums + j));
      });
  }
}

float exponentials(float* s, const float* mask, int64_t mask_stride, int64_t n, float* top) {
  if (mask != nullptr) {
    const F8 same = set8(mask[0]);
    for_eights(n, [&](int64_t i, int64_t count) {
      const F8 m = mask_stride == 0 ? same : load_some8(mask + i, count, 0);
      store_some8(s + i, count, load_some8(s + i, count, 0) + m);
    });
  }
  const float largest = row_maximum(s, n);
  if (!(largest <= *top)) *top = largest;
  if (*top < kLowest) *top = kLowest;  // all -infinity: e^(-inf - lowest) is 0, where -inf - -inf would be NaN
  return row_exponentials(s, s, n, *top);
}

void scale_rows(float* y, int64_t row_stride, int64_t rows, int64_t n, const float* factors) {
  for (int64_t row = 0; row < rows; ++row, y += row_stride) {
    const F8 factor = set8(factors[row]);
    for_eights(n, [&](int64_t i, int64_t count) { store_some8(y + i, count, load_some8(y + i, count, 0) * factor); });
  }
}

void layer_norm(const LayerNormTask& t) {
  const float count = static_cast<float>(t.n);
  for (int64_t row = 0; row < t.rows; ++row) {
    const float* x = t.x + row * t.n;
    float* const y = t.y + row * t.n;
    F8 sum0 = zero8(), sum1 = zero8();
    // With a skip the sum is kept (in y if nobody asks for it) and read again from L1.
    if (t.skip != nullptr) {
      const float* const skip = t.skip + row * t.n;
      float* const kept = t.sum != nullptr ? t.sum + row * t.n : y;
      for_eights(t.n, [&](int64_t i, int64_t part) {
        const F8 v = load_some8(x + i, part, 0) + load_some8(skip + i, part, 0);
        store_some8(kept + i, part, v);
        sum0 = sum0 + v;
      });
      x = kept;
    } else {
      int64_t i = 0;
      for (; i + 16 <= t.n; i += 16) {
        sum0 = sum0 + load8(x + i);
        sum1 = sum1 + load8(x + i + 8);
      }
      for_eights(t.n - i, [&](int64_t j, int64_t part) { sum0 = sum0 + load_some8(x + i + j, part, 0); });
      if (t.sum != nullptr)
        for_eights(t.n, [&](int64_t j, int64_t part) {
          store_some8(t.sum + row * t.n + j, part, load_some8(x + j, part, 0));
        });
    }
    const float mean = t.subtract_mean ? sum8(sum0 + sum1) / count : 0;
    const F8 m = set8(mean);
    F8 square0 = zero8(), square1 = zero8();
    int64_t i = 0;
    for (; i + 16 <= t.n; i += 16) {
      const F8 a = load8(x + i) - m, b = load8(x + i + 8) - m;
      square0 = fma8(a, a, square0);
      square1 = fma8(b, b, square1);
    }
    for_eights(t.n - i, [&](int64_t j, int64_t part) {
      const F8 a = load_some8(x + i + j, part, mean) - m;
      square0 = fma8(a, a, square0);
    });
    float lanes[8];
    store8(lanes, set8(1.0f) / sqrt8(set8(sum8(square0 + square1) / count + t.epsilon)));
    const F8 factor = set8(lanes[0]);
    if (t.mean != nullptr) t.mean[row] = mean;
    if (t.inverse_std != nullptr) t.inverse_std[row] = lanes[0];
    if (t.bias != nullptr) {
      for_eights(t.n, [&](int64_t j, int64_t part) {
        const F8 v = (load_some8(x + j, part, 0) - m) * factor;
        store_some8(y + j, part, fma8(v, load_some8(t.scale + j, part, 0), load_some8(t.bias + j, part, 0)));
      });
    } else {
      for_eights(t.n, [&](int64_t j, int64_t part) {
        const F8 v = (load_some8(x + j, part, 0) - m) * factor;
        store_some8(y + j, part, v * load_some8(t.scale + j, part, 0));
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
  static TENON_INLINE F8 take(F8 sum, F8 x) {
    if constexpr (kReduction == Reduction::kMax) return max_or_nan8(sum, x);
    if constexpr (kReduction == Reduction::kMin) return min_or_nan8(sum, x);
    if constexpr (kReduction == Reduction::kSumSquare || kReduction == Reduction::kL2) return fma8(x, x, sum);
    if constexpr (kReduction == Reduction::kL1) return sum + abs8(x);
    return sum + x;
  }
  static TENON_INLINE F8 join(F8 a, F8 b) {
    if constexpr (kReduction == Reduction::kMax) return max_or_nan8(a, b);
    if constexpr (kReduction == Reduction::kMin) return min_or_nan8(a, b);
    return a + b;
  }
  static TENON_INLINE float lanes(F8 a) {
    if constexpr (kReduction == Reduction::kMax) return maximum_or_nan8(a);
    if constexpr (kReduction == Reduction::kMin) return minimum_or_nan8(a);
    return sum8(a);
  }
  static TENON_INLINE F8 finish(F8 a, float count) {
    if constexpr (kReduction == Reduction::kMean) return a / set8(count);
    if constexpr (kReduction == Reduction::kL2) return sqrt8(a);
    return a;
  }
};

template <Reduction kReduction>
void reduce_rows_as(const float* x, float* y, int64_t rows, int64_t n) {
  using R = Reducer<kReduction>;
  for (int64_t row = 0; row < rows; ++row, x += n) {
    F8 a = set8(R::kStart), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
      a = R::take(a, load8(x + i));
      b = R::take(b, load8(x + i + 8));
      c = R::take(c, load8(x + i + 16));
      d = R::take(d, load8(x + i + 24));
    }
    for_eights(n - i, [&](int64_t j, int64_t count) { a = R::take(a, load_some8(x + i + j, count, R::kStart)); });
    float lanes[8];
    store8(lanes, R::finish(set8(R::lanes(R::join(R::join(a, b), R::join(c, d)))), static_cast<float>(n)));
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
      F8 s[8];
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) s[j] = set8(R::kStart);
      for (int64_t p = 0; p < n; ++p) {
        const float* const row = x + p * inner + c0;
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) s[j] = R::take(s[j], load8(row + 8 * j));
      }
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) store8(sums + 8 * j, s[j]);
    } else {
      for (int64_t j = 0; j < kColumnBlock; ++j) sums[j] = R::kStart;
      for (int64_t p = 0; p < n; ++p)
        for_eights(width, [&](int64_t j, int64_t count) {
          store8(sums + j, R::take(load8(sums + j), load_some8(x + p * inner + c0 + j, count, 0)));
        });
    }
    for_eights(width, [&](int64_t j, int64_t count) {
      store_some8(y + c0 + j, count, R::finish(load8(sums + j), static_cast<float>(n)));
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
const NormTable norm_table = {&softmax_rows, &softmax_columns, &exponentials,  &scale_rows,
                              &layer_norm,   &reduce_rows,     &reduce_columns};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
