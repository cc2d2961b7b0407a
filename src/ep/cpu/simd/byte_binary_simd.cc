#include "ep/cpu/simd/byte_binary.h"

#include <algorithm>

#include "ep/cpu/simd/nearest.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

using DU8 = hn::Rebind<uint8_t, DI32>;

// kOne: the sum or product with a `b` that is one number. kExact...: rounded in each step, as DequantizeLinear, the sum
// or product, and QuantizeLinear are, in which the compiler must not join a product and a sum (-ffp-contract=off).
enum class Form { kSum, kProduct, kOne, kExactSum, kExactProduct };

// Scales and zero points of both operands in steps of the result: a sum is a * scale_a + b * scale_b + offset, a
// product (a - zero_a) * (b - zero_b) * scale_a. With one number b both are a * scale_a + offset. A result half
// way between two integers may be rounded to either, unless the form is exact.
struct Factors {
  float scale_a, scale_b, offset;
};

Factors factors_of(Form form, const ByteBinary& steps) {
  if (form == Form::kProduct) return {steps.a.scale * steps.b.scale / steps.y.scale, 0, 0};
  const float a = steps.a.scale / steps.y.scale, b = steps.b.scale / steps.y.scale;
  return {a, b, -(steps.a.zero * a + steps.b.zero * b)};
}

Factors factors_with(Form form, uint8_t b, const ByteBinary& steps) {
  const Factors all = factors_of(form, steps);
  const auto number = static_cast<float>(b ^ steps.b.flip);
  if (form == Form::kSum) return {all.scale_a, 0, number * all.scale_b + all.offset};
  const float scale = (number - steps.b.zero) * all.scale_a;
  return {scale, 0, -steps.a.zero * scale};
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

// Numbers as steps of the result. Where a product and a sum are rounded once, a product with the inverse and the
// remainder give the quotient (Markstein), which beyond 1000 need not be exact.
TENON_INLINE VF32 divided(VF32 x, const ByteStep& step) {
  const DF32 f;
#if HWY_NATIVE_FMA
  const VF32 far = hn::Set(f, 1000.0f), by = hn::Set(f, 1 / step.scale);
  const VF32 near = hn::Max(hn::Neg(far), hn::Min(far, hn::Mul(x, by)));
  return hn::MulAdd(hn::NegMulAdd(near, hn::Set(f, step.scale), x), by, near);
#else
  return hn::Div(x, hn::Set(f, step.scale));
#endif
}

TENON_INLINE VF32 dequantized(VF32 codes, const ByteStep& step) {
  return hn::Mul(hn::Sub(codes, hn::Set(DF32(), step.zero)), hn::Set(DF32(), step.scale));
}

// In steps of the result, from its zero point.
template <Form kForm>
TENON_INLINE VF32 steps_of(hn::Vec<DU8> a, hn::Vec<DU8> b, const ByteBinary& steps, const Factors& factors) {
  const DF32 f;
  const VF32 x = numbers_of(a, steps.a), scale = hn::Set(f, factors.scale_a);
  if constexpr (kForm == Form::kOne) {
    return hn::MulAdd(x, scale, hn::Set(f, factors.offset));
  } else if constexpr (kForm == Form::kExactSum || kForm == Form::kExactProduct) {
    const VF32 p = dequantized(x, steps.a), q = dequantized(numbers_of(b, steps.b), steps.b);
    return divided(kForm == Form::kExactSum ? hn::Add(p, q) : hn::Mul(p, q), steps.y);
  } else if constexpr (kForm == Form::kProduct) {
    const VF32 y = numbers_of(b, steps.b);
    return hn::Mul(hn::Mul(hn::Sub(x, hn::Set(f, steps.a.zero)), hn::Sub(y, hn::Set(f, steps.b.zero))), scale);
  } else {
    const VF32 y = numbers_of(b, steps.b);
    return hn::MulAdd(x, scale, hn::MulAdd(y, hn::Set(f, factors.scale_b), hn::Set(f, factors.offset)));
  }
}

template <Form kForm>
TENON_INLINE hn::Vec<DU8> combine(hn::Vec<DU8> a, hn::Vec<DU8> b, const ByteBinary& steps, const Factors& factors) {
  return bytes_of(steps_of<kForm>(a, b, steps, factors), steps.y);
}

#if HWY_ARCH_X86
// Four vectors at a time: packing saturates, so that the steps need no lower bound, and the zero point is added to half
// as many vectors. Of a NaN, the conversion makes the lowest integer.
template <Form kForm>
TENON_INLINE void combine_four(const uint8_t* a, const uint8_t* b, const ByteBinary& steps, const Factors& factors,
                               uint8_t* y) {
  const DF32 f;
  const hn::Repartition<int16_t, DI32> d16;
  const hn::Repartition<uint8_t, DI32> d8;
  const auto part = [&](int i) {
    const DU8 d;
    const auto x = hn::LoadU(d, a + i * kLanes);
    const auto other = kForm == Form::kOne ? x : hn::LoadU(d, b + i * kLanes);
    return nearest_small(hn::Min(hn::Set(f, 1024.0f), steps_of<kForm>(x, other, steps, factors)));
  };
  const auto zero = hn::Set(d16, static_cast<int16_t>(steps.y.zero));
  const auto low = hn::SaturatedAdd(hn::ReorderDemote2To(d16, part(0), part(1)), zero);
  const auto high = hn::SaturatedAdd(hn::ReorderDemote2To(d16, part(2), part(3)), zero);
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

template <Form kForm>
void run_rows(const uint8_t* a, const uint8_t* b, const ByteBinary& steps, const Factors& factors, int64_t count,
              uint8_t* y) {
  const DU8 d;
  const auto second = [&](int64_t i) { return kForm == Form::kOne ? hn::Zero(d) : hn::LoadU(d, b + i); };
  int64_t i = 0;
#if HWY_ARCH_X86
  for (; i + 4 * kLanes <= count; i += 4 * kLanes)
    combine_four<kForm>(a + i, kForm == Form::kOne ? b : b + i, steps, factors, y + i);
#endif
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(combine<kForm>(hn::LoadU(d, a + i), second(i), steps, factors), d, y + i);
  if (i == count) return;
  alignas(64) uint8_t rest[3][kLanes] = {};
  std::copy_n(a + i, count - i, rest[0]);
  if (kForm != Form::kOne) std::copy_n(b + i, count - i, rest[1]);
  hn::StoreU(combine<kForm>(hn::LoadU(d, rest[0]), hn::LoadU(d, rest[1]), steps, factors), d, rest[2]);
  std::copy_n(rest[2], count - i, y + i);
}

template <Form kForm>
void run(const uint8_t* a, int64_t a_stride, const uint8_t* b, int64_t b_stride, const ByteBinary& steps, int64_t count,
         uint8_t* y) {
  if (count == 0) return;
  if (a_stride == 0 && b_stride == 0) {
    run<kForm>(a, 1, b, 0, steps, 1, y);
    std::fill_n(y + 1, count - 1, y[0]);
  } else if (a_stride == 0) {
    run<kForm>(b, 1, a, 0, {steps.b, steps.a, steps.y}, count, y);
  } else if (b_stride == 0) {
    run_rows<Form::kOne>(a, b, steps, factors_with(kForm, *b, steps), count, y);
  } else {
    run_rows<kForm>(a, b, steps, factors_of(kForm, steps), count, y);
  }
}

// Operands that are one number are written out, a block at a time.
template <Form kForm>
void run_exact(const uint8_t* a, int64_t a_stride, const uint8_t* b, int64_t b_stride, const ByteBinary& steps,
               int64_t count, uint8_t* y) {
  constexpr int64_t kBlock = 1024;
  alignas(64) uint8_t numbers[2][kBlock];
  if (count > 0 && a_stride == 0) std::fill_n(numbers[0], std::min(count, kBlock), *a);
  if (count > 0 && b_stride == 0) std::fill_n(numbers[1], std::min(count, kBlock), *b);
  for (int64_t i = 0; i < count; i += kBlock)
    run_rows<kForm>(a_stride == 0 ? numbers[0] : a + i, b_stride == 0 ? numbers[1] : b + i, steps, {},
                    std::min(kBlock, count - i), y + i);
}

void mix(const ByteMix& m) {
  const hn::CappedTag<float, 8> f;
  const hn::Rebind<int32_t, decltype(f)> i32;
  const hn::Rebind<uint8_t, decltype(f)> u8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(f));
  const auto flip = hn::Set(u8, m.flip);
  const auto zero = hn::Set(f, static_cast<float>(m.flip));
  const auto numbers = [&](const uint8_t* x) {
    return hn::Sub(hn::ConvertTo(f, hn::PromoteTo(i32, hn::Xor(hn::LoadU(u8, x), flip))), zero);
  };
  for (int64_t i = 0; i < m.count; i += 8) {
    const uint8_t* const taps[] = {m.top + m.left[i], m.top + m.right[i], m.bottom + m.left[i], m.bottom + m.right[i]};
    const float weights[] = {m.top_weight * m.left_weight[i], m.top_weight * m.right_weight[i],
                             m.bottom_weight * m.left_weight[i], m.bottom_weight * m.right_weight[i]};
    for (int64_t k = 0; k < 8; k += lanes) {
      auto sum = hn::Mul(hn::Set(f, weights[0]), numbers(taps[0] + k));
      for (int tap = 1; tap < 4; ++tap) sum = hn::Add(sum, hn::Mul(hn::Set(f, weights[tap]), numbers(taps[tap] + k)));
      const hn::RebindToUnsigned<decltype(i32)> u32;
      hn::StoreU(hn::TruncateTo(u8, hn::BitCast(u32, hn::ConvertTo(i32, sum))), u8, m.y + i + k);
    }
  }
}

}  // namespace

extern const ByteBinaryTable byte_binary_table;
const ByteBinaryTable byte_binary_table = {&run<Form::kSum>, &run<Form::kProduct>, &run_exact<Form::kExactSum>,
                                           &run_exact<Form::kExactProduct>, &mix};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
