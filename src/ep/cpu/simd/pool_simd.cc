#include "ep/cpu/simd/pool.h"

#include "ep/cpu/simd/nearest.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

struct Maximum {
  template <typename D>
  static TENON_INLINE hn::Vec<D> of(D, hn::Vec<D> y, hn::Vec<D> x) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      const auto larger = hn::IfThenElse(hn::Lt(y, x), x, y);
      return hn::IfThenElse(hn::IsNaN(x), x, larger);
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

template <typename Op, typename T>
void tap(const T* x, int64_t stride, T* y, int64_t n) {
  const hn::CappedTag<T, 64 / sizeof(T)> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (stride == 1) {
    for (; i + lanes <= n; i += lanes) hn::StoreU(Op::of(d, hn::LoadU(d, y + i), hn::LoadU(d, x + i)), d, y + i);
  } else if (stride == 2) {
    // The odd elements are read too, so the last output is left to the loop below.
    for (; i + lanes < n; i += lanes) {
      hn::Vec<decltype(d)> even, odd;
      hn::LoadInterleaved2(d, x + 2 * i, even, odd);
      hn::StoreU(Op::of(d, hn::LoadU(d, y + i), even), d, y + i);
    }
  }
  for (; i < n; ++i) y[i] = Op::of_one(y[i], x[i * stride]);
}

}  // namespace

extern const PoolTable pool_table;
const PoolTable pool_table = {&tap<Maximum, float>, &tap<Maximum, uint8_t>, &tap<Maximum, int8_t>, &tap<Sum, float>};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
