#include "ep/cpu/simd/byte_binary.h"

#include "ep/cpu/simd/nearest.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

using DU8 = hn::Rebind<uint8_t, DI32>;

TENON_INLINE VF32 values_of(hn::Vec<DU8> x, const ByteStep& step) {
  const DF32 f;
  const auto whole = hn::ConvertTo(f, hn::PromoteTo(DI32(), hn::Xor(x, hn::Set(DU8(), step.flip))));
  return hn::Mul(hn::Sub(whole, hn::Set(f, step.zero)), hn::Set(f, step.scale));
}

// `inverse` is 1 / step.scale: a quotient that lies half way between two integers may be rounded to either.
TENON_INLINE hn::Vec<DU8> bytes_of(VF32 x, const ByteStep& step, float inverse) {
  const DF32 f;
  // Of a NaN and a number, Max gives its second operand, or the number.
  const auto steps = hn::Max(hn::Mul(x, hn::Set(f, inverse)), hn::Set(f, -step.zero));
  const VI32 rounded = nearest_small(hn::Min(steps, hn::Set(f, 255.0f - step.zero)));
  const VI32 q = hn::Add(rounded, hn::Set(DI32(), static_cast<int32_t>(step.zero)));
  return hn::Xor(hn::DemoteTo(DU8(), q), hn::Set(DU8(), step.flip));
}

template <bool kProduct>
TENON_INLINE hn::Vec<DU8> combine(hn::Vec<DU8> a, hn::Vec<DU8> b, const ByteBinary& steps, float inverse) {
  const VF32 x = values_of(a, steps.a), y = values_of(b, steps.b);
  return bytes_of(kProduct ? hn::Mul(x, y) : hn::Add(x, y), steps.y, inverse);
}

template <bool kProduct>
void run(const uint8_t* a, int64_t a_stride, const uint8_t* b, int64_t b_stride, const ByteBinary& steps, int64_t count,
         uint8_t* y) {
  const DU8 d;
  const float inverse = 1 / steps.y.scale;
  const auto load = [&](const uint8_t* from, int64_t stride) {
    return stride == 0 ? hn::Set(d, *from) : hn::LoadU(d, from);
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(combine<kProduct>(load(a + i * a_stride, a_stride), load(b + i * b_stride, b_stride), steps, inverse), d,
               y + i);
  }
  if (i == count) return;
  alignas(64) uint8_t rest[3][kLanes] = {};
  for (int64_t j = i; j < count; ++j) {
    rest[0][j - i] = a[j * a_stride];
    rest[1][j - i] = b[j * b_stride];
  }
  hn::StoreU(combine<kProduct>(hn::LoadU(d, rest[0]), hn::LoadU(d, rest[1]), steps, inverse), d, rest[2]);
  for (int64_t j = i; j < count; ++j) y[j] = rest[2][j - i];
}

}  // namespace

extern const ByteBinaryTable byte_binary_table;
const ByteBinaryTable byte_binary_table = {&run<false>, &run<true>};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
