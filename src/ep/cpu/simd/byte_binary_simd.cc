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

#if HWY_ARCH_X86
// Four vectors at a time: packing saturates, so that the steps need no lower bound, and the zero point is added to half
// as many vectors. Of a NaN, the conversion makes the lowest integer.
template <bool kProduct>
TENON_INLINE void combine_four(const uint8_t* a, bool one_a, const uint8_t* b, bool one_b, const ByteBinary& steps,
                               const Factors& factors, uint8_t* y) {
  const DF32 f;
  const hn::Repartition<int16_t, DI32> d16;
  const hn::Repartition<uint8_t, DI32> d8;
  const auto steps_of = [&](int part) {
    const DU8 d;
    const auto load = [&](const uint8_t* from, bool one) {
      return one ? hn::Set(d, *from) : hn::LoadU(d, from + part * kLanes);
    };
    const VF32 p = numbers_of(load(a, one_a), steps.a), q = numbers_of(load(b, one_b), steps.b);
    const VF32 scale = hn::Set(f, factors.scale_a);
    VF32 sum = p;
    if constexpr (kProduct) {
      sum = hn::Mul(hn::Mul(hn::Sub(p, hn::Set(f, steps.a.zero)), hn::Sub(q, hn::Set(f, steps.b.zero))), scale);
    } else {
      sum = hn::MulAdd(p, scale, hn::MulAdd(q, hn::Set(f, factors.scale_b), hn::Set(f, factors.offset)));
    }
    return nearest_small(hn::Min(hn::Set(f, 1024.0f), sum));
  };
  const auto zero = hn::Set(d16, static_cast<int16_t>(steps.y.zero));
  const auto low = hn::SaturatedAdd(hn::ReorderDemote2To(d16, steps_of(0), steps_of(1)), zero);
  const auto high = hn::SaturatedAdd(hn::ReorderDemote2To(d16, steps_of(2), steps_of(3)), zero);
  // Both packings work within blocks of 16 bytes: each has four bytes of each vector now.
  alignas(64) static constexpr int32_t kOrder[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  alignas(64) static constexpr int32_t kOrderOfEight[8] = {0, 4, 1, 5, 2, 6, 3, 7};
#if HWY_MAX_BYTES >= 64
  const hn::Vec<decltype(d8)> packed{_mm512_packus_epi16(low.raw, high.raw)};
  const auto order = hn::SetTableIndices(DI32(), kOrder);
#elif HWY_MAX_BYTES >= 32
  const hn::Vec<decltype(d8)> packed{_mm256_packus_epi16(low.raw, high.raw)};
  const auto order = hn::SetTableIndices(DI32(), kOrderOfEight);
#else
  const hn::Vec<decltype(d8)> packed{_mm_packus_epi16(low.raw, high.raw)};
#endif
  auto bytes = packed;
#if HWY_MAX_BYTES >= 32
  bytes = hn::BitCast(d8, hn::TableLookupLanes(hn::BitCast(DI32(), packed), order));
#endif
  (void)kOrder, (void)kOrderOfEight;
  hn::StoreU(hn::Xor(bytes, hn::Set(d8, steps.y.flip)), d8, y);
}
#endif

template <bool kProduct>
void run(const uint8_t* a, int64_t a_stride, const uint8_t* b, int64_t b_stride, const ByteBinary& steps, int64_t count,
         uint8_t* y) {
  const DU8 d;
  const Factors factors = factors_of<kProduct>(steps);
  const auto load = [&](const uint8_t* from, int64_t stride) {
    return stride == 0 ? hn::Set(d, *from) : hn::LoadU(d, from);
  };
  int64_t i = 0;
#if HWY_ARCH_X86
  for (; i + 4 * kLanes <= count; i += 4 * kLanes)
    combine_four<kProduct>(a + i * a_stride, a_stride == 0, b + i * b_stride, b_stride == 0, steps, factors, y + i);
#endif
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
