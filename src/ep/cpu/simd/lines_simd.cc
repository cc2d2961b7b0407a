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

// kVectors vectors of lines of sums of A, the last of which overlaps the one before it. Sums of float32 are in double,
// or what rounding takes from one is subtracted from its next element (Kahan's summation), which takes half the time.
// False where such a sum is not finite: then there is no rest, and the results do not hold.
template <typename A, int kVectors, typename T>
bool running_block(const T* x, T* y, int64_t length, int64_t step, int64_t n) {
  const LineTag<A> d;
  const hn::Rebind<T, LineTag<A>> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<LineTag<A>> sums[kVectors], lost[kVectors];
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) sums[j] = lost[j] = hn::Zero(d);
  for (int64_t k = 0; k < length; ++k, x += step, y += step) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      const int64_t at = j + 1 < kVectors ? j * lanes : n - lanes;
      const auto value = hn::LoadU(narrow, x + at);
      if constexpr (!std::is_same_v<A, T>) {
        sums[j] = hn::Add(sums[j], hn::PromoteTo(d, value));
        hn::StoreU(hn::DemoteTo(narrow, sums[j]), narrow, y + at);
      } else {
        if constexpr (std::is_same_v<T, float>) {
          const auto before = sums[j], added = hn::Sub(value, lost[j]);
          sums[j] = hn::Add(before, added);
          lost[j] = hn::Sub(hn::Sub(sums[j], before), added);
        } else {
          sums[j] = hn::Add(sums[j], value);
        }
        hn::StoreU(sums[j], d, y + at);
      }
    }
  }
  if constexpr (std::is_same_v<A, float>) {
#pragma GCC unroll 8
    for (int j = 1; j < kVectors; ++j) lost[0] = hn::Add(lost[0], lost[j]);
    return hn::AllFalse(d, hn::IsNaN(lost[0]));
  }
  return true;
}

// At least one vector and at most kVectors.
template <typename A, int kVectors, typename T>
bool running_blocks(const T* x, T* y, int64_t length, int64_t step, int64_t n) {
  if constexpr (kVectors > 1) {
    if (n <= (kVectors - 1) * static_cast<int64_t>(hn::Lanes(LineTag<A>())))
      return running_blocks<A, kVectors - 1>(x, y, length, step, n);
  }
  return running_block<A, kVectors>(x, y, length, step, n);
}

// Whole rows of lines, as running_block() otherwise: of float32 at most kMostRunning, several cache lines of each row
// and few enough for the L1 cache.
constexpr int64_t kRunning = 256, kMostRunning = 2 * kRunning;
template <typename T>
bool running_rows(const T* x, T* y, int64_t length, int64_t step, int64_t n) {
  const LineTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; ++i) y[i] = x[i];
  // The last vector overlaps the one before it, and has rests of its own.
  const auto for_vectors = [&](const auto& body) {
    for (int64_t i = 0; i < n; i += lanes) body(i, std::min(i, n - lanes));
  };
  if constexpr (std::is_same_v<T, float>) {
    alignas(64) float lost[kMostRunning];
    for_vectors([&](int64_t i, int64_t) { hn::Store(hn::Zero(d), d, lost + i); });
    for (int64_t k = 1; k < length; ++k) {
      x += step;
      y += step;
      for_vectors([&](int64_t i, int64_t at) {
        const auto before = hn::LoadU(d, y - step + at), added = hn::Sub(hn::LoadU(d, x + at), hn::Load(d, lost + i));
        const auto sum = hn::Add(before, added);
        hn::StoreU(sum, d, y + at);
        hn::Store(hn::Sub(hn::Sub(sum, before), added), d, lost + i);
      });
    }
    auto rests = hn::Zero(d);
    for_vectors([&](int64_t i, int64_t) { rests = hn::Add(rests, hn::Load(d, lost + i)); });
    return hn::AllFalse(d, hn::IsNaN(rests));
  } else {
    for (int64_t k = 1; k < length; ++k) {
      x += step;
      y += step;
      for_vectors([&](int64_t, int64_t at) {
        hn::StoreU(hn::Add(hn::LoadU(d, y - step + at), hn::LoadU(d, x + at)), d, y + at);
      });
    }
    return true;
  }
}

template <typename T>
void running_sum(const T* x, T* y, int64_t length, int64_t step, int64_t n, bool exclusive) {
  if (exclusive && length > 0) {
    for (int64_t i = 0; i < n; ++i) y[i] = T(0);
    y += step;
    --length;
  }
  if (length <= 0) return;
  constexpr bool kFloat = std::is_same_v<T, float>;
  constexpr int kBlock = 4, kFloatBlock = HWY_MAX_BYTES >= 64 ? 8 : 4;  // vectors that fit in registers
  using A = std::conditional_t<kFloat, double, T>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(LineTag<A>()));
  for (int64_t end = 0; end < n;) {
    int64_t i = end;
    end = !kFloat || n - i < kMostRunning ? n : i + kRunning;
    const int64_t count = end - i;
    if (count > kBlock * lanes) {
      if constexpr (kFloat) {
        if (count <= kFloatBlock * 2 * lanes ? running_blocks<float, kFloatBlock>(x + i, y + i, length, step, count)
                                             : running_rows(x + i, y + i, length, step, count))
          continue;
      } else {
        running_rows(x + i, y + i, length, step, count);
        continue;
      }
    }
    for (; i < end; i += kBlock * lanes) {
      const int64_t block = std::min(kBlock * lanes, end - i);
      if (block >= lanes) {
        running_blocks<A, kBlock>(x + i, y + i, length, step, block);
        continue;
      }
      for (int64_t j = i; j < end; ++j) {
        std::conditional_t<std::is_integral_v<T>, uint64_t, double> sum = 0;
        for (int64_t k = 0, at = j; k < length; ++k, at += step)
          y[at] = static_cast<T>(sum += static_cast<decltype(sum)>(x[at]));
      }
    }
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
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) sums[j] = set_wide(bias);
  for (int64_t t = 0; t < taps; ++t) {
    const FW factor = set_wide(factors[t]);
#pragma GCC unroll 8
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
#pragma GCC unroll 8
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

// key_of() of vectors; those of integers take less.
template <typename T, bool integer = false>
class VectorKeys {
 public:
  using D = LineTag<T>;
  using V = hn::Vec<D>;
  explicit VectorKeys(const ElementOrder<T>& by)
      : signs_(hn::Set(D(), by.signs)),
        magnitude_(hn::Set(D(), by.magnitude)),
        infinity_(hn::Set(D(), by.infinity)),
        flip_(hn::Set(D(), by.flip)),
        nan_(hn::Set(D(), by.nan)) {}
  TENON_INLINE V operator()(V bits) const {
    if constexpr (integer) return hn::Xor(bits, flip_);
    const V sign = hn::And(hn::BroadcastSignBit(bits), signs_), size = hn::And(bits, magnitude_);
    const V key = hn::Xor(hn::Sub(hn::Xor(size, sign), sign), flip_);
    return hn::IfThenElse(hn::Gt(size, infinity_), nan_, key);
  }

 private:
  V signs_, magnitude_, infinity_, flip_, nan_;
};

template <typename T, bool integer>
void group_tops_as(const T* x, int64_t n, const ElementOrder<T>& by, int64_t groups, T* tops) {
  const LineTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const VectorKeys<T, integer> keys(by);
  for (int64_t j = 0; j < groups; j += lanes) hn::StoreU(keys(hn::LoadU(d, x + j)), d, tops + j);
  int64_t i = groups, j = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Max(hn::LoadU(d, tops + j), keys(hn::LoadU(d, x + i))), d, tops + j);
    j = j + lanes < groups ? j + lanes : 0;
  }
#if HWY_MAX_BYTES >= 32
  const auto inside = hn::FirstN(d, static_cast<size_t>(n - i));
  const auto top = hn::LoadU(d, tops + j);
  hn::StoreU(hn::IfThenElse(inside, hn::Max(top, keys(hn::MaskedLoad(inside, d, x + i))), top), d, tops + j);
#else
  for (; i < n; ++i, ++j) tops[j] = std::max(tops[j], key_of(x[i], by));
#endif
}

template <typename T, bool integer>
int64_t at_least_as(const T* x, int64_t n, const ElementOrder<T>& by, T least, int64_t* next, int64_t* places) {
  const LineTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const VectorKeys<T, integer> keys(by);
  const auto bound = hn::Set(d, least);
  int64_t i = *next, count = 0;
  const auto put = [&](auto below) {
    if (hn::AllTrue(d, below)) return;
    uint64_t bits = 0;
    hn::StoreMaskBits(d, hn::Not(below), reinterpret_cast<uint8_t*>(&bits));
    for (; bits != 0; bits &= bits - 1) places[count++] = i + __builtin_ctzll(bits);
  };
  for (; i + lanes <= n && count + lanes <= kMostPlaces; i += lanes) put(hn::Gt(bound, keys(hn::LoadU(d, x + i))));
  if (i + lanes > n && count + lanes <= kMostPlaces) {
#if HWY_MAX_BYTES >= 32
    const auto inside = hn::FirstN(d, static_cast<size_t>(n - i));
    put(hn::Or(hn::Not(inside), hn::Gt(bound, keys(hn::MaskedLoad(inside, d, x + i)))));
    i = n;
#else
    for (; i < n; ++i)
      if (key_of(x[i], by) >= least) places[count++] = i;
#endif
  }
  *next = i;
  return count;
}

template <typename T>
void group_tops(const T* x, int64_t n, const ElementOrder<T>& by, int64_t groups, T* tops) {
  (by.signs == 0 ? group_tops_as<T, true> : group_tops_as<T, false>)(x, n, by, groups, tops);
}

template <typename T>
int64_t at_least(const T* x, int64_t n, const ElementOrder<T>& by, T least, int64_t* next, int64_t* places) {
  return (by.signs == 0 ? at_least_as<T, true> : at_least_as<T, false>)(x, n, by, least, next, places);
}

// kVectors vectors of columns.
template <typename T, typename S, int kVectors>
void top_rows_block(const S* x, int64_t length, int64_t step, const VectorKeys<T>& keys, int64_t* y) {
  const LineTag<T> d;
  const hn::Rebind<S, LineTag<T>> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto key_at = [&](const S* from) {
    if constexpr (std::is_same_v<T, S>) {
      return keys(hn::LoadU(d, from));
    } else {
      return keys(hn::PromoteTo(d, hn::LoadU(narrow, from)));
    }
  };
  hn::Vec<LineTag<T>> best[kVectors], at[kVectors];
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) {
    best[j] = key_at(x + j * lanes);
    at[j] = hn::Zero(d);
  }
  for (int64_t k = 1; k < length; ++k) {
    x += step;
    const auto row = hn::Set(d, static_cast<T>(k));
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      const auto key = key_at(x + j * lanes);
      at[j] = hn::IfThenElse(hn::Gt(key, best[j]), row, at[j]);
      best[j] = hn::Max(key, best[j]);
    }
  }
  alignas(64) T places[kVectors * 64 / sizeof(T)];
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) hn::Store(at[j], d, places + j * lanes);
  for (int64_t i = 0; i < kVectors * lanes; ++i) y[i] = places[i];
}

template <typename T, typename S>
void top_rows_of(const S* x, int64_t length, int64_t step, int64_t columns, const ElementOrder<T>& by, int64_t* y) {
  constexpr int kVectors = 4;
  const auto lanes = static_cast<int64_t>(hn::Lanes(LineTag<T>()));
  const VectorKeys<T> keys(by);
  int64_t i = 0;
  for (; i + kVectors * lanes <= columns; i += kVectors * lanes)
    top_rows_block<T, S, kVectors>(x + i, length, step, keys, y + i);
  for (; i < columns && lanes <= columns; i += lanes) {
    // The last vector overlaps the one before it.
    const int64_t at = std::min(i, columns - lanes);
    top_rows_block<T, S, 1>(x + at, length, step, keys, y + at);
  }
  for (; i < columns; ++i) {
    T best = key_of(static_cast<T>(x[i]), by);
    y[i] = 0;
    for (int64_t k = 1; k < length; ++k) {
      const T key = key_of(static_cast<T>(x[k * step + i]), by);
      if (key > best) {
        best = key;
        y[i] = k;
      }
    }
  }
}

template <typename T>
void top_rows(const void* x, size_t bytes, int64_t length, int64_t step, int64_t columns, const ElementOrder<T>& by,
              int64_t* y) {
  if constexpr (sizeof(T) == 4) {
    if (bytes == 1) return top_rows_of(static_cast<const int8_t*>(x), length, step, columns, by, y);
    if (bytes == 2) return top_rows_of(static_cast<const int16_t*>(x), length, step, columns, by, y);
  }
  top_rows_of(static_cast<const T*>(x), length, step, columns, by, y);
}

// The largest lane. Bytes are compared as the high halves of 16 bits.
template <typename S>
S largest_lane(hn::Vec<LineTag<S>> v) {
  if constexpr (sizeof(S) == 1) {
    const LineTag<int16_t> d;
    const auto pairs = hn::BitCast(d, v);
    return static_cast<S>(hn::GetLane(hn::MaxOfLanes(d, hn::Max(pairs, hn::ShiftLeft<8>(pairs)))) >> 8);
  } else {
    return hn::GetLane(hn::MaxOfLanes(LineTag<S>(), v));
  }
}

// The elements that come first are those whose bits are these behind a mask, which leaves out the sign of zeros.
template <typename S>
struct TopBits {
  S bits = 0, mask = S(-1);
};

// False, with nothing found, where one of the elements is a NaN. They are at least one vector.
template <typename S, bool integer, typename T>
bool top_bits(const S* x, int64_t n, const ElementOrder<T>& by, TopBits<S>* top) {
  constexpr int kVectors = 4;
  const LineTag<S> d;
  using V = hn::Vec<LineTag<S>>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto flip = static_cast<S>(by.flip), magnitude = static_cast<S>(by.magnitude);
  const V flips = hn::Set(d, flip), magnitudes = hn::Set(d, magnitude);
  // Once the bits of negative floats are turned round, they ascend as the floats do. A NaN is beyond an infinity then,
  // so that the largest and the smallest one tell whether there are some.
  const auto at = [&](int64_t i) {
    const V bits = hn::LoadU(d, x + i);
    if constexpr (integer) return hn::Xor(bits, flips);
    return hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), magnitudes));
  };
  V most[kVectors], least[kVectors];
  const auto take = [&](int j, V key) {
    most[j] = hn::Max(most[j], key);
    if constexpr (!integer) least[j] = hn::Min(least[j], key);
  };
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) most[j] = least[j] = at(0);
  int64_t i = 0;
  for (; i + kVectors * lanes <= n; i += kVectors * lanes) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) take(j, at(i + j * lanes));
  }
  for (; i < n; i += lanes) take(0, at(std::min(i, n - lanes)));
#pragma GCC unroll 8
  for (int j = 1; j < kVectors; ++j) {
    most[0] = hn::Max(most[0], most[j]);
    if constexpr (!integer) least[0] = hn::Min(least[0], least[j]);
  }
  S key = largest_lane<S>(most[0]);
  if constexpr (integer) {
    top->bits = static_cast<S>(key ^ flip);
  } else {
    const S lowest = hn::GetLane(hn::MinOfLanes(d, least[0]));
    if (key > by.infinity || lowest < ~by.infinity) return false;
    if (flip != 0) key = lowest;
    top->bits = static_cast<S>(key < 0 ? key ^ magnitude : key);
    if ((top->bits & magnitude) == 0) *top = {0, magnitude};
  }
  return true;
}

// The first or the last place of bits that are in the row, which has at least one vector.
template <typename S>
int64_t place_of(const S* x, int64_t n, const TopBits<S>& top, bool last) {
  constexpr int kVectors = 4;
  const LineTag<S> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bits = hn::Set(d, top.bits), mask = hn::Set(d, top.mask);
  const int64_t begin = last ? n - lanes : 0, step = last ? -1 : 1;
  const auto found_at = [&](int64_t i) { return hn::Eq(hn::And(hn::LoadU(d, x + begin + step * i), mask), bits); };
  int64_t i = 0;
  for (; i + kVectors * lanes <= n; i += kVectors * lanes) {
    auto found = found_at(i);
#pragma GCC unroll 8
    for (int j = 1; j < kVectors; ++j) found = hn::Or(found, found_at(i + j * lanes));
    if (!hn::AllFalse(d, found)) break;
  }
  for (;; i += lanes) {
    const int64_t at = std::min(i, n - lanes);
    const auto found = found_at(at);
    if (hn::AllFalse(d, found)) continue;
    uint64_t places = 0;
    hn::StoreMaskBits(d, found, reinterpret_cast<uint8_t*>(&places));
    return begin + step * at + (last ? 63 - __builtin_clzll(places) : __builtin_ctzll(places));
  }
}

template <typename S, typename T>
int64_t top_place_of(const S* x, int64_t n, const ElementOrder<T>& by, bool last) {
  if (n >= static_cast<int64_t>(hn::Lanes(LineTag<S>()))) {
    TopBits<S> top;
    if constexpr (sizeof(S) == 1) {
      top_bits<S, true>(x, n, by, &top);
      return place_of(x, n, top, last);
    } else if ((by.signs == 0 ? top_bits<S, true, T> : top_bits<S, false, T>)(x, n, by, &top)) {
      return place_of(x, n, top, last);
    }
  }
  // Few elements, or NaNs among them.
  int64_t place = 0;
  T top = key_of(static_cast<T>(x[0]), by);
  for (int64_t i = 1; i < n; ++i) {
    const T key = key_of(static_cast<T>(x[i]), by);
    if (last ? key < top : key <= top) continue;
    top = key;
    place = i;
  }
  return place;
}

template <typename T>
int64_t top_place(const void* x, size_t bytes, int64_t n, const ElementOrder<T>& by, bool last) {
  if constexpr (sizeof(T) == 4) {
    if (bytes == 1) return top_place_of(static_cast<const int8_t*>(x), n, by, last);
    if (bytes == 2) return top_place_of(static_cast<const int16_t*>(x), n, by, last);
  }
  return top_place_of(static_cast<const T*>(x), n, by, last);
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
  const VectorKeys<T> key_at(lines.by);
  alignas(64) T keys[kMostTop * kTopLines];
  std::fill_n(keys, lines.k * lanes, T(0));
  T* const order = lines.order + first;
  const int64_t last = lines.k - 1;
  V worst = hn::Zero(d);
  const T* x = lines.x + first;
  for (int64_t i = 0; i < lines.length; ++i, x += lines.step) {
    const V key = key_at(hn::MaskedLoad(inside, d, x));
    auto moves = i > last ? hn::Gt(key, worst) : hn::Eq(key, key);
    if (hn::AllFalse(d, moves)) continue;
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
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) sums[j] = hn::Zero(f);
  for (int64_t i = 0; i < length; ++i) {
    const VF32 v = hn::Set(f, x[i]);
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      const VF32 d = hn::Sub(v, hn::LoadU(f, columns + i * stride + j * kLanes));
      sums[j] = hn::MulAdd(d, d, sums[j]);
    }
  }
#pragma GCC unroll 8
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

double dot(const float* x, const float* y, int64_t n) {
  const LineTag<double> d;
  const hn::Rebind<float, LineTag<double>> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<LineTag<double>> sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  const auto add = [&](int sum, int64_t i) {
    const auto a = hn::PromoteTo(d, hn::LoadU(narrow, x + i)), b = hn::PromoteTo(d, hn::LoadU(narrow, y + i));
    sums[sum] = hn::MulAdd(a, b, sums[sum]);
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
#pragma GCC unroll 8
    for (int j = 0; j < 4; ++j) add(j, i + j * lanes);
  }
  for (; i + lanes <= n; i += lanes) add(0, i);
  double result = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
  for (; i < n; ++i) result += double{x[i]} * y[i];
  return result;
}

int64_t find(const float* x, int64_t n, float value) {
  const DF32 f;
  const VF32 wanted = hn::Set(f, value);
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    auto found = hn::Eq(hn::LoadU(f, x + i), wanted);
#pragma GCC unroll 8
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
#pragma GCC unroll 8
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

// The factors of a pair's elements differ here.
TENON_INLINE void rotate_pair(const float* x, const float* c, const float* s, int64_t first, int64_t second, float* y) {
  y[first] = c[first] * x[first] - s[first] * x[second];
  y[second] = c[second] * x[second] + s[second] * x[first];
}

template <typename Row>
TENON_INLINE void for_rotated_rows(RotatedRows t, const Row& row) {
  for (; t.rows > 0; --t.rows, t.x += t.x_step, t.cos += t.cos_step, t.sin += t.sin_step, t.y += t.y_step)
    row(t.x, t.cos, t.sin, t.y);
}

void rotate_halves(const RotatedRows& rows) {
  const DF32 f;
  const int64_t half = rows.turned / 2;
  for_rotated_rows(rows, [&](const float* x, const float* c, const float* s, float* y) {
    int64_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      const VF32 a = hn::LoadU(f, x + i), b = hn::LoadU(f, x + half + i);
      hn::StoreU(hn::NegMulAdd(hn::LoadU(f, s + i), b, hn::Mul(hn::LoadU(f, c + i), a)), f, y + i);
      hn::StoreU(hn::MulAdd(hn::LoadU(f, s + half + i), a, hn::Mul(hn::LoadU(f, c + half + i), b)), f, y + half + i);
    }
    for (; i < half; ++i) rotate_pair(x, c, s, i, half + i, y);
  });
}

void rotate_neighbours(const RotatedRows& rows) {
  const DF32 f;
  for_rotated_rows(rows, [&](const float* x, const float* c, const float* s, float* y) {
    int64_t i = 0;
    for (; i + kLanes <= rows.turned; i += kLanes) {
      const VF32 v = hn::LoadU(f, x + i), other = hn::Reverse2(f, v);
      const VF32 turned = hn::OddEven(other, hn::Neg(other));
      hn::StoreU(hn::MulAdd(hn::LoadU(f, s + i), turned, hn::Mul(hn::LoadU(f, c + i), v)), f, y + i);
    }
    for (; i < rows.turned; i += 2) rotate_pair(x, c, s, i, i + 1, y);
  });
}

// Vectors of kBytes, the last one of which overlaps others; shorter rows go to vectors of 16 bytes.
template <typename T, size_t kBytes>
void twice_vectors(const T* x, int64_t n, int64_t rows, T* y) {
  const hn::CappedTag<T, kBytes / sizeof(T)> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if constexpr (kBytes > 16) {
    if (n < lanes) return twice_vectors<T, 16>(x, n, rows, y);
  }
  const int64_t whole = n < lanes ? 0 : n;
  for (int64_t i = 0; i < whole; i += lanes) {
    const int64_t at = i + lanes <= n ? i : n - lanes;
    const auto v = hn::LoadU(d, x + at);
    for (int64_t r = 0; r < rows; ++r) hn::StoreInterleaved2(v, v, d, y + 2 * (r * n + at));
  }
  for (int64_t i = whole; i < n; ++i)
    for (int64_t r = 0; r < rows; ++r) y[2 * (r * n + i)] = y[2 * (r * n + i) + 1] = x[i];
}

template <typename T>
void twice(const void* x, int64_t n, int64_t rows, void* y) {
  twice_vectors<T, 64>(static_cast<const T*>(x), n, rows, static_cast<T*>(y));
}

}  // namespace

extern const LineTable line_table;
const LineTable line_table = {
    &running_sum<float>,
    &running_sum<double>,
    &running_sum<int32_t>,
    &running_sum<int64_t>,
    &add_rows,
    &weighted_sum,
    {&top_lines<int32_t>, &group_tops<int32_t>, &at_least<int32_t>, &top_rows<int32_t>, &top_place<int32_t>},
    {&top_lines<int64_t>, &group_tops<int64_t>, &at_least<int64_t>, &top_rows<int64_t>, &top_place<int64_t>},
    &square_distances,
    &dot,
    &find,
    &squares,
    &standardise,
    &turn,
    &turn_interleaved,
    &rotate_halves,
    &rotate_neighbours,
    &twice<uint8_t>,
    &twice<uint16_t>,
    &twice<uint32_t>};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
