#include "ep/cpu/simd/integers.h"

#include <limits>
#include <type_traits>

#include "ep/cpu/ops/loops.h"
#include "ep/cpu/simd/f8.h"
#include "ep/cpu/simd/vector_loops.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

inline int64_t wrapped(uint64_t x) { return static_cast<int64_t>(x); }

// a <= b, of which Highway has no form for integers.
template <typename V>
TENON_INLINE auto at_most(V a, V b) {
  if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
    return hn::Le(a, b);
  } else if constexpr (!hwy::IsSigned<hn::TFromV<V>>() && sizeof(hn::TFromV<V>) < 8) {
    return hn::Eq(hn::Min(a, b), a);
  } else {
    return hn::Not(hn::Gt(a, b));
  }
}

// A number, or a mask of the lanes where a comparison holds.
template <WideOp kOp, typename T>
TENON_INLINE auto apply(LoopVector<T> a, LoopVector<T> b) {
  if constexpr (kOp == WideOp::kAdd) return hn::Add(a, b);
  if constexpr (kOp == WideOp::kSub) return hn::Sub(a, b);
  if constexpr (kOp == WideOp::kMul) return hn::Mul(a, b);
  if constexpr (kOp == WideOp::kMax) return hn::Max(a, b);
  if constexpr (kOp == WideOp::kMin) return hn::Min(a, b);
  if constexpr (kOp == WideOp::kEqual) return hn::Eq(a, b);
  if constexpr (kOp == WideOp::kLess) return hn::Lt(a, b);
  if constexpr (kOp == WideOp::kLessOrEqual) return at_most(a, b);
  if constexpr (kOp == WideOp::kGreater) return hn::Gt(a, b);
  if constexpr (kOp == WideOp::kGreaterOrEqual) return at_most(b, a);
}

template <WideOp kOp, typename T>
void wide(const T* a, const T* b, int64_t b_stride, void* y, int64_t n) {
  using Y = std::conditional_t<(kOp >= WideOp::kEqual), uint8_t, T>;
  each_pair<&apply<kOp, T>, T, Y>(a, b, b_stride, y, n);
}

using Bytes = LoopVector<uint8_t>;
// 1 where x is not 0.
TENON_INLINE Bytes truth(Bytes x) { return hn::Min(x, hn::Set(hn::DFromV<Bytes>(), 1)); }

template <char kOp>
TENON_INLINE Bytes apply_logic(Bytes a, Bytes b) {
  if constexpr (kOp == '&') return truth(hn::Min(a, b));
  if constexpr (kOp == '|') return truth(hn::Or(a, b));
  if constexpr (kOp == '^') return hn::Xor(truth(a), truth(b));
}

template <char kOp>
void logic(const uint8_t* a, const uint8_t* b, int64_t b_stride, void* y, int64_t n) {
  each_pair<&apply_logic<kOp>, uint8_t, uint8_t>(a, b, b_stride, y, n);
}

bool divide32(const int32_t* a, const int32_t* b, int64_t b_stride, int32_t* y, int64_t n) {
  int32_t zeros = 0;
  // A quotient of doubles is cut off to the same integer, and there are vectors of those.
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const int32_t r = b[i * b_stride];
    zeros |= r == 0 ? 1 : 0;
    const double quotient = static_cast<double>(a[i]) / static_cast<double>(r != 0 ? r : 1);
    y[i] = static_cast<int32_t>(quotient == 2147483648.0 ? -2147483648.0 : quotient);
  }
  return zeros == 0;
}

template <typename T>
void shift(const T* a, const T* b, bool left, T* y, int64_t n) {
  // Wider numbers, of which what is left is cut off.
  using W = std::conditional_t<sizeof(T) < 4, uint32_t, T>;
  constexpr W kWidth = 8 * sizeof(T);
  const W by_left = left ? kWidth - 1 : 0, by_right = left ? 0 : kWidth - 1;
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const W by = b[i];
    y[i] = static_cast<T>(by < kWidth ? (W{a[i]} << (by & by_left)) >> (by & by_right) : 0);
  }
}

template <RowFold kFold, typename T>
TENON_INLINE T fold_row(const T* x, int64_t n) {
  using U = std::make_unsigned_t<T>;
  T result = x[0];
  for (int64_t i = 1; i < n; ++i) {
    if constexpr (kFold == RowFold::kMax) result = x[i] > result ? x[i] : result;
    if constexpr (kFold == RowFold::kMin) result = x[i] < result ? x[i] : result;
    if constexpr (kFold == RowFold::kSum) result = static_cast<T>(static_cast<U>(result) + static_cast<U>(x[i]));
  }
  return result;
}

// Rows of a number of elements that is known here: the compiler's vectors hold several.
template <RowFold kFold, int n, typename T>
void fold_few(const T* x, T* y, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) y[row] = fold_row<kFold>(x + row * n, n);
}

template <RowFold kFold, typename T>
void fold_rows(const T* x, T* y, int64_t rows, int64_t n) {
  using Limits = std::numeric_limits<T>;
  const hn::CappedTag<T, 64 / sizeof(T)> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V start = hn::Set(d, kFold == RowFold::kSum ? T(0) : kFold == RowFold::kMax ? Limits::min() : Limits::max());
  const auto take = [](V a, V b) {
    if constexpr (kFold == RowFold::kMax) return hn::Max(a, b);
    if constexpr (kFold == RowFold::kMin) return hn::Min(a, b);
    if constexpr (kFold == RowFold::kSum) return hn::Add(a, b);
  };
  if constexpr (sizeof(T) == 4) {
    if (n == 2) return fold_few<kFold, 2>(x, y, rows);
    if (n == 3) return fold_few<kFold, 3>(x, y, rows);
  }
  if (n <= 4) {
    for (int64_t row = 0; row < rows; ++row, x += n) y[row] = fold_row<kFold>(x, n);
    return;
  }
  for (int64_t row = 0; row < rows; ++row, x += n) {
    V a = start, b = start;
    int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      a = take(a, hn::LoadU(d, x + i));
      b = take(b, hn::LoadU(d, x + i + lanes));
    }
    if (i + lanes <= n) {
      b = take(b, hn::LoadU(d, x + i));
      i += lanes;
    }
#if HWY_MAX_BYTES >= 32
    if (i < n) {
      const auto first = hn::FirstN(d, n - i);
      a = take(a, hn::IfThenElse(first, hn::MaskedLoad(first, d, x + i), start));
      i = n;
    }
#endif
    a = take(a, b);
    // Without masked loads the last elements come singly.
    for (; i < n; ++i)
      a = take(a, kFold == RowFold::kSum ? hn::IfThenElseZero(hn::FirstN(d, 1), hn::Set(d, x[i])) : hn::Set(d, x[i]));
    if constexpr (kFold == RowFold::kMax) y[row] = hn::GetLane(hn::MaxOfLanes(d, a));
    if constexpr (kFold == RowFold::kMin) y[row] = hn::GetLane(hn::MinOfLanes(d, a));
    if constexpr (kFold == RowFold::kSum) y[row] = hn::GetLane(hn::SumOfLanes(d, a));
  }
}

template <typename T>
TENON_INLINE LoopVector<T> negative(LoopVector<T> x) {
  return hn::Sub(hn::Zero(typename LoopTags<T, T>::From()), x);
}
template <typename T>
TENON_INLINE LoopVector<T> magnitude(LoopVector<T> x) {
  return hn::Max(x, negative<T>(x));
}
template <typename T>
TENON_INLINE LoopVector<T> sign(LoopVector<T> x) {
  const typename LoopTags<T, T>::From d;
  return hn::Max(hn::Min(x, hn::Set(d, 1)), hn::Set(d, -1));
}
TENON_INLINE Bytes falsehood(Bytes x) { return hn::Xor(truth(x), hn::Set(hn::DFromV<Bytes>(), 1)); }
TENON_INLINE Bytes complement(Bytes x) { return hn::Not(x); }

// Also of a NaN, which Highway's Ne is not true for on every set.
TENON_INLINE auto is_not_zero(LoopVector<float> v) {
  return hn::Not(hn::Eq(v, hn::Zero(hn::DFromV<LoopVector<float>>())));
}

// The instructions of x86 give the lowest integer for NaN and what does not fit.
TENON_INLINE LoopVector<int32_t> whole_part(LoopVector<float> v) {
#if HWY_MAX_BYTES >= 64
  return LoopVector<int32_t>{_mm512_cvttps_epi32(v.raw)};
#elif HWY_MAX_BYTES >= 32
  return LoopVector<int32_t>{_mm256_cvttps_epi32(v.raw)};
#elif HWY_ARCH_X86
  return LoopVector<int32_t>{_mm_cvttps_epi32(v.raw)};
#else
  const hn::DFromV<LoopVector<float>> d;
  const auto fits = hn::Lt(hn::Abs(v), hn::Set(d, 0x1p31f));
  return hn::ConvertTo(hn::DFromV<LoopVector<int32_t>>(), hn::IfThenElse(fits, v, hn::Set(d, -0x1p31f)));
#endif
}

template <typename T>
TENON_INLINE auto low_whole_part(LoopVector<float> v) {
  const hn::DFromV<LoopVector<uint32_t>> u;
  return hn::TruncateTo(hn::Rebind<T, decltype(u)>(), hn::BitCast(u, whole_part(v)));
}

// From 2^16 on the lower 8 bits lie below the half of a bfloat16's last place: only whether there are any counts.
TENON_INLINE LoopVector<float> odd_float(LoopVector<int32_t> x) {
  const hn::DFromV<LoopVector<int32_t>> d;
  const auto low = hn::And(x, hn::Set(d, 0xff)), high = hn::AndNot(hn::Set(d, 0xff), x);
  const auto cut = hn::Or(high, hn::IfThenElseZero(hn::Ne(low, hn::Zero(d)), hn::Set(d, 0x80)));
  const auto small = hn::Lt(hn::Xor(x, hn::BroadcastSignBit(x)), hn::Set(d, 0x10000));
  return hn::ConvertTo(hn::DFromV<LoopVector<float>>(), hn::IfThenElse(small, x, cut));
}

template <typename X, typename Y>
TENON_INLINE auto low_bits(LoopVector<X> x) {
  return hn::TruncateTo(hn::Rebind<Y, hn::DFromV<LoopVector<X>>>(), x);
}

template <typename T>
void in_range(const T* x, T mask, T low, T span, uint8_t* y, int64_t n) {
  using Tags = LoopTags<T, T>;
  const typename Tags::From d;
  const auto bits = hn::Set(d, mask), least = hn::Set(d, low), most = hn::Set(d, span);
  int64_t i = 0;
  for (; i + Tags::kCount <= n; i += Tags::kCount)
    store_loop(d, at_most(hn::Sub(hn::And(hn::LoadU(d, x + i), bits), least), most), y + i);
  if (i == n) return;
  T last[Tags::kCount] = {};
  uint8_t results[Tags::kCount];
  const auto rest = static_cast<size_t>(n - i);
  __builtin_memcpy(last, x + i, rest * sizeof(T));
  in_range(last, mask, low, span, results, Tags::kCount);
  __builtin_memcpy(y + i, results, rest);
}

struct PhiloxBlock {
  uint32_t x[4], k0, k1;

  TENON_INLINE void round() {
    const uint64_t p0 = uint64_t{0xD2511F53} * x[0], p1 = uint64_t{0xCD9E8D57} * x[2];
    x[0] = static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ k0, x[1] = static_cast<uint32_t>(p1);
    x[2] = static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ k1, x[3] = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
};

void philox(uint32_t key0, uint32_t key1, uint32_t* words, int64_t blocks) {
  uint32_t *const a = words, *const b = words + blocks, *const c = words + 2 * blocks, *const d = words + 3 * blocks;
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < blocks; ++i) {
    PhiloxBlock block{{a[i], b[i], c[i], d[i]}, key0, key1};
    // A loop of rounds would keep compilers from making vectors of blocks.
    block.round(), block.round(), block.round(), block.round(), block.round();
    block.round(), block.round(), block.round(), block.round(), block.round();
    a[i] = block.x[0], b[i] = block.x[1], c[i] = block.x[2], d[i] = block.x[3];
  }
}

void count64(int64_t first, int64_t step, int64_t* y, int64_t n) {
  auto next = static_cast<uint64_t>(first);
  for (int64_t i = 0; i < n; ++i, next += static_cast<uint64_t>(step)) y[i] = wrapped(next);
}

template <bool kStrided>
bool place_as(const int64_t* indices, int64_t n, int64_t length, int64_t stride, int64_t step, int64_t* offsets) {
  int64_t outside = 0;
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = indices[i] + (indices[i] < 0 ? length : 0);
    // Of both differences the sign says whether the index is outside, with no comparison of 64 bits.
    outside |= index | (length - 1 - index);
    offsets[i] =
        kStrided
            ? wrapped(static_cast<uint64_t>(index) * static_cast<uint64_t>(stride) + static_cast<uint64_t>(i * step))
            : index;
  }
  return outside >= 0;
}

bool place(const int64_t* indices, int64_t n, int64_t length, int64_t stride, int64_t step, int64_t* offsets) {
  if (stride == 1 && step == 0) return place_as<false>(indices, n, length, 1, 0, offsets);
  return place_as<true>(indices, n, length, stride, step, offsets);
}

bool is_run(const int64_t* x, int64_t n) {
  int64_t differs = n == 0 ? 0 : x[n - 1] ^ (x[0] + n - 1);
  if (differs != 0) return false;
  for (int64_t i = 0; i < n; ++i) differs |= x[i] ^ (x[0] + i);
  return differs == 0;
}

bool is_one_value(const int64_t* x, int64_t n) {
  int64_t differs = 0;
  for (int64_t i = 0; i < n; ++i) differs |= x[i] ^ x[0];
  return differs == 0;
}

template <typename T>
inline void choose(const uint8_t* condition, const T* a, int64_t a_stride, const T* b, int64_t b_stride, T* y,
                   int64_t n) {
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const T yes = a[i * a_stride], no = b[i * b_stride];
    y[i] = condition[i] != 0 ? yes : no;
  }
}

template <typename T>
void where(const uint8_t* condition, int64_t c_stride, const T* a, int64_t a_stride, const T* b, int64_t b_stride, T* y,
           int64_t n) {
  if (n == 0) return;
  if (c_stride == 0) {
    const T* const from = condition[0] != 0 ? a : b;
    const int64_t stride = condition[0] != 0 ? a_stride : b_stride;
    for (int64_t i = 0; i < n; ++i) y[i] = from[i * stride];
    return;
  }
  if (a_stride == 1 && b_stride == 1) return choose(condition, a, 1, b, 1, y, n);
  if (a_stride == 1) return choose(condition, a, 1, b, 0, y, n);
  if (b_stride == 1) return choose(condition, a, 0, b, 1, y, n);
  choose(condition, a, 0, b, 0, y, n);
}

}  // namespace

extern const IntegerTable integer_table;
const IntegerTable integer_table = {
    {&fold_rows<RowFold::kSum, int32_t>, &fold_rows<RowFold::kMax, int32_t>, &fold_rows<RowFold::kMin, int32_t>},
    {&fold_rows<RowFold::kSum, int64_t>, &fold_rows<RowFold::kMax, int64_t>, &fold_rows<RowFold::kMin, int64_t>},
    {&wide<WideOp::kAdd, int64_t>, &wide<WideOp::kSub, int64_t>, &wide<WideOp::kMul, int64_t>,
     &wide<WideOp::kMax, int64_t>, &wide<WideOp::kMin, int64_t>, &wide<WideOp::kEqual, int64_t>,
     &wide<WideOp::kLess, int64_t>, &wide<WideOp::kLessOrEqual, int64_t>, &wide<WideOp::kGreater, int64_t>,
     &wide<WideOp::kGreaterOrEqual, int64_t>},
    {&wide<WideOp::kAdd, int32_t>, &wide<WideOp::kSub, int32_t>, &wide<WideOp::kMul, int32_t>,
     &wide<WideOp::kMax, int32_t>, &wide<WideOp::kMin, int32_t>},
    {&wide<WideOp::kEqual, float>, &wide<WideOp::kLess, float>, &wide<WideOp::kLessOrEqual, float>,
     &wide<WideOp::kGreater, float>, &wide<WideOp::kGreaterOrEqual, float>},
    {&logic<'&'>, &logic<'|'>, &logic<'^'>},
    &divide32,
    &shift<uint8_t>,
    &shift<uint16_t>,
    &shift<uint32_t>,
    &shift<uint64_t>,
    &each<&magnitude<int8_t>, int8_t>,
    &each<&magnitude<int16_t>, int16_t>,
    &each<&magnitude<int32_t>, int32_t>,
    &each<&magnitude<int64_t>, int64_t>,
    &each<&negative<int8_t>, int8_t>,
    &each<&negative<int16_t>, int16_t>,
    &each<&negative<int32_t>, int32_t>,
    &each<&negative<int64_t>, int64_t>,
    &each<&sign<int8_t>, int8_t>,
    &each<&sign<int16_t>, int16_t>,
    &each<&sign<int32_t>, int32_t>,
    &each<&sign<int64_t>, int64_t>,
    &each<&falsehood, uint8_t>,
    &each<&truth, uint8_t>,
    &each<&complement, uint8_t>,
    &each<&is_not_zero, float, uint8_t>,
    &each<&low_whole_part<uint8_t>, float, uint8_t>,
    &each<&low_whole_part<uint16_t>, float, uint16_t>,
    &each<&odd_float, int32_t, float>,
    &each<&low_bits<uint16_t, uint8_t>, uint16_t, uint8_t>,
    &each<&low_bits<uint32_t, uint8_t>, uint32_t, uint8_t>,
    &each<&low_bits<uint32_t, uint16_t>, uint32_t, uint16_t>,
    &each<&low_bits<uint64_t, uint8_t>, uint64_t, uint8_t>,
    &each<&low_bits<uint64_t, uint16_t>, uint64_t, uint16_t>,
    &each<&low_bits<uint64_t, uint32_t>, uint64_t, uint32_t>,
    &in_range<uint16_t>,
    &in_range<uint32_t>,
    &in_range<uint64_t>,
    &philox,
    &count64,
    &place,
    &is_run,
    &is_one_value,
    &where<uint8_t>,
    &where<uint16_t>,
    &where<uint32_t>,
    &where<uint64_t>};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
