#include "ep/cpu/simd/byte_binary.h"

#include "ep/cpu/simd/nearest.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

using DU8 = hn::Rebind<uint8_t, DI32>;

// Scales and zero points of both operands in steps of the result: a sum is a * scale_a + b * scale_b + offset, a
// product (a - zero_a) * (b - zero_b) * scale_a. What lies half way between two integers may be rounded to either.
struct Factors {
  float scale_a, scale_b, offset;
};

template <bool kProduct>
Factors factors_of(const ByteBinary& steps) {
  if (kProduct) return {steps.a.scale * steps.b.scale / steps.y.scale, 0, 0};
  const float a = steps.a.scale / steps.y.scale, b = steps.b.scale / steps.y.scale;
  return {a, b, -(steps.a.zero * a + steps.b.zero * b)};
}

TENON_INLINE VF32 numbers_of(hn::Vec<DU8> x, const ByteStep& step) {
  return hn::ConvertTo(DF32(), hn::PromoteTo(DI32(), hn::Xor(x, hn::Set(DU8(), step.flip))));
}

TENON_INLINE hn::Vec<DU8> bytes_of(VF32 steps, const ByteStep& step) {
  const DF32 f;
  // Of a NaN and a number, Max gives its second operand, or the number.
  const auto bounded = hn::Min(hn::Max(steps, hn::Set(f, -step.zero)), hn::Set(f, 255.0f - step.zero));
  const VI32 q = hn::Add(nearest_small(bounded), hn::Set(DI32(), static_cast<int32_t>(step.zero)));
  const hn::RebindToUnsigned<DI32> u;
  return hn::Xor(hn::TruncateTo(DU8(), hn::BitCast(u, q)), hn::Set(DU8(), step.flip));
}

template <bool kProduct>
TENON_INLINE hn::Vec<DU8> combine(hn::Vec<DU8> a, hn::Vec<DU8> b, const ByteBinary& steps, const Factors& factors) {
  const DF32 f;
  const VF32 x = numbers_of(a, steps.a), y = numbers_of(b, steps.b), scale = hn::Set(f, factors.scale_a);
  if constexpr (kProduct) {
    const VF32 product = hn::Mul(hn::Sub(x, hn::Set(f, steps.a.zero)), hn::Sub(y, hn::Set(f, steps.b.zero)));
    return bytes_of(hn::Mul(product, scale), steps.y);
  } else {
    return bytes_of(hn::MulAdd(x, scale, hn::MulAdd(y, hn::Set(f, factors.scale_b), hn::Set(f, factors.offset))),
                    steps.y);
  }
}

template <bool kProduct>
void run(const uint8_t* a, int64_t a_stride, const uint8_t* b, int64_t b_stride, const ByteBinary& steps, int64_t count,
         uint8_t* y) {
  const DU8 d;
  const Factors factors = factors_of<kProduct>(steps);
  const auto load = [&](const uint8_t* from, int64_t stride) {
    return stride == 0 ? hn::Set(d, *from) : hn::LoadU(d, from);
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(combine<kProduct>(load(a + i * a_stride, a_stride), load(b + i * b_stride, b_stride), steps, factors), d,
               y + i);
  }
  if (i == count) return;
  alignas(64) uint8_t rest[3][kLanes] = {};
  for (int64_t j = i; j < count; ++j) {
    rest[0][j - i] = a[j * a_stride];
    rest[1][j - i] = b[j * b_stride];
  }
  hn::StoreU(combine<kProduct>(hn::LoadU(d, rest[0]), hn::LoadU(d, rest[1]), steps, factors), d, rest[2]);
  for (int64_t j = i; j < count; ++j) y[j] = rest[2][j - i];
}

}  // namespace

extern const ByteBinaryTable byte_binary_table;
const ByteBinaryTable byte_binary_table = {&run<false>, &run<true>};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
