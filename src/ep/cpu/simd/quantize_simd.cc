#include "ep/cpu/simd/quantize.h"

#include <cstring>

#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/nearest.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

using DU8 = hn::Rebind<uint8_t, DI32>;

// How x / step.scale is found: by a division, or by a product with `inverse` and the remainder, which give the same
// number where a product and a sum are rounded once (Markstein). Beyond 1000 the quotient need not be exact, and an
// infinity has no remainder.
enum class Quotient : uint8_t { kDivision, kProduct };

template <Quotient kQuotient>
TENON_INLINE hn::Vec<DU8> bytes_of(hn::Vec<DF32> x, const ByteStep& step, float inverse) {
  const DF32 f;
  auto quotient = x;
  if constexpr (kQuotient == Quotient::kProduct) {
    const auto far = hn::Set(f, 1000.0f), by = hn::Set(f, inverse);
    const auto near = hn::Max(hn::Neg(far), hn::Min(far, hn::Mul(x, by)));
    quotient = hn::MulAdd(hn::NegMulAdd(near, hn::Set(f, step.scale), x), by, near);
  } else {
    quotient = hn::Div(x, hn::Set(f, step.scale));
  }
  // Of a NaN and a number, Max gives its second operand, or the number.
  const auto steps = hn::Max(quotient, hn::Set(f, -step.zero));
  const VI32 rounded = nearest_small(hn::Min(steps, hn::Set(f, 255.0f - step.zero)));
  const VI32 q = hn::Add(rounded, hn::Set(DI32(), static_cast<int32_t>(step.zero)));
  const hn::RebindToUnsigned<DI32> u;
  return hn::Xor(hn::TruncateTo(DU8(), hn::BitCast(u, q)), hn::Set(DU8(), step.flip));
}

#if HWY_ARCH_X86 && HWY_NATIVE_FMA
// Four vectors at a time: packing saturates, so that quotients need no lower bound, and the zero point is added to half
// as many vectors. A NaN, and a remainder of an infinity below zero, becomes the lowest integer.
TENON_INLINE void quantize_four(const float* x, const ByteStep& step, float inverse, uint8_t* y) {
  const DF32 f;
  const hn::Repartition<int16_t, DI32> d16;
  const hn::Repartition<uint8_t, DI32> d8;
  const auto by = hn::Set(f, inverse), scale = hn::Set(f, step.scale);
  const auto steps_of = [&](int part) {
    const auto value = hn::LoadU(f, x + part * kLanes);
    const auto near = hn::Min(hn::Set(f, 1000.0f), hn::Mul(value, by));
    const auto quotient = hn::MulAdd(hn::NegMulAdd(near, scale, value), by, near);
    return nearest_small(hn::Min(hn::Set(f, 1024.0f), quotient));
  };
  const auto zero = hn::Set(d16, static_cast<int16_t>(step.zero));
  const auto low = hn::SaturatedAdd(hn::ReorderDemote2To(d16, steps_of(0), steps_of(1)), zero);
  const auto high = hn::SaturatedAdd(hn::ReorderDemote2To(d16, steps_of(2), steps_of(3)), zero);
  // Both packings work within blocks of 16 bytes: each has four bytes of each vector now.
#if HWY_MAX_BYTES >= 64
  alignas(64) static constexpr int32_t kOrder[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  const hn::Vec<decltype(d8)> packed{_mm512_packus_epi16(low.raw, high.raw)};
#else
  alignas(32) static constexpr int32_t kOrder[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  const hn::Vec<decltype(d8)> packed{_mm256_packus_epi16(low.raw, high.raw)};
#endif
  const auto order = hn::SetTableIndices(DI32(), kOrder);
  const auto bytes = hn::BitCast(d8, hn::TableLookupLanes(hn::BitCast(DI32(), packed), order));
  hn::StoreU(hn::Xor(bytes, hn::Set(d8, step.flip)), d8, y);
}
#endif

TENON_INLINE hn::Vec<DF32> floats_of(hn::Vec<DU8> x, const ByteStep& step) {
  const DF32 f;
  const auto whole = hn::ConvertTo(f, hn::PromoteTo(DI32(), hn::Xor(x, hn::Set(DU8(), step.flip))));
  return hn::Mul(hn::Sub(whole, hn::Set(f, step.zero)), hn::Set(f, step.scale));
}

template <Quotient kQuotient>
void quantize_by(const float* x, const ByteStep& step, int64_t count, uint8_t* y) {
  const float inverse = 1 / step.scale;
  int64_t i = 0;
#if HWY_ARCH_X86 && HWY_NATIVE_FMA
  if constexpr (kQuotient == Quotient::kProduct)
    for (; i + 4 * kLanes <= count; i += 4 * kLanes) quantize_four(x + i, step, inverse, y + i);
#endif
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(bytes_of<kQuotient>(hn::LoadU(DF32(), x + i), step, inverse), DU8(), y + i);
  if (i == count) return;
  alignas(64) float rest[kLanes] = {};
  alignas(64) uint8_t bytes[kLanes];
  for (int64_t j = i; j < count; ++j) rest[j - i] = x[j];
  hn::StoreU(bytes_of<kQuotient>(hn::Load(DF32(), rest), step, inverse), DU8(), bytes);
  for (int64_t j = i; j < count; ++j) y[j] = bytes[j - i];
}

void quantize(const float* x, const ByteStep& step, int64_t count, uint8_t* y) {
#if HWY_NATIVE_FMA
  // Far from 1 the inverse or the remainder of a scale would not be a normal number.
  if (step.scale > 1e-18f && step.scale < 1e18f) return quantize_by<Quotient::kProduct>(x, step, count, y);
#endif
  quantize_by<Quotient::kDivision>(x, step, count, y);
}

void quantize_words(const float* x, const WordStep& step, int64_t count, uint16_t* y) {
  const DF32 f;
  const DI32 i32;
  const hn::Rebind<uint16_t, DI32> u16;
  const auto scale = hn::Set(f, step.scale), low = hn::Set(f, -step.zero), high = hn::Set(f, 65535.0f - step.zero);
  const auto zero = hn::Set(i32, static_cast<int32_t>(step.zero));
  const auto words_of = [&](VF32 part) {
    // Of a NaN and a number, Max gives its second operand, or the number.
    const VI32 rounded = nearest_small(hn::Min(hn::Max(hn::Div(part, scale), low), high));
    const auto q = hn::BitCast(hn::RebindToUnsigned<DI32>(), hn::Add(rounded, zero));
    return hn::Xor(hn::TruncateTo(u16, q), hn::Set(u16, step.flip));
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(words_of(hn::LoadU(f, x + i)), u16, y + i);
  if (i == count) return;
  alignas(64) float rest[kLanes] = {};
  alignas(64) uint16_t words[kLanes];
  for (int64_t j = i; j < count; ++j) rest[j - i] = x[j];
  hn::StoreU(words_of(hn::Load(f, rest)), u16, words);
  for (int64_t j = i; j < count; ++j) y[j] = words[j - i];
}

void dequantize(const uint8_t* x, const ByteStep& step, int64_t count, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(floats_of(hn::LoadU(DU8(), x + i), step), DF32(), y + i);
  for (; i < count; ++i) y[i] = (static_cast<float>(x[i] ^ step.flip) - step.zero) * step.scale;
}

void extremes(const float* x, int64_t count, float* low, float* high) {
  const DF32 f;
  VF32 least[2] = {hn::Set(f, *low), hn::Set(f, *low)}, most[2] = {hn::Set(f, *high), hn::Set(f, *high)};
  auto nan = hn::IsNaN(hn::Zero(f));
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    for (int j = 0; j < 2; ++j) {
      const VF32 value = hn::LoadU(f, x + i + j * kLanes);
      least[j] = hn::Min(least[j], value);
      most[j] = hn::Max(most[j], value);
      nan = hn::Or(nan, hn::IsNaN(value));  // the extremes may lose it
    }
  }
  float low_end = hn::GetLane(hn::MinOfLanes(f, hn::Min(least[0], least[1])));
  float high_end = hn::GetLane(hn::MaxOfLanes(f, hn::Max(most[0], most[1])));
  bool lost = !hn::AllFalse(f, nan);
  for (; i < count; ++i) {
    low_end = x[i] < low_end ? x[i] : low_end;
    high_end = x[i] > high_end ? x[i] : high_end;
    lost |= x[i] != x[i];
  }
  *low = lost || *low != *low ? __builtin_nanf("") : low_end;
  *high = lost || *high != *high ? __builtin_nanf("") : high_end;
}

// Sixteen tables of 16 bytes: each gives its result where the upper half of the byte names it.
#ifdef __AVX512BW__
// Two instructions look up 64 bytes in one half of the table each.
__attribute__((target("avx512vbmi"))) void lookup_vbmi(const uint8_t* x, const uint8_t* table, int64_t count,
                                                       uint8_t* y) {
  __m512i parts[4];
  for (int i = 0; i < 4; ++i) parts[i] = _mm512_loadu_si512(table + 64 * i);
  for (int64_t i = 0; i < count; i += 64) {
    const __mmask64 left = count - i < 64 ? (uint64_t{1} << (count - i)) - 1 : ~uint64_t{0};
    const __m512i value = _mm512_maskz_loadu_epi8(left, x + i);
    const __m512i low = _mm512_permutex2var_epi8(parts[0], value, parts[1]);
    const __m512i high = _mm512_permutex2var_epi8(parts[2], value, parts[3]);
    _mm512_mask_storeu_epi8(y + i, left, _mm512_mask_blend_epi8(_mm512_movepi8_mask(value), low, high));
  }
}
#endif

void lookup(const uint8_t* x, const uint8_t* table, int64_t count, uint8_t* y) {
#ifdef __AVX512BW__
  if (selected_vbmi()) return lookup_vbmi(x, table, count, y);
#endif
  const hn::CappedTag<uint8_t, 64> d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  const auto low_half = hn::Set(d, 15);
  const auto map = [&](const uint8_t* from, uint8_t* to) {
    const auto value = hn::LoadU(d, from);
    const auto low = hn::And(value, low_half), high = hn::AndNot(low_half, value);
    auto result = hn::Zero(d);
    for (int part = 0; part < 16; ++part) {
      const auto found = hn::TableLookupBytes(hn::LoadDup128(d, table + 16 * part), low);
      result = hn::IfThenElse(hn::Eq(high, hn::Set(d, static_cast<uint8_t>(part << 4))), found, result);
    }
    hn::StoreU(result, d, to);
  };
  int64_t i = 0;
  for (; i + step <= count; i += step) map(x + i, y + i);
  // Rows of a product's tile are shorter than a vector.
  constexpr int64_t kFewBytes = 12;
  if (count - i > kFewBytes) {
    alignas(64) uint8_t rest[64];
    std::memcpy(rest, x + i, static_cast<size_t>(count - i));
    map(rest, rest);
    std::memcpy(y + i, rest, static_cast<size_t>(count - i));
    return;
  }
  for (; i < count; ++i) y[i] = table[x[i]];
}

uint64_t sum(const uint8_t* x, uint8_t flip, int64_t count) {
  const hn::CappedTag<uint8_t, 64> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d64);
  int64_t i = 0;
  for (; i + step <= count; i += step)
    sums = hn::Add(sums, hn::SumsOf8(hn::Xor(hn::LoadU(d, x + i), hn::Set(d, flip))));
  uint64_t result = hn::GetLane(hn::SumOfLanes(d64, sums));
  for (; i < count; ++i) result += static_cast<uint8_t>(x[i] ^ flip);
  return result;
}

}  // namespace

extern const QuantizeTable quantize_table;
const QuantizeTable quantize_table = {&quantize, &quantize_words, &dequantize, &extremes, &lookup, &sum};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
