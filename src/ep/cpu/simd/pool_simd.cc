#include "ep/cpu/simd/pool.h"

#include "ep/cpu/simd/nearest.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

struct Maximum {
  template <typename D>
  static TENON_INLINE hn::Vec<D> of(D, hn::Vec<D> y, hn::Vec<D> x) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
#if HWY_ARCH_X86
      // Max gives its second operand where one of the two is NaN.
      return hn::IfThenElse(hn::IsNaN(x), x, hn::Max(x, y));
#else
      const auto larger = hn::IfThenElse(hn::Lt(y, x), x, y);
      return hn::IfThenElse(hn::IsNaN(x), x, larger);
#endif
    } else {
      return hn::Max(y, x);
    }
  }
  template <typename T>
  static TENON_INLINE T of_one(T y, T x) {
    return x > y || x != x ? x : y;
  }
};

struct Sum {
  template <typename D>
  static TENON_INLINE hn::Vec<D> of(D, hn::Vec<D> y, hn::Vec<D> x) {
    return hn::Add(y, x);
  }
  template <typename T>
  static TENON_INLINE T of_one(T y, T x) {
    return y + x;
  }
};

// The elements i, i + 1, ... of a row of stride 1 or 2.
template <int kStride, typename D>
TENON_INLINE hn::Vec<D> load_row(D d, const hn::TFromD<D>* row, int64_t i) {
  if constexpr (kStride == 1) return hn::LoadU(d, row + i);
  hn::Vec<D> even, odd;
  hn::LoadInterleaved2(d, row + 2 * i, even, odd);
  return even;
}

// Whole vectors of kLanes; the last one of a row overlaps others. Fewer outputs go to shorter vectors.
template <typename Op, int kStride, size_t kLanes, typename T>
void fold_vectors(const PoolTaps<T>& t) {
  const hn::CappedTag<T, kLanes> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if constexpr (kLanes * sizeof(T) > 16) {
    if (t.n < lanes) return fold_vectors<Op, kStride, kLanes / 2>(t);
  }
  const int64_t whole = t.n < lanes ? 0 : t.n;
  for (int64_t r = 0; r < t.rows; ++r) {
    const T* const x = t.x + r * t.x_pitch;
    T* const y = t.y + r * t.y_pitch;
    for (int64_t i = 0; i < whole; i += lanes) {
      const int64_t at = i + lanes <= whole ? i : whole - lanes;
      auto value = load_row<kStride>(d, x, at);
      for (int64_t k = 1; k < t.count; ++k) value = Op::of(d, value, load_row<kStride>(d, x + k * t.shift, at));
      hn::StoreU(value, d, y + at);
    }
    for (int64_t i = whole; i < t.n; ++i) {
      T value = x[i * kStride];
      for (int64_t k = 1; k < t.count; ++k) value = Op::of_one(value, x[k * t.shift + i * kStride]);
      y[i] = value;
    }
  }
}

template <typename Op, typename T>
void fold(const PoolTaps<T>& t) {
  if (t.stride == 1) return fold_vectors<Op, 1, 64 / sizeof(T)>(t);
  if (t.stride == 2) return fold_vectors<Op, 2, 64 / sizeof(T)>(t);
  for (int64_t r = 0; r < t.rows; ++r) {
    const T* x = t.x + r * t.x_pitch;
    T* const y = t.y + r * t.y_pitch;
    for (int64_t i = 0; i < t.n; ++i) y[i] = x[i * t.stride];
    for (int64_t k = 1; k < t.count; ++k) {
      x += t.shift;
      for (int64_t i = 0; i < t.n; ++i) y[i] = Op::of_one(y[i], x[i * t.stride]);
    }
  }
}

// Whole vectors of kLength numbers, of which the last one overlaps others.
template <size_t kLength>
void divide_row(float* y, const float* columns, float row, int64_t n) {
  const hn::CappedTag<float, kLength> f;
  const auto lanes = static_cast<int64_t>(hn::Lanes(f));
  if constexpr (kLength > 4) {
    if (n < lanes) return divide_row<kLength / 2>(y, columns, row, n);
  }
  const auto factor = hn::Set(f, row);
  const auto at = [&](int64_t i) { return hn::Div(hn::LoadU(f, y + i), hn::Mul(hn::LoadU(f, columns + i), factor)); };
  int64_t i = 0;
  if (n >= lanes) {
    const auto last = at(n - lanes);  // before what it overlaps is divided
    for (; i + lanes <= n; i += lanes) hn::StoreU(at(i), f, y + i);
    hn::StoreU(last, f, y + n - lanes);
    return;
  }
  for (; i < n; ++i) y[i] /= columns[i] * row;
}

void divide(float* y, const float* columns, const float* by_row, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, y += n) divide_row<16>(y, columns, by_row[r], n);
}

// Of a maximum and its place, the next tap takes the place if it is larger, or the first NaN.
template <int kStride>
int64_t places_in_vectors(const float* x, const int32_t* rows, int64_t count, float* y, int32_t* at, int64_t n) {
  const DF32 f;
  const DI32 d;
  const VI32 steps = hn::Mul(hn::Iota(d, 0), hn::Set(d, kStride));
  int64_t i = 0;
  for (; i + kLanes + (kStride - 1) <= n; i += kLanes) {
    VF32 value = load_row<kStride>(f, x + rows[0], i);
    VI32 start = hn::Set(d, rows[0]);
    for (int64_t k = 1; k < count; ++k) {
      const VF32 next = load_row<kStride>(f, x + rows[k], i);
      const auto takes = hn::Or(hn::Lt(value, next), hn::AndNot(hn::IsNaN(value), hn::IsNaN(next)));
      value = hn::IfThenElse(takes, next, value);
      start = hn::IfThenElse(hn::RebindMask(d, takes), hn::Set(d, rows[k]), start);
    }
    hn::StoreU(value, f, y + i);
    hn::StoreU(hn::Add(start, hn::Add(steps, hn::Set(d, static_cast<int32_t>(i) * kStride))), d, at + i);
  }
  return i;
}

void maximum_at(const float* x, const int32_t* rows, int64_t count, int64_t stride, float* y, int32_t* at, int64_t n) {
  int64_t i = stride == 1   ? places_in_vectors<1>(x, rows, count, y, at, n)
              : stride == 2 ? places_in_vectors<2>(x, rows, count, y, at, n)
                            : 0;
  for (; i < n; ++i) {
    int32_t best = rows[0] + static_cast<int32_t>(i * stride);
    for (int64_t k = 1; k < count; ++k) {
      const int32_t place = rows[k] + static_cast<int32_t>(i * stride);
      if (x[place] > x[best] || (x[place] != x[place] && x[best] == x[best])) best = place;
    }
    y[i] = x[best];
    at[i] = best;
  }
}

}  // namespace

extern const PoolTable pool_table;
const PoolTable pool_table = {
    &fold<Maximum, float>, &fold<Maximum, uint8_t>, &fold<Maximum, int8_t>, &fold<Sum, float>, &divide, &maximum_at};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
