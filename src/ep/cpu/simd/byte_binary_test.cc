#include "ep/cpu/simd/byte_binary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(ByteBinaryTable, byte_binary_table)

namespace tenon::cpu {
namespace {

float value_of(uint8_t byte, const ByteStep& step) {
  return (static_cast<float>(byte ^ step.flip) - step.zero) * step.scale;
}

uint8_t byte_of(float x, const ByteStep& step) {
  const float q = std::nearbyint(x / step.scale) + step.zero;
  return static_cast<uint8_t>(static_cast<int>(q > 0 ? std::min(q, 255.0f) : 0.0f) ^ step.flip);
}

class Bytes : public testing::TestWithParam<Isa> {};

TEST_P(Bytes, SumsAndProductsAreThoseOfTheNumbers) {
  const ByteBinaryTable& table = byte_binary_table_of(GetParam());
  std::mt19937 random(1);
  for (uint8_t flip : {0x00, 0x80}) {
    for (int64_t count : {1, 3, 4, 15, 16, 17, 63, 64, 100}) {
      for (const auto& [a_stride, b_stride] : {std::pair(1, 1), {0, 1}, {1, 0}}) {
        // The second: half of all sums lie between two integers.
        const bool ties = count % 2 == 0;
        const ByteBinary steps = ties ? ByteBinary{{0.013f, 128, flip}, {0.013f, 128, flip}, {0.026f, 128, flip}}
                                      : ByteBinary{{0.02f, 130, flip}, {0.03f, 120, flip}, {0.0517f, 125, flip}};
        std::vector<uint8_t> a(count), b(count), y(count + 1, 0xa5);
        for (uint8_t& x : a) x = static_cast<uint8_t>(random());
        for (uint8_t& x : b) x = static_cast<uint8_t>(random());
        for (const auto& [product, exact] : {std::pair(false, true), {true, true}, {false, false}, {true, false}}) {
          if (ties && !exact) continue;
          const ByteBinaryRun run = exact     ? product ? table.multiply_exactly : table.add_exactly
                                    : product ? table.multiply
                                              : table.add;
          run(a.data(), a_stride, b.data(), b_stride, steps, count, y.data());
          for (int64_t i = 0; i < count; ++i) {
            const float p = value_of(a[i * a_stride], steps.a), q = value_of(b[i * b_stride], steps.b);
            ASSERT_EQ(y[i], byte_of(product ? p * q : p + q, steps.y)) << count << " at " << i;
          }
          ASSERT_EQ(y[count], 0xa5);
        }
      }
    }
  }
}

TEST_P(Bytes, MixesOfFourAreRoundedInEachStep) {
  std::mt19937 random(2);
  constexpr int64_t kCount = 320;
  std::vector<uint8_t> top(kCount), bottom(kCount), y(kCount + 1, 0xa5);
  std::vector<int32_t> left(kCount), right(kCount);
  std::vector<float> left_weight(kCount), right_weight(kCount);
  for (uint8_t flip : {0x00, 0x80}) {
    for (std::vector<uint8_t>* row : {&top, &bottom})
      for (uint8_t& x : *row) x = static_cast<uint8_t>(random());
    for (int64_t i = 0; i < kCount; i += 8) {
      left[i] = static_cast<int32_t>(random() % (kCount / 8)) * 8;
      right[i] = static_cast<int32_t>(random() % (kCount - 7));
      right_weight[i] = static_cast<float>(random() % 7) / 6;
      left_weight[i] = 1 - right_weight[i];
    }
    const ByteMix mix{.top = top.data(),
                      .bottom = bottom.data(),
                      .top_weight = 0.3f,
                      .bottom_weight = 0.7f,
                      .left = left.data(),
                      .right = right.data(),
                      .left_weight = left_weight.data(),
                      .right_weight = right_weight.data(),
                      .flip = flip,
                      .count = kCount,
                      .y = y.data()};
    byte_binary_table_of(GetParam()).mix(mix);
    const auto number = [&](uint8_t byte) { return static_cast<float>(flip == 0 ? byte : static_cast<int8_t>(byte)); };
    for (int64_t i = 0; i < kCount; ++i) {
      const int64_t first = i / 8 * 8, k = i % 8;
      float sum = 0.3f * left_weight[first] * number(top[left[first] + k]);
      sum += 0.3f * right_weight[first] * number(top[right[first] + k]);
      sum += 0.7f * left_weight[first] * number(bottom[left[first] + k]);
      sum += 0.7f * right_weight[first] * number(bottom[right[first] + k]);
      ASSERT_EQ(y[i], static_cast<uint8_t>(static_cast<int>(sum))) << i;
    }
    ASSERT_EQ(y[kCount], 0xa5);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Bytes, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
