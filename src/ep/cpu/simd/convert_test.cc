#include "ep/cpu/simd/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "ep/cpu/ops/reference_types.h"
#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(ConvertTable, convert_table)

namespace tenon::cpu {
namespace {

constexpr int kCount = 1 << 16;  // numbers of 16 bits

std::vector<uint16_t> all_bits() {
  std::vector<uint16_t> bits(kCount);
  for (int i = 0; i < kCount; ++i) bits[i] = static_cast<uint16_t>(i);
  return bits;
}

void expect_same(float value, float wanted, int at) {
  if (std::isnan(wanted)) {
    EXPECT_TRUE(std::isnan(value)) << "at " << at;
  } else {
    EXPECT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(wanted)) << "at " << at;
  }
}

TEST(Convert, WidensEveryNumber) {
  const std::vector<uint16_t> bits = all_bits();
  for (Isa isa : testable_isas()) {
    SCOPED_TRACE(isa_name(isa));
    std::vector<float> f16(kCount), bf16(kCount);
    convert_table_of(isa).float_from_float16(bits.data(), f16.data(), kCount);
    convert_table_of(isa).float_from_bfloat16(bits.data(), bf16.data(), kCount);
    for (int i = 0; i < kCount; ++i) {
      expect_same(f16[i], ref::Float16::decode(bits[i]), i);
      expect_same(bf16[i], std::bit_cast<float>(uint32_t{bits[i]} << 16), i);
    }
  }
}

// Every number of 16 bits, what lies halfway to the next one, and the neighbours of both.
std::vector<float> numbers_to_round() {
  std::vector<float> x;
  for (int i = 0; i < kCount; ++i) {
    const uint32_t f16 = std::bit_cast<uint32_t>(ref::Float16::decode(static_cast<uint16_t>(i)));
    const uint32_t bf16 = static_cast<uint32_t>(i) << 16;
    for (uint32_t base : {f16, f16 + 0x1000u, bf16, bf16 + 0x8000u})
      for (uint32_t word : {base - 1, base, base + 1}) x.push_back(std::bit_cast<float>(word));
  }
  // Halfway between multiples of 2^-24, below the smallest normal f16.
  for (int i = 0; i < 1100; ++i) x.push_back(std::ldexp(static_cast<float>(i) + 0.5f, -24));
  return x;
}

void expect_rounded(uint16_t bits, uint16_t wanted, float value, bool wanted_is_nan) {
  if (wanted_is_nan) return;
  EXPECT_EQ(bits, wanted) << "for " << value;
}

TEST(Convert, RoundsToTheNearestNumberTiesToEven) {
  const std::vector<float> x = numbers_to_round();
  const auto count = static_cast<int64_t>(x.size());
  for (Isa isa : testable_isas()) {
    SCOPED_TRACE(isa_name(isa));
    std::vector<uint16_t> f16(x.size()), bf16(x.size());
    convert_table_of(isa).float16_from_float(x.data(), f16.data(), count);
    convert_table_of(isa).bfloat16_from_float(x.data(), bf16.data(), count);
    for (size_t i = 0; i < x.size(); ++i) {
      expect_rounded(f16[i], ref::Float16::encode(x[i]), x[i], std::isnan(x[i]));
      expect_rounded(bf16[i], ref::BFloat16::encode(x[i]), x[i], std::isnan(x[i]));
      if (!std::isnan(x[i])) continue;
      EXPECT_TRUE(std::isnan(ref::Float16::decode(f16[i]))) << "at " << i;
      EXPECT_TRUE(std::isnan(std::bit_cast<float>(uint32_t{bf16[i]} << 16))) << "at " << i;
    }
  }
}

// Counts around the length of a vector touch nothing behind them.
TEST(Convert, EndsWhereItIsTold) {
  for (Isa isa : testable_isas()) {
    for (int64_t n = 0; n < 40; ++n) {
      const std::vector<uint16_t> bits(n, 0x3c00);
      std::vector<float> wide(n + 1, -7);
      convert_table_of(isa).float_from_float16(bits.data(), wide.data(), n);
      std::vector<uint16_t> back(n + 1, 7);
      convert_table_of(isa).float16_from_float(wide.data(), back.data(), n);
      EXPECT_EQ(wide.back(), -7);
      EXPECT_EQ(back.back(), 7);
      for (int64_t i = 0; i < n; ++i) EXPECT_EQ(back[i], 0x3c00);
    }
  }
}

}  // namespace
}  // namespace tenon::cpu
