#include "ep/cpu/simd/quantize.h"

#include "ep/cpu/simd/nearest.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

using DU8 = hn::Rebind<uint8_t, DI32>;

TENON_INLINE hn::Vec<DU8> bytes_of(hn::Vec<DF32> x, const ByteStep& step) {
  const DF32 f;
  // Of a NaN and a number, Max gives its second operand, or the number.
  const auto steps = hn::Max(hn::Div(x, hn::Set(f, step.scale)), hn::Set(f, -step.zero));
  const VI32 rounded = nearest_small(hn::Min(steps, hn::Set(f, 255.0f - step.zero)));
  const VI32 q = hn::Add(rounded, hn::Set(DI32(), static_cast<int32_t>(step.zero)));
  return hn::Xor(hn::DemoteTo(DU8(), q), hn::Set(DU8(), step.flip));
}

TENON_INLINE hn::Vec<DF32> floats_of(hn::Vec<DU8> x, const ByteStep& step) {
  const DF32 f;
  const auto whole = hn::ConvertTo(f, hn::PromoteTo(DI32(), hn::Xor(x, hn::Set(DU8(), step.flip))));
  return hn::Mul(hn::Sub(whole, hn::Set(f, step.zero)), hn::Set(f, step.scale));
}

void quantize(const float* x, const ByteStep& step, int64_t count, uint8_t* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(bytes_of(hn::LoadU(DF32(), x + i), step), DU8(), y + i);
  if (i == count) return;
  alignas(64) float rest[kLanes] = {};
  alignas(64) uint8_t bytes[kLanes];
  for (int64_t j = i; j < count; ++j) rest[j - i] = x[j];
  hn::StoreU(bytes_of(hn::Load(DF32(), rest), step), DU8(), bytes);
  for (int64_t j = i; j < count; ++j) y[j] = bytes[j - i];
}

void dequantize(const uint8_t* x, const ByteStep& step, int64_t count, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(floats_of(hn::LoadU(DU8(), x + i), step), DF32(), y + i);
  for (; i < count; ++i) y[i] = (static_cast<float>(x[i] ^ step.flip) - step.zero) * step.scale;
}

void extremes(const float* x, int64_t count, float* low, float* high) {
  F8 least = set8(*low), most = set8(*high), sum = zero8();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const F8 value = load8(x + i);
    least = min8(least, value);
    most = max8(most, value);
    // A NaN stays in the sum, also where the minimum loses it.
    sum = sum + value * zero8();
  }
  float low_end = minimum8(least), high_end = maximum8(most);
  bool lost = any_nan8(sum);
  for (; i < count; ++i) {
    low_end = x[i] < low_end ? x[i] : low_end;
    high_end = x[i] > high_end ? x[i] : high_end;
    lost |= x[i] != x[i];
  }
  // An infinity times 0 is NaN too: then look again.
  if (lost) {
    lost = false;
    for (int64_t j = 0; j < count; ++j) lost |= x[j] != x[j];
  }
  *low = lost || *low != *low ? __builtin_nanf("") : low_end;
  *high = lost || *high != *high ? __builtin_nanf("") : high_end;
}

// Sixteen tables of 16 bytes: each gives its result where the upper half of the byte names it.
void lookup(const uint8_t* x, const uint8_t* table, int64_t count, uint8_t* y) {
  const hn::CappedTag<uint8_t, 64> d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  const auto low_half = hn::Set(d, 15);
  int64_t i = 0;
  for (; i + step <= count; i += step) {
    const auto value = hn::LoadU(d, x + i);
    const auto low = hn::And(value, low_half), high = hn::AndNot(low_half, value);
    auto result = hn::Zero(d);
    for (int part = 0; part < 16; ++part) {
      const auto found = hn::TableLookupBytes(hn::LoadDup128(d, table + 16 * part), low);
      result = hn::IfThenElse(hn::Eq(high, hn::Set(d, static_cast<uint8_t>(part << 4))), found, result);
    }
    hn::StoreU(result, d, y + i);
  }
  for (; i < count; ++i) y[i] = table[x[i]];
}

}  // namespace

extern const QuantizeTable quantize_table;
const QuantizeTable quantize_table = {&quantize, &dequantize, &extremes, &lookup};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
