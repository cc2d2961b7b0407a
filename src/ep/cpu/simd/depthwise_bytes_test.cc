#include "ep/cpu/simd/depthwise_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(DepthwiseBytesTable, depthwise_bytes_table)

namespace tenon::cpu {
namespace {

class DepthwiseBytes : public testing::TestWithParam<Isa> {};

// With the largest products, which 16 bits do not hold.
TEST_P(DepthwiseBytes, OutputsAreTheRoundedSums) {
  std::mt19937 random(1);
  for (int64_t taps : {1, 2, 9, 25})
    for (uint8_t flip : {0x00, 0x80})
      for (int64_t count : {1, 31, 32, 100}) {
        const int64_t room = (count + kDepthwiseStep - 1) / kDepthwiseStep * kDepthwiseStep;
        std::vector<uint8_t> x(room + 3 * taps), y(room);
        std::vector<int64_t> offsets;
        std::vector<int16_t> weights;
        for (uint8_t& byte : x) byte = static_cast<uint8_t>(random() % 3 == 0 ? 255 : random());
        for (int64_t t = 0; t < taps; ++t) {
          offsets.push_back(3 * t);
          weights.push_back(static_cast<int16_t>(t % 4 == 0 ? 255 : static_cast<int>(random() % 511) - 255));
        }
        if (taps % 2 != 0) {
          offsets.push_back(0);
          weights.push_back(0);
        }
        const DepthwiseBytesTask task{.x = x.data(),
                                      .x_flip = flip,
                                      .offsets = offsets.data(),
                                      .weights = weights.data(),
                                      .taps = std::ssize(weights),
                                      .term = -3000,
                                      .scale = 0.0007f,
                                      .bias = 1.25f,
                                      .low = flip != 0 ? 0.0f : -1024.0f,
                                      .zero = 100,
                                      .y_flip = flip,
                                      .count = count,
                                      .y = y.data()};
        depthwise_bytes_table_of(GetParam()).run(task);
        for (int64_t j = 0; j < count; ++j) {
          int32_t sum = task.term;
          for (int64_t t = 0; t < taps; ++t) sum += weights[t] * (x[offsets[t] + j] ^ flip);
          const float steps = std::clamp(std::fma(static_cast<float>(sum), task.scale, task.bias), task.low, task.high);
          const int want = std::clamp(static_cast<int>(std::nearbyint(steps)) + task.zero, 0, 255);
          ASSERT_NEAR(y[j] ^ flip, want, std::abs(std::fabs(steps - std::floor(steps)) - 0.5f) < 1e-4f ? 1 : 0)
              << "column " << j << " of " << count << ", " << taps << " taps";
        }
      }
}

// Outputs at every second byte, and an odd number of taps in a row: the last pair's second weight is 0.
TEST_P(DepthwiseBytes, PairsAreTapsOfEverySecondByte) {
  std::mt19937 random(2);
  for (int64_t pairs : {1, 3, 15})
    for (uint8_t flip : {0x00, 0x80})
      for (int64_t count : {1, 17, 32, 100}) {
        const int64_t room = (count + kDepthwiseStep - 1) / kDepthwiseStep * kDepthwiseStep;
        std::vector<uint8_t> x(2 * room + 7 * pairs), y(room);
        std::vector<int64_t> offsets;
        std::vector<int16_t> weights;
        for (uint8_t& byte : x) byte = static_cast<uint8_t>(random() % 3 == 0 ? 255 : random());
        for (int64_t p = 0; p < pairs; ++p) {
          offsets.push_back(7 * p);
          weights.push_back(static_cast<int16_t>(p % 4 == 0 ? 255 : static_cast<int>(random() % 511) - 255));
          weights.push_back(static_cast<int16_t>(p % 3 == 2 ? 0 : static_cast<int>(random() % 511) - 255));
        }
        const DepthwiseBytesTask task{.x = x.data(),
                                      .in_pairs = true,
                                      .x_flip = flip,
                                      .offsets = offsets.data(),
                                      .weights = weights.data(),
                                      .taps = 2 * pairs,
                                      .term = 500,
                                      .scale = 0.0009f,
                                      .bias = -2,
                                      .zero = 120,
                                      .y_flip = flip,
                                      .count = count,
                                      .y = y.data()};
        depthwise_bytes_table_of(GetParam()).run(task);
        for (int64_t j = 0; j < count; ++j) {
          int32_t sum = task.term;
          for (int64_t t = 0; t < 2 * pairs; ++t) sum += weights[t] * (x[offsets[t / 2] + t % 2 + 2 * j] ^ flip);
          const float steps = std::fma(static_cast<float>(sum), task.scale, task.bias);
          const int want = std::clamp(static_cast<int>(std::nearbyint(steps)) + task.zero, 0, 255);
          ASSERT_NEAR(y[j] ^ flip, want, std::abs(std::fabs(steps - std::floor(steps)) - 0.5f) < 1e-4f ? 1 : 0)
              << "column " << j << " of " << count << ", " << pairs << " pairs";
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Isas, DepthwiseBytes, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
