#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/compute/parallel.h"

namespace tenon::cuda {
namespace {

constexpr uint16_t kInfinity = 0x7c00;

// As IEEE 754 writes it down, for finite numbers.
float meaning(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return bits >> 15 != 0 ? -size : size;
}

float widened(uint16_t bits, DataType type) {
  const Constant constant{.type = type, .data = reinterpret_cast<const std::byte*>(&bits), .size_bytes = sizeof(bits)};
  return floats_of(constant).at(0);
}

uint16_t narrowed(float value, DataType type) {
  uint16_t bits = 0;
  store_floats({&value, 1}, type, reinterpret_cast<std::byte*>(&bits));
  return bits;
}

TEST(ConvertFloats, EveryFiniteHalfMeansItsNumberAndComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if ((half & kInfinity) == kInfinity) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(widened(half, DataType::kFloat16)), std::bit_cast<uint32_t>(meaning(half)))
        << bits;
    ASSERT_EQ(narrowed(meaning(half), DataType::kFloat16), half);
  }
}

TEST(ConvertFloats, F16RoundsToNearestTiesToEven) {
  for (uint16_t half = 0; half + 1 < kInfinity; ++half) {
    const float low = meaning(half), high = meaning(static_cast<uint16_t>(half + 1)), middle = (low + high) / 2;
    ASSERT_EQ(narrowed(middle, DataType::kFloat16), half % 2 == 0 ? half : half + 1) << half;
    ASSERT_EQ(narrowed(std::nextafter(middle, low), DataType::kFloat16), half);
    ASSERT_EQ(narrowed(std::nextafter(middle, high), DataType::kFloat16), half + 1);
  }
}

TEST(ConvertFloats, WhatIsTooLargeIsInfiniteAndWhatIsNoNumberStaysNone) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(narrowed(65519.996F, DataType::kFloat16), 0x7bff);
  EXPECT_EQ(narrowed(65520.0F, DataType::kFloat16), kInfinity);
  EXPECT_EQ(narrowed(-1e30F, DataType::kFloat16), 0xfc00);
  EXPECT_EQ(narrowed(kInfinite, DataType::kFloat16), kInfinity);
  EXPECT_EQ(widened(kInfinity, DataType::kFloat16), kInfinite);
  EXPECT_EQ(widened(0xfc00, DataType::kFloat16), -kInfinite);
  EXPECT_TRUE(std::isnan(widened(0x7e01, DataType::kFloat16)));
  for (DataType type : {DataType::kFloat16, DataType::kBfloat16})
    EXPECT_TRUE(std::isnan(widened(narrowed(std::numeric_limits<float>::quiet_NaN(), type), type)));
  EXPECT_EQ(std::bit_cast<uint32_t>(widened(0x8000, DataType::kFloat16)), 0x80000000U);
}

TEST(Parallel, EveryItemIsDoneOnce) {
  for (size_t count : {size_t{0}, size_t{1}, size_t{5}, size_t{1000}}) {
    std::vector<std::atomic<int>> done(count);
    run_parallel(count, [&](size_t i) { ++done[i]; });
    for (const auto& times : done) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace tenon::cuda
