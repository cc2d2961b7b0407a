#include "ep/cpu/simd/integers.h"

#include "ep/cpu/ops/loops.h"
#include "ep/cpu/simd/isa.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// Integers wrap around.
inline int64_t wrapped(uint64_t x) { return static_cast<int64_t>(x); }

template <WideOp kOp>
inline auto apply(int64_t a, int64_t b) {
  if constexpr (kOp == WideOp::kAdd) return wrapped(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  if constexpr (kOp == WideOp::kSub) return wrapped(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  if constexpr (kOp == WideOp::kMul) return wrapped(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  if constexpr (kOp == WideOp::kMax) return a > b ? a : b;
  if constexpr (kOp == WideOp::kMin) return a < b ? a : b;
  if constexpr (kOp == WideOp::kEqual) return static_cast<uint8_t>(a == b);
  if constexpr (kOp == WideOp::kLess) return static_cast<uint8_t>(a < b);
  if constexpr (kOp == WideOp::kLessOrEqual) return static_cast<uint8_t>(a <= b);
  if constexpr (kOp == WideOp::kGreater) return static_cast<uint8_t>(a > b);
  if constexpr (kOp == WideOp::kGreaterOrEqual) return static_cast<uint8_t>(a >= b);
}

template <WideOp kOp>
void wide(const int64_t* a, int64_t a_stride, const int64_t* b, int64_t b_stride, void* y, int64_t n) {
  auto* const to = static_cast<decltype(apply<kOp>(0, 0))*>(y);
  if (a_stride == 1 && b_stride == 1) {
    TENON_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) to[i] = apply<kOp>(a[i], b[i]);
  } else if (a_stride == 1) {
    const int64_t right = n > 0 ? b[0] : 0;
    TENON_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) to[i] = apply<kOp>(a[i], right);
  } else {
    const int64_t left = n > 0 ? a[0] : 0;
    TENON_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) to[i] = apply<kOp>(left, b[i]);  // both strides are 0 for one element only
  }
}

void abs64(const int64_t* x, int64_t* y, int64_t n) {
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const int64_t sign = x[i] >> 63;
    y[i] = wrapped(static_cast<uint64_t>(x[i] ^ sign) - static_cast<uint64_t>(sign));
  }
}

void sign64(const int64_t* x, int64_t* y, int64_t n) {
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] > 0 ? 1 : 0) - (x[i] < 0 ? 1 : 0);
}

void bool_from_float(const float* x, uint8_t* y, int64_t n) {
  TENON_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] != 0.0f ? 1 : 0;
}

bool wrap(int64_t* indices, int64_t n, int64_t length) {
  int64_t outside = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = indices[i] + (indices[i] < 0 ? length : 0);
    outside |= index < 0 || index >= length ? 1 : 0;
    indices[i] = index;
  }
  return outside == 0;
}

bool is_run(const int64_t* x, int64_t n) {
  int64_t differs = 0;
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
    {&wide<WideOp::kAdd>, &wide<WideOp::kSub>, &wide<WideOp::kMul>, &wide<WideOp::kMax>, &wide<WideOp::kMin>,
     &wide<WideOp::kEqual>, &wide<WideOp::kLess>, &wide<WideOp::kLessOrEqual>, &wide<WideOp::kGreater>,
     &wide<WideOp::kGreaterOrEqual>},
    &abs64,
    &sign64,
    &bool_from_float,
    &wrap,
    &is_run,
    &is_one_value,
    &where<uint8_t>,
    &where<uint16_t>,
    &where<uint32_t>,
    &where<uint64_t>};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
