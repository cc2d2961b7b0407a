#include "ep/cpu/simd/pool.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "ep/cpu/simd/nearest.h"
#include "ep/cpu/simd/wide.h"

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

// Where no operand is a NaN.
struct LargerNumber {
  template <typename D>
  static TENON_INLINE hn::Vec<D> of(D, hn::Vec<D> y, hn::Vec<D> x) {
    return hn::Max(x, y);
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
  if constexpr (kLanes * sizeof(T) > 16 || kLanes > 8) {
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

// Vectors of 4 would win little over the general loops.
#if HWY_MAX_BYTES >= 32
// n elements, fewer than a vector has, and nothing behind them is touched.
template <typename D>
TENON_INLINE void store_short(D d, hn::Vec<D> v, float* p, int64_t n) {
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, p);
}

// The first of n elements of the vector from element i on: the last vector overlaps others.
TENON_INLINE int64_t vector_at(int64_t i, int64_t n) { return std::min(i, n - kLanes); }

// The first tap of row `out` of the outputs, and the one behind its last.
TENON_INLINE int64_t first_tap(const PoolPlane& p, int64_t out) {
  return std::max<int64_t>(0, out * p.row_stride - p.pad_top);
}
TENON_INLINE int64_t last_tap(const PoolPlane& p, int64_t out) {
  return std::min(p.height, out * p.row_stride - p.pad_top + p.kernel_rows);
}

// kRows rows of the outputs from `out` on: two of stride 1 share all taps but one on each side. load(row) is a vector
// of a row.
template <typename Op, int kRows, typename V, typename Load>
TENON_INLINE void fold_down(const PoolPlane& p, int64_t out, V (&value)[kRows], const Load& load) {
  const hn::DFromV<V> d;
  const int64_t first = first_tap(p, out), last = last_tap(p, out), begin = first_tap(p, out + kRows - 1);
  value[0] = load(begin);
  for (int64_t row = begin + 1; row < last; ++row) value[0] = Op::of(d, value[0], load(row));
  if constexpr (kRows == 2) {
    const int64_t more = last_tap(p, out + 1) - 1;
    value[1] = more >= last ? Op::of(d, value[0], load(more)) : value[0];
    if (begin > first) value[0] = Op::of(d, value[0], load(first));
  }
}

// Sums would be rounded differently in pairs.
template <typename Op>
constexpr int kRowsDown = std::is_same_v<Op, Sum> ? 1 : 2;

template <typename Op, typename V>
TENON_INLINE V finish(const PoolPlane& p, V value, int64_t r, int64_t column) {
  const hn::DFromV<V> d;
  if constexpr (!std::is_same_v<Op, Sum>) return value;
  return hn::Div(value, hn::Mul(hn::LoadU(d, p.columns + column), hn::Set(d, p.by_row[r])));
}

// Lane i is the element index[i] of the vectors behind each other.
template <typename V, typename I>
TENON_INLINE V look_up(const V (&value)[1], I index) {
  const hn::DFromV<V> d;
  return hn::TableLookupLanes(value[0], hn::IndicesFromVec(d, index));
}
template <typename V, typename I>
TENON_INLINE V look_up(const V (&value)[2], I index) {
#if HWY_MAX_BYTES >= 64
  return V{_mm512_permutex2var_ps(value[0].raw, index.raw, value[1].raw)};
#else
  const hn::DFromV<V> d;
  const auto at = hn::IndicesFromVec(d, index);  // which looks at the lowest three bits
  const auto in_second = hn::MaskFromVec(hn::BitCast(d, hn::ShiftLeft<28>(index)));
  return hn::IfThenElse(in_second, hn::TableLookupLanes(value[1], at), hn::TableLookupLanes(value[0], at));
#endif
}

// Rows that fit into one vector or two stay in registers, where the taps along them are permutations: what is stored as
// one vector and loaded as another, or as two, would have to reach the cache first.
template <typename Op, size_t kLength, int kRows, int kVectors>
void fold_short_rows(const PoolPlane& p) {
  const hn::CappedTag<float, kLength> d;
  const hn::RebindToSigned<decltype(d)> i;
  using V = hn::Vec<decltype(d)>;
  using Row = V[kVectors];
  constexpr int64_t kLanes = hn::MaxLanes(d), kLast = kVectors * kLanes - 1;
  constexpr bool kSum = std::is_same_v<Op, Sum>;
  const int64_t rows = p.end - p.begin, width = p.width;
  const float* const y_end = p.y + p.planes * rows * p.out_width;
  const auto inside = hn::FirstN(d, static_cast<size_t>(width - (kVectors - 1) * kLanes));
  // The vectors of a row of y from the last one on: what a vector has beyond its row is overwritten.
  for (int64_t column = (p.out_width - 1) / kLanes * kLanes; column >= 0; column -= kLanes) {
    hn::Vec<decltype(i)> taps[2 * kLanes];
    int count = 0;
    for (int64_t k = 0; k < p.count; ++k) {
      alignas(64) int32_t at[kLanes];
      bool any = false;
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const int64_t first = (column + lane) * p.column_stride - p.pad;
        int64_t from = first + k * p.shift;
        const bool is_inside = from >= 0 && from < width;
        any |= is_inside && column + lane < p.out_width;
        // The lane behind the row is 0. A maximum may take another tap twice instead.
        if (!is_inside)
          from = kSum ? kLast : first >= 0 ? first : first % p.shift + (first % p.shift < 0 ? p.shift : 0);
        at[lane] = static_cast<int32_t>(std::min(from, kLast));
      }
      if (any) taps[count++] = hn::Load(i, at);
    }
    const float* x = p.x;
    float* y = p.y + column;
    for (int64_t plane = 0; plane < p.planes; ++plane, x += p.height * width, y += rows * p.out_width) {
      for (int64_t next = 0; next < rows; next += kRows) {
        const int64_t r = std::min(next, rows - kRows);
        Row value[kRows];
        V sum[kRows];
        if constexpr (kRows == 1) {
          const int64_t last = last_tap(p, p.begin + r), first = first_tap(p, p.begin + r);
          const float *row = x + first * width, *const end = x + last * width;
          const auto load = [&](int v) {
            return v + 1 < kVectors ? hn::LoadU(d, row) : hn::MaskedLoad(inside, d, row + v * kLanes);
          };
          for (int v = 0; v < kVectors; ++v) value[0][v] = load(v);
          while ((row += width) < end)
            for (int v = 0; v < kVectors; ++v) value[0][v] = Op::of(d, value[0][v], load(v));
        } else {
          V folded[kRows];
          fold_down<Op>(p, p.begin + r, folded,
                        [&](int64_t row) { return hn::MaskedLoad(inside, d, x + row * width); });
          for (int j = 0; j < kRows; ++j) value[j][0] = folded[j];
        }
#pragma GCC unroll 2
        for (int j = 0; j < kRows; ++j) sum[j] = look_up(value[j], taps[0]);
        for (int k = 1; k < count; ++k) {
#pragma GCC unroll 2
          for (int j = 0; j < kRows; ++j) sum[j] = Op::of(d, sum[j], look_up(value[j], taps[k]));
        }
#pragma GCC unroll 2
        for (int j = 0; j < kRows; ++j) {
          float* const to = y + (r + j) * p.out_width;
          const V result = finish<Op>(p, sum[j], r + j, column);
          y_end - to < kLanes ? store_short(d, result, to, y_end - to) : hn::StoreU(result, d, to);
        }
      }
    }
  }
}

constexpr int64_t kRowsAlong = 4;

template <typename Op>
void fold_long_rows(const PoolPlane& p) {
  const DF32 d;
  constexpr int kRows = kRowsDown<Op>;
  const int64_t rows = p.end - p.begin;
  for (int64_t next = 0; next < rows; next += kRows) {
    const int64_t r = std::min(next, rows - kRows);
    for (int64_t column = 0; column < p.width; column += kLanes) {
      const int64_t at = vector_at(column, p.width);
      VF32 value[kRows];
      fold_down<Op>(p, p.begin + r, value, [&](int64_t row) { return hn::LoadU(d, p.x + row * p.width + at); });
#pragma GCC unroll 2
      for (int j = 0; j < kRows; ++j) hn::StoreU(value[j], d, p.rows + (r + j) * p.pitch + p.pad + at);
    }
  }
  for (int64_t next = 0; next < rows; next += kRowsAlong) {
    const int64_t r = std::min(next, rows - kRowsAlong);
    for (int64_t column = 0; column < p.out_width; column += kLanes) {
      const int64_t at = std::max<int64_t>(0, vector_at(column, p.out_width));
      const float* from = p.rows + r * p.pitch + at;
      VF32 value[kRowsAlong];
#pragma GCC unroll 4
      for (int j = 0; j < kRowsAlong; ++j) value[j] = hn::LoadU(d, from + j * p.pitch);
      for (int64_t k = 1; k < p.count; ++k) {
        from += p.shift;
#pragma GCC unroll 4
        for (int j = 0; j < kRowsAlong; ++j) value[j] = Op::of(d, value[j], hn::LoadU(d, from + j * p.pitch));
      }
      float* y = p.y + r * p.out_width + at;
      for (int j = 0; j < kRowsAlong; ++j, y += p.out_width) hn::StoreU(finish<Op>(p, value[j], r + j, at), d, y);
    }
  }
}

template <typename Op, int kRows>
void fold_short_planes(const PoolPlane& p) {
  // A sum needs a lane behind the row that is 0.
  const int64_t lanes = p.width + (std::is_same_v<Op, Sum> ? 1 : 0);
  if (kLanes > 8 && lanes <= 8) return fold_short_rows<Op, 8, kRows, 1>(p);
  if (kRows > 1 || lanes <= kLanes) return fold_short_rows<Op, 16, kRows, 1>(p);
  fold_short_rows<Op, 16, 1, 2>(p);
}

template <typename Op>
bool fold_planes(PoolPlane p) {
  if (p.row_stride != 1 || p.column_stride != 1) {
    fold_short_planes<Op, 1>(p);
    return true;
  }
  if (p.width < kLanes) {
    fold_short_planes<Op, kRowsDown<Op>>(p);
    return true;
  }
  // Rows of two vectors are folded down for each vector of y, which only few taps are worth.
  constexpr int64_t kFewTaps = 4;
  if (p.width < 2 * kLanes && p.kernel_rows <= kFewTaps && p.count <= kFewTaps) {
    fold_short_planes<Op, 1>(p);
    return true;
  }
  if (p.out_width < kLanes || p.end - p.begin < kRowsAlong) return false;
  for (; p.planes > 0; --p.planes) {
    fold_long_rows<Op>(p);
    p.x += p.height * p.width;
    p.y += (p.end - p.begin) * p.out_width;
  }
  return true;
}

bool has_nan(const float* x, int64_t n) {
  const DF32 d;
  auto found = hn::IsNaN(hn::Zero(d));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) found = hn::Or(found, hn::IsNaN(hn::LoadU(d, x + i)));
  bool any = !hn::AllFalse(d, found);
  for (; i < n; ++i) any |= x[i] != x[i];
  return any;
}

bool maximum_plane(const PoolPlane& p) {
  // Looking for a NaN once is faster than keeping it in each step.
  const int64_t first = first_tap(p, p.begin), last = last_tap(p, p.end - 1) + (p.planes - 1) * p.height;
  const bool strided = p.row_stride != 1 || p.column_stride != 1;
  if ((!strided && (p.kernel_rows == 1 || p.end - p.begin == 1)) ||
      has_nan(p.x + first * p.width, (last - first) * p.width))
    return false;
  return fold_planes<LargerNumber>(p);
}

bool average_plane(const PoolPlane& p) { return fold_planes<Sum>(p); }
constexpr int64_t kShortRow = 2 * kLanes;
#else
constexpr int64_t kShortRow = 0;
bool maximum_plane(const PoolPlane&) { return false; }
bool average_plane(const PoolPlane&) { return false; }
#endif

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

template <typename Op>
TENON_INLINE void fold_listed(const PoolLists& lists) {
  const hn::CappedTag<float, kPoolBeside> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int32_t* tap = lists.taps;
  for (int64_t o = 0; o < lists.outputs; ++o) {
    const int32_t* const end = lists.taps + lists.ends[o];
    float* const y = lists.y + o * kPoolBeside;
    for (int64_t i = 0; i < kPoolBeside; i += lanes) {
      auto value = hn::LoadU(d, lists.x + *tap * kPoolBeside + i);
      for (const int32_t* t = tap + 1; t < end; ++t)
        value = Op::of(d, value, hn::LoadU(d, lists.x + *t * kPoolBeside + i));
      if (lists.divisors != nullptr) value = hn::Div(value, hn::Set(d, lists.divisors[o]));
      hn::StoreU(value, d, y + i);
    }
    tap = end;
  }
}

void listed(const PoolLists& lists) {
  lists.divisors != nullptr ? fold_listed<Sum>(lists) : fold_listed<Maximum>(lists);
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
const PoolTable pool_table = {&fold<Maximum, float>,
                              &fold<Maximum, uint8_t>,
                              &fold<Maximum, int8_t>,
                              &fold<Sum, float>,
                              kShortRow,
                              &maximum_plane,
                              &average_plane,
                              &divide,
                              &listed,
                              &maximum_at};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
