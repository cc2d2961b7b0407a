#include "ep/cpu/simd/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(QuantizeTable, quantize_table)

namespace tenon::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

uint8_t byte_of(float x, const ByteStep& step) {
  const float q = std::nearbyint(x / step.scale) + step.zero;
  return static_cast<uint8_t>(static_cast<int>(q > 0 ? std::min(q, 255.0f) : 0.0f) ^ step.flip);
}

class Quantize : public testing::TestWithParam<Isa> {};

// A product with the inverse would round many quotients that lie half way between two integers to the wrong one.
TEST_P(Quantize, BytesAreThoseOfTheQuotient) {
  const QuantizeTable& table = quantize_table_of(GetParam());
  std::mt19937 random(1);
  std::uniform_real_distribution<float> spread(-300, 300);
  for (float scale : {0.03f, 1.0f / 3, 0.1f, 7.3e-3f, 1.0f, 3.7f, 1e-20f, 2e-39f, 3e20f}) {
    std::vector<float> x = {0, -0.0f, kInf, -kInf, NAN, std::numeric_limits<float>::max(), 1e-45f};
    for (int i = -300; i < 300; ++i)
      for (float around : {-0.5f, 0.0f, 0.5f}) {
        const float value = (static_cast<float>(i) + around) * scale;
        for (float near : {std::nextafter(value, -kInf), value, std::nextafter(value, kInf)}) x.push_back(near);
      }
    for (int i = 0; i < 1000; ++i) x.push_back(spread(random) * scale);
    for (const ByteStep& step : {ByteStep{scale, 0, 0}, ByteStep{scale, 117, 0}, ByteStep{scale, 128, 0x80}}) {
      std::vector<uint8_t> y(x.size() + 1, 0xa5);
      table.quantize(x.data(), step, static_cast<int64_t>(x.size()), y.data());
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], byte_of(x[i], step)) << x[i] << " / " << scale;
      ASSERT_EQ(y.back(), 0xa5);
    }
  }
}

TEST_P(Quantize, WordsAreThoseOfTheQuotient) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> spread(-80000, 80000);
  for (float scale : {0.03f, 1.0f / 3, 1.0f, 1e-20f, 3e20f}) {
    std::vector<float> x = {0, -0.0f, kInf, -kInf, NAN, std::numeric_limits<float>::max(), 1e-45f};
    for (float around : {-65536.0f, -65535.5f, -32768.5f, -1.5f, -0.5f, 0.5f, 1.5f, 32767.5f, 65534.5f, 65535.5f})
      x.push_back(around * scale);
    for (int i = 0; i < 1000; ++i) x.push_back(spread(random) * scale);
    for (const WordStep& step : {WordStep{scale, 0, 0}, WordStep{scale, 30117, 0}, WordStep{scale, 32768, 0x8000}}) {
      std::vector<uint16_t> y(x.size() + 1, 0xa5a5);
      quantize_table_of(GetParam()).quantize_words(x.data(), step, static_cast<int64_t>(x.size()), y.data());
      for (size_t i = 0; i < x.size(); ++i) {
        const float q = std::nearbyint(x[i] / step.scale) + step.zero;
        const auto want = static_cast<uint16_t>(static_cast<int>(q > 0 ? std::min(q, 65535.0f) : 0.0f) ^ step.flip);
        ASSERT_EQ(y[i], want) << x[i] << " / " << scale;
      }
      ASSERT_EQ(y.back(), 0xa5a5);
    }
  }
}

TEST_P(Quantize, SumsAreThoseOfTheBytes) {
  for (int64_t count : {0, 1, 15, 16, 63, 64, 65, 1000}) {
    std::vector<uint8_t> x(static_cast<size_t>(count));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 89 + 7);
    for (uint8_t flip : {0x00, 0x80}) {
      uint64_t want = 0;
      for (uint8_t byte : x) want += static_cast<uint8_t>(byte ^ flip);
      EXPECT_EQ(quantize_table_of(GetParam()).sum(x.data(), flip, count), want) << count;
    }
  }
}

TEST_P(Quantize, ExtremesKeepANaN) {
  for (size_t count : {1, 15, 32, 33, 100}) {
    std::vector<float> x(count);
    for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i * 37 % 101) - 50;
    float low = 0, high = 0;
    quantize_table_of(GetParam()).extremes(x.data(), static_cast<int64_t>(count), &low, &high);
    EXPECT_EQ(low, std::min(0.0f, *std::min_element(x.begin(), x.end())));
    EXPECT_EQ(high, std::max(0.0f, *std::max_element(x.begin(), x.end())));
    for (size_t at : {size_t{0}, count / 2, count - 1}) {
      std::vector<float> with = x;
      with[at] = NAN;
      low = high = 0;
      quantize_table_of(GetParam()).extremes(with.data(), static_cast<int64_t>(count), &low, &high);
      EXPECT_TRUE(std::isnan(low) && std::isnan(high)) << at << " of " << count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Quantize, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
