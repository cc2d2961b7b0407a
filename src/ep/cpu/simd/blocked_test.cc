// Activations and binary operators on blocks of every instruction set, for runs around the lengths of vectors.
#include "ep/cpu/simd/blocked.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ep/cpu/simd/test_tables.h"
#include "ops/activation_formula.h"

TENON_TEST_TABLES(BlockedTable, blocked_table)

namespace tenon::cpu {
namespace {

class Blocked : public testing::TestWithParam<Isa> {
 protected:
  const BlockedTable& table_ = blocked_table_of(GetParam());

  std::vector<float> values(int64_t count) {
    std::uniform_real_distribution<float> value(-6, 6);
    std::vector<float> result(count);
    for (float& v : result) v = value(random_);
    return result;
  }

 private:
  std::mt19937 random_{5};
};

TEST_P(Blocked, Activations) {
  for (int kind = 0; kind < kActivationCount; ++kind) {
    const auto activation = static_cast<Activation>(kind);
    const Epilogue epilogue{.activation = activation, .alpha = -0.5f, .beta = 2.0f, .residual_after = true};
    for (int64_t pixels = 1; pixels <= 9; ++pixels) {
      for (const int lanes : {8, 5}) {
        std::vector<float> x = values(pixels * 8);
        const std::vector<float> residual = values(pixels * 8);
        x[3] = std::numeric_limits<float>::quiet_NaN();
        std::vector<float> y(pixels * 8 + 8, 77.0f);
        table_.activate(epilogue, x.data(), residual.data(), y.data(), pixels, lanes);
        for (int64_t i = 0; i < pixels * 8; ++i) {
          const double want = evaluate(epilogue, x[i], residual[i]);
          if (i % 8 >= lanes)
            ASSERT_EQ(y[i], 0.0f);
          else if (i == 3)
            ASSERT_TRUE(std::isnan(y[i])) << kind;
          else
            ASSERT_NEAR(y[i], want, 4e-6) << kind << " of " << x[i];
        }
        for (int64_t i = pixels * 8; i < pixels * 8 + 8; ++i) ASSERT_EQ(y[i], 77.0f);
      }
    }
  }
}

// One pixel to more than two of the sums that a long one is made of.
TEST_P(Blocked, MomentsOfChannels) {
  for (int64_t pixels : {1, 2, 3, 4, 7, 255, 256, 257, 700}) {
    const std::vector<float> x = values(pixels * 8), mean = values(8), factor = values(8), offset = values(8);
    std::vector<float> sums(8), squares(8), y(pixels * 8);
    table_.sum(x.data(), pixels, sums.data());
    table_.squares(x.data(), pixels, mean.data(), squares.data());
    table_.standardise(x.data(), pixels, mean.data(), factor.data(), offset.data(), y.data());
    for (int64_t c = 0; c < 8; ++c) {
      double sum = 0, square = 0, most = 0;
      for (int64_t i = 0; i < pixels; ++i) {
        const double value = x[i * 8 + c], far = value - mean[c];
        sum += value;
        square += far * far;
        most += std::abs(value);
        ASSERT_NEAR(y[i * 8 + c], far * factor[c] + offset[c], 1e-5 * (1 + std::abs(far * factor[c]))) << i;
      }
      EXPECT_NEAR(sums[c], sum, 1e-6 * (1 + most)) << pixels;
      EXPECT_NEAR(squares[c], square, 1e-5 * (1 + square)) << pixels;
    }
  }
}

TEST_P(Blocked, BinaryOperators) {
  constexpr BinaryKind kAll[] = {BinaryKind::kAdd, BinaryKind::kSub, BinaryKind::kMul,  BinaryKind::kDiv,
                                 BinaryKind::kMin, BinaryKind::kMax, BinaryKind::kPRelu};
  for (const BinaryKind kind : kAll) {
    for (int64_t pixels = 1; pixels <= 5; ++pixels) {
      for (const int64_t a_step : {0, 8}) {
        for (const int64_t b_step : {0, 8}) {
          std::vector<float> a = values(pixels * 8);
          const std::vector<float> b = values(pixels * 8);
          a[2] = std::numeric_limits<float>::quiet_NaN();
          std::vector<float> y(pixels * 8);
          table_.binary(kind, {}, a.data(), a_step, b.data(), b_step, y.data(), pixels, 8);
          for (int64_t i = 0; i < pixels * 8; ++i) {
            const float p = a[a_step == 0 ? i % 8 : i], q = b[b_step == 0 ? i % 8 : i];
            if (std::isnan(p)) {
              ASSERT_TRUE(std::isnan(y[i]));
              continue;
            }
            const float want[] = {p + q, p - q, p * q, p / q, std::fmin(p, q), std::fmax(p, q), p < 0 ? p * q : p};
            ASSERT_FLOAT_EQ(y[i], want[static_cast<int>(kind)]);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Blocked, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
