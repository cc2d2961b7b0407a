#include "ep/cpu/simd/doubles.h"

#include <type_traits>

#include "ep/cpu/ops/loops.h"
#include "ep/cpu/simd/math64.h"
#include "ep/cpu/simd/vector_loops.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

using DHalf = hn::Rebind<float, DF64>;
using DI32Half = hn::Rebind<int32_t, DF64>;
using DU64 = hn::RebindToUnsigned<DF64>;
using V = VF64;

TENON_INLINE V load(const double* p) { return hn::LoadU(DF64(), p); }
TENON_INLINE V load(const float* p) { return hn::PromoteTo(DF64(), hn::LoadU(DHalf(), p)); }

// b where either is NaN.
#if HWY_ARCH_X86
TENON_INLINE V max_or_second(V a, V b) { return hn::Max(a, b); }
TENON_INLINE V min_or_second(V a, V b) { return hn::Min(a, b); }
#else
TENON_INLINE V max_or_second(V a, V b) { return hn::IfThenElse(hn::Gt(a, b), a, b); }
TENON_INLINE V min_or_second(V a, V b) { return hn::IfThenElse(hn::Lt(a, b), a, b); }
#endif
TENON_INLINE V max_or_nan(V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, max_or_second(a, b)); }
TENON_INLINE V min_or_nan(V a, V b) { return hn::IfThenElse(hn::IsNaN(a), a, min_or_second(a, b)); }

// How a reduction starts and takes one more value, of vectors and of single numbers; values taken before join like it.
template <WideReduction kReduction>
struct Reducer {
  static constexpr double kStart = kReduction == WideReduction::kMax    ? -__builtin_huge_val()
                                   : kReduction == WideReduction::kMin  ? __builtin_huge_val()
                                   : kReduction == WideReduction::kProd ? 1.0
                                                                        : 0.0;
  static TENON_INLINE V take(V sum, V x) {
    if constexpr (kReduction == WideReduction::kMax) return max_or_nan(sum, x);
    if constexpr (kReduction == WideReduction::kMin) return min_or_nan(sum, x);
    if constexpr (kReduction == WideReduction::kSumSquare) return hn::MulAdd(x, x, sum);
    if constexpr (kReduction == WideReduction::kL1) return hn::Add(sum, hn::Abs(x));
    if constexpr (kReduction == WideReduction::kProd) return hn::Mul(sum, x);
    if constexpr (kReduction == WideReduction::kSum) return hn::Add(sum, x);
  }
  static TENON_INLINE double take_one(double sum, double x) {
    if constexpr (kReduction == WideReduction::kMax) return sum < x || x != x ? x : sum;
    if constexpr (kReduction == WideReduction::kMin) return x < sum || x != x ? x : sum;
    if constexpr (kReduction == WideReduction::kSumSquare) return sum + x * x;
    if constexpr (kReduction == WideReduction::kL1) return sum + __builtin_fabs(x);
    if constexpr (kReduction == WideReduction::kProd) return sum * x;
    if constexpr (kReduction == WideReduction::kSum) return sum + x;
  }
  static constexpr WideReduction kJoin =
      kReduction == WideReduction::kSumSquare || kReduction == WideReduction::kL1 ? WideReduction::kSum : kReduction;
};

// The first `count` elements, `fill` in the other lanes; reads nothing beyond them.
template <typename D>
TENON_INLINE hn::Vec<D> load_first(D d, const hn::TFromD<D>* p, int64_t count, hn::TFromD<D> fill) {
#if HWY_MAX_BYTES >= 32
  const auto first = hn::FirstN(d, count);
  return hn::IfThenElse(first, hn::MaskedLoad(first, d, p), hn::Set(d, fill));
#else
  alignas(16) hn::TFromD<D> lanes[kDoubles];
  for (int64_t j = 0; j < kDoubles; ++j) lanes[j] = j < count ? p[j] : fill;
  return hn::Load(d, lanes);
#endif
}
TENON_INLINE V load_part(const double* p, int64_t count, double fill) { return load_first(DF64(), p, count, fill); }
TENON_INLINE V load_part(const float* p, int64_t count, double fill) {
  return hn::PromoteTo(DF64(), load_first(DHalf(), p, count, static_cast<float>(fill)));
}

// All lanes of a vector as one.
template <WideReduction kReduction>
TENON_INLINE double join_lanes(V v) {
  const DF64 d;
  if constexpr (kReduction == WideReduction::kSum) return hn::GetLane(hn::SumOfLanes(d, v));
  if constexpr (kReduction == WideReduction::kProd) {
    alignas(64) double lanes[kDoubles];
    hn::Store(v, d, lanes);
    double result = lanes[0];
    for (int64_t j = 1; j < kDoubles; ++j) result *= lanes[j];
    return result;
  }
  if (!hn::AllFalse(d, hn::IsNaN(v))) return __builtin_nan("");
  return hn::GetLane(kReduction == WideReduction::kMax ? hn::MaxOfLanes(d, v) : hn::MinOfLanes(d, v));
}

template <WideReduction kReduction, typename T>
void reduce_rows(const T* x, T* y, int64_t rows, int64_t n) {
  using R = Reducer<kReduction>;
  using Join = Reducer<R::kJoin>;
  // Single comparisons would be branches.
  constexpr bool kExtreme = kReduction == WideReduction::kMax || kReduction == WideReduction::kMin;
  for (int64_t row = 0; row < rows; ++row, x += n) {
    if (n <= (kExtreme ? 1 : kDoubles / 2)) {
      double result = R::kStart;
      for (int64_t i = 0; i < n; ++i) result = R::take_one(result, static_cast<double>(x[i]));
      y[row] = static_cast<T>(result);
      continue;
    }
    V sum = hn::Set(DF64(), R::kStart);
    int64_t i = 0;
    if (n >= 4 * kDoubles) {
      V sums[4] = {sum, sum, sum, sum};
      for (; i + 4 * kDoubles <= n; i += 4 * kDoubles)
        for (int j = 0; j < 4; ++j) sums[j] = R::take(sums[j], load(x + i + j * kDoubles));
      sum = Join::take(Join::take(sums[0], sums[1]), Join::take(sums[2], sums[3]));
    }
    for (; i + kDoubles <= n; i += kDoubles) sum = R::take(sum, load(x + i));
    // Filled with what changes nothing.
    constexpr double kFill =
        kReduction == WideReduction::kSumSquare || kReduction == WideReduction::kL1 ? 0 : R::kStart;
    if (i < n) sum = R::take(sum, load_part(x + i, n - i, kFill));
    y[row] = static_cast<T>(join_lanes<R::kJoin>(sum));
  }
}

TENON_INLINE void store(V v, double* p) { hn::StoreU(v, DF64(), p); }
TENON_INLINE void store(V v, float* p) { hn::StoreU(hn::DemoteTo(DHalf(), v), DHalf(), p); }

template <WideReduction kReduction, int kVectors, typename T>
void reduce_block(const T* x, T* y, int64_t n, int64_t inner) {
  using R = Reducer<kReduction>;
  V sums[kVectors];
  for (V& sum : sums) sum = hn::Set(DF64(), R::kStart);
  for (int64_t k = 0; k < n; ++k, x += inner)
    for (int j = 0; j < kVectors; ++j) sums[j] = R::take(sums[j], load(x + j * kDoubles));
  for (int j = 0; j < kVectors; ++j) store(sums[j], y + j * kDoubles);
}

template <WideReduction kReduction, typename T>
void reduce_columns(const T* x, T* y, int64_t n, int64_t inner, int64_t first, int64_t last) {
  using R = Reducer<kReduction>;
  int64_t i = first;
  for (; i + 8 * kDoubles <= last; i += 8 * kDoubles) reduce_block<kReduction, 8>(x + i, y + i, n, inner);
  for (; i + kDoubles <= last; i += kDoubles) reduce_block<kReduction, 1>(x + i, y + i, n, inner);
  for (; i < last; ++i) {
    double result = R::kStart;
    for (int64_t k = 0; k < n; ++k) result = R::take_one(result, static_cast<double>(x[k * inner + i]));
    y[i] = static_cast<T>(result);
  }
}

// A number, or a mask of the lanes where a comparison holds.
template <DoubleOp kOp>
TENON_INLINE auto apply(V a, V b) {
  if constexpr (kOp == DoubleOp::kAdd) return hn::Add(a, b);
  if constexpr (kOp == DoubleOp::kSub) return hn::Sub(a, b);
  if constexpr (kOp == DoubleOp::kMul) return hn::Mul(a, b);
  if constexpr (kOp == DoubleOp::kDiv) return hn::Div(a, b);
  if constexpr (kOp == DoubleOp::kMax) return max_or_nan(a, b);
  if constexpr (kOp == DoubleOp::kMin) return min_or_nan(a, b);
  if constexpr (kOp == DoubleOp::kEqual) return hn::Eq(a, b);
  if constexpr (kOp == DoubleOp::kLess) return hn::Lt(a, b);
  if constexpr (kOp == DoubleOp::kLessOrEqual) return hn::Le(a, b);
  if constexpr (kOp == DoubleOp::kGreater) return hn::Gt(a, b);
  if constexpr (kOp == DoubleOp::kGreaterOrEqual) return hn::Ge(a, b);
}

template <DoubleOp kOp>
void binary(const double* a, const double* b, int64_t b_stride, void* y, int64_t n) {
  using Y = std::conditional_t<(kOp >= DoubleOp::kEqual), uint8_t, double>;
  each_pair<&apply<kOp>, double, Y>(a, b, b_stride, y, n);
}

TENON_INLINE V widened(hn::Vec<DHalf> v) { return hn::PromoteTo(DF64(), v); }
TENON_INLINE hn::Vec<DHalf> narrowed(V v) { return hn::DemoteTo(DHalf(), v); }
TENON_INLINE V root(V v) { return hn::Sqrt(v); }
TENON_INLINE V floor_of(V v) { return hn::Floor(v); }
TENON_INLINE V ceiling(V v) { return hn::Ceil(v); }
TENON_INLINE V nearest(V v) { return hn::Round(v); }

// Powers of e that are not normal numbers would take long, and add nothing to a sum.
TENON_INLINE V normal_exponent(V v) {
  const DF64 d;
  return hn::IfThenElse(hn::Lt(v, hn::Set(d, -708.0)), hn::Set(d, -__builtin_huge_val()), v);
}

// Cut off, with the last bit set where something was lost.
TENON_INLINE hn::Vec<DHalf> odd_float(V v) {
  const hn::Rebind<uint32_t, DF64> bits;
  const auto rounded = narrowed(v);
  const V back = widened(rounded);
  const auto all_ones = [&](auto mask) {
    return hn::TruncateTo(bits, hn::VecFromMask(DU64(), hn::RebindMask(DU64(), mask)));
  };
  const auto above = all_ones(hn::Gt(hn::Abs(back), hn::Abs(v))), lost = all_ones(hn::Ne(back, v));
  const auto cut = hn::Add(hn::BitCast(bits, rounded), above);
  return hn::BitCast(DHalf(), hn::Or(cut, hn::And(lost, hn::Set(bits, 1))));
}

TENON_INLINE V from_integer(hn::Vec<DI64> v) { return hn::ConvertTo(DF64(), v); }

// The instructions of x86 give the lowest integer for NaN and what does not fit.
TENON_INLINE hn::Vec<DI32Half> whole_part32(V v) {
#if HWY_MAX_BYTES >= 64
  return hn::Vec<DI32Half>{_mm512_cvttpd_epi32(v.raw)};
#elif HWY_MAX_BYTES >= 32
  return hn::Vec<DI32Half>{_mm256_cvttpd_epi32(v.raw)};
#elif HWY_ARCH_X86
  return hn::Vec<DI32Half>{_mm_cvttpd_epi32(v.raw)};
#else
  const DF64 d;
  const auto fits = hn::Lt(hn::Abs(v), hn::Set(d, 0x1p31));
  return hn::DemoteTo(DI32Half(), hn::IfThenElse(fits, v, hn::Set(d, -0x1p31)));
#endif
}

double exponentials(const double* x, double* y, int64_t n, double top) {
  constexpr int64_t kPiece = 1024;  // which stays in L1 for the steps
  double sum = 0;
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t count = n - i < kPiece ? n - i : kPiece;
    binary<DoubleOp::kSub>(x + i, &top, 0, y + i, count);
    each<&normal_exponent, double>(y + i, y + i, count);
    each<&exponential, double>(y + i, y + i, count);
    double part = 0;
    reduce_rows<WideReduction::kSum>(y + i, &part, 1, count);
    sum += part;
  }
  return sum;
}

void scale(const double* x, double* y, int64_t n, double factor) { binary<DoubleOp::kMul>(x, &factor, 0, y, n); }

void affine_line(const double* x, int64_t n, const double* slope, const double* base, int64_t axes, float* y) {
  const DF64 d;
  const DHalf f;
  const auto at = [&](int64_t i, int64_t k) {
    return hn::DemoteTo(f, hn::MulAdd(hn::Set(d, slope[k]), load(x + i), hn::Set(d, base[k])));
  };
  int64_t i = 0;
  if (axes == 2) {
    for (; i + kDoubles <= n; i += kDoubles) hn::StoreInterleaved2(at(i, 0), at(i, 1), f, y + 2 * i);
  } else if (axes == 3) {
    for (; i + kDoubles <= n; i += kDoubles) hn::StoreInterleaved3(at(i, 0), at(i, 1), at(i, 2), f, y + 3 * i);
  }
  for (; i < n; ++i)
    for (int64_t k = 0; k < axes; ++k) y[i * axes + k] = static_cast<float>(slope[k] * x[i] + base[k]);
}

#if HWY_MAX_BYTES >= 64
TENON_INLINE auto whole_part64(V v) { return hn::Vec<DI64>{_mm512_cvttpd_epi64(v.raw)}; }
#endif

void int64_from_double(const double* x, int64_t* y, int64_t n) {
#if HWY_MAX_BYTES >= 64
  each<&whole_part64, double, int64_t>(x, y, n);
#else
  constexpr double kLimit = 0x1p63;
  constexpr int64_t kLowest = -0x7fffffffffffffff - 1;
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const double v = x[i];
    y[i] = __builtin_fabs(v) < kLimit ? static_cast<int64_t>(v) : kLowest;
  }
#endif
}

}  // namespace

extern const DoubleTable double_table;
const DoubleTable double_table = {
    {&binary<DoubleOp::kAdd>, &binary<DoubleOp::kSub>, &binary<DoubleOp::kMul>, &binary<DoubleOp::kDiv>,
     &binary<DoubleOp::kMax>, &binary<DoubleOp::kMin>, &binary<DoubleOp::kEqual>, &binary<DoubleOp::kLess>,
     &binary<DoubleOp::kLessOrEqual>, &binary<DoubleOp::kGreater>, &binary<DoubleOp::kGreaterOrEqual>},
    {&reduce_rows<WideReduction::kSum, double>, &reduce_rows<WideReduction::kMax, double>,
     &reduce_rows<WideReduction::kMin, double>, &reduce_rows<WideReduction::kSumSquare, double>,
     &reduce_rows<WideReduction::kL1, double>, &reduce_rows<WideReduction::kProd, double>},
    {&reduce_columns<WideReduction::kSum, double>, &reduce_columns<WideReduction::kMax, double>,
     &reduce_columns<WideReduction::kMin, double>, &reduce_columns<WideReduction::kSumSquare, double>,
     &reduce_columns<WideReduction::kL1, double>, &reduce_columns<WideReduction::kProd, double>},
    &reduce_rows<WideReduction::kProd, float>,
    &reduce_columns<WideReduction::kProd, float>,
    &each<&root, double>,
    &each<&floor_of, double>,
    &each<&ceiling, double>,
    &each<&nearest, double>,
    &each<&hyperbolic_tangent, double>,
    &each<&exponential, double>,
    &each<&logarithm, double>,
    &each<&sigmoid, double>,
    &each<&sine, double>,
    &each<&cosine, double>,
    &each<&tangent, double>,
    &exponentials,
    &scale,
    &affine_line,
    &each<&odd_float, double, float>,
    &each<&narrowed, double, float>,
    &each<&widened, float, double>,
    &each<&from_integer, int64_t, double>,
    &each<&whole_part32, double, int32_t>,
    &int64_from_double};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
