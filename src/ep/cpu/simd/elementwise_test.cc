#include "ep/cpu/simd/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ep/cpu/simd/test_tables.h"
#include "ops/activation_formula.h"
#include "ops/unary.h"

TENON_TEST_TABLES(EltwiseTable, eltwise_table)

namespace tenon::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Every exponent and sign with eight mantissas, the neighbourhood of the interesting range, and the special values.
std::vector<float> wide_range() {
  std::vector<float> x;
  for (int exponent = -149; exponent <= 127; ++exponent)
    for (int eighth = 0; eighth < 8; ++eighth)
      for (float sign : {1.0f, -1.0f}) x.push_back(sign * std::ldexp(1.0f + static_cast<float>(eighth) / 8, exponent));
  for (int i = -110000; i <= 110000; ++i) x.push_back(static_cast<float>(i) * 1e-3f);
  for (float special : {0.0f, -0.0f, kInf, -kInf, kNaN, FLT_MAX, -FLT_MAX, FLT_MIN, -FLT_MIN, 88.72283f, 88.72284f,
                        -87.33654f, -103.9f, -104.0f})
    x.push_back(special);
  return x;
}

struct Accuracy {
  Unary op;
  const char* name;
  double relative;  // of the true value
  double absolute;  // allowed besides
  double (*exact)(double);
};

double gelu(double x) { return std::isinf(x) ? (x > 0 ? x : kNaN) : 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

constexpr Accuracy kAccuracies[] = {
    {Unary::kExp, "exp", 1.6e-7, 1.8e-38, [](double x) { return std::exp(x); }},
    {Unary::kLog, "log", 2e-7, 1e-7, [](double x) { return std::log(x); }},
    {Unary::kErf, "erf", 4e-7, 0, [](double x) { return std::erf(x); }},
    {Unary::kTanh, "tanh", 4e-7, 0, [](double x) { return std::tanh(x); }},
    {Unary::kSigmoid, "sigmoid", 3e-7, 4e-39, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {Unary::kGelu, "gelu", 5e-7, 1.5e-6, &gelu},
    {Unary::kSqrt, "sqrt", 6e-8, 0, [](double x) { return std::sqrt(x); }},
    {Unary::kSoftplus, "softplus", 3e-7, 1.8e-38,
     [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }},
    {Unary::kTan, "tan", 4e-7, 1e-38, [](double x) { return std::tan(x); }},
    {Unary::kAsin, "asin", 3e-7, 0, [](double x) { return std::asin(x); }},
    {Unary::kAcos, "acos", 4e-7, 0, [](double x) { return std::acos(x); }},
    {Unary::kSinh, "sinh", 5e-7, 0, [](double x) { return std::sinh(x); }},
    {Unary::kCosh, "cosh", 5e-7, 0, [](double x) { return std::cosh(x); }},
    {Unary::kAsinh, "asinh", 6e-7, 0, [](double x) { return std::asinh(x); }},
    {Unary::kAcosh, "acosh", 6e-7, 0, [](double x) { return std::acosh(x); }},
    {Unary::kAtanh, "atanh", 6e-7, 0, [](double x) { return std::atanh(x); }},
    {Unary::kReciprocal, "reciprocal", 1e-7, 1e-44, [](double x) { return 1 / x; }},
    {Unary::kFloor, "floor", 0, 0, [](double x) { return std::floor(x); }},
    {Unary::kCeil, "ceil", 0, 0, [](double x) { return std::ceil(x); }},
    {Unary::kRound, "round", 0, 0, [](double x) { return std::nearbyint(x); }},
    {Unary::kSign, "sign", 0, 0, [](double x) { return std::isnan(x) ? x
                                                       : x > 0       ? 1.0
                                                       : x < 0       ? -1.0
                                                                     : 0.0; }},
    {Unary::kAbs, "abs", 0, 0, [](double x) { return std::abs(x); }},
    {Unary::kRelu, "relu", 0, 0, [](double x) { return std::isnan(x) ? x : std::max(x, 0.0); }},
};

class Eltwise : public testing::TestWithParam<Isa> {};

TEST_P(Eltwise, FunctionsAreAccurateOverAllOfTheRange) {
  const EltwiseTable& table = eltwise_table_of(GetParam());
  const std::vector<float> x = wide_range();
  for (const Accuracy& f : kAccuracies) {
    std::vector<float> y(x.size());
    table.unary[static_cast<int>(f.op)](x.data(), y.data(), static_cast<int64_t>(x.size()), 0, 0);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = f.exact(x[i]);
      const auto rounded = static_cast<float>(want);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(y[i])) << f.name << "(" << x[i] << ") = " << y[i];
      } else if (std::isinf(rounded)) {
        ASSERT_TRUE(y[i] == rounded || std::abs(y[i]) > FLT_MAX * (1 - 2e-7))
            << f.name << "(" << x[i] << ") = " << y[i];
      } else {
        const double error = std::abs(y[i] - want) - f.absolute - 1e-44;
        ASSERT_LE(error, f.relative * std::abs(want)) << f.name << "(" << x[i] << ") = " << y[i] << ", not " << want;
        if (want != 0) worst = std::max(worst, std::abs(y[i] - want) / std::abs(want));
      }
    }
    if (f.absolute == 0) RecordProperty(std::string(f.name) + "_error", std::to_string(worst));
  }
}

TEST_P(Eltwise, ExpOfMinusInfinityIsZeroAndErfSaturates) {
  const EltwiseTable& table = eltwise_table_of(GetParam());
  const float x[] = {-kInf, -1000.0f, -88.0f};
  float y[3];
  table.unary[static_cast<int>(Unary::kExp)](x, y, 3, 0, 0);
  for (float value : y) EXPECT_EQ(value, 0.0f);
  const float far[] = {-4.0f, -100.0f, -FLT_MAX};
  table.unary[static_cast<int>(Unary::kErf)](far, y, 3, 0, 0);
  for (float value : y) EXPECT_EQ(value, -1.0f);
  table.unary[static_cast<int>(Unary::kGelu)](far, y, 2, 0, 0);
  EXPECT_NEAR(y[0], -1.267e-4, 1e-6);
  EXPECT_EQ(y[1], 0.0f);
}

// Arcsines, arc cosines and roots of what is left to 1 would be NaN.
TEST_P(Eltwise, BoundedFunctionsStayWithinTheirBounds) {
  const EltwiseTable& table = eltwise_table_of(GetParam());
  std::vector<float> x(1 << 17), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 20 / static_cast<float>(x.size()) - 10;
  for (const Unary function : {Unary::kErf, Unary::kTanh, Unary::kSin, Unary::kCos, Unary::kSigmoid}) {
    table.unary[static_cast<int>(function)](x.data(), y.data(), static_cast<int64_t>(x.size()), 0, 0);
    EXPECT_EQ(std::count_if(y.begin(), y.end(), [](float value) { return std::abs(value) > 1; }), 0)
        << static_cast<int>(function);
  }
}

TEST_P(Eltwise, OddFunctionsKeepTheSignOfZero) {
  const EltwiseTable& table = eltwise_table_of(GetParam());
  const std::vector<float> x(9, -0.0f);
  for (const Unary f : {Unary::kSin, Unary::kTan, Unary::kAsin, Unary::kAtan, Unary::kSinh, Unary::kAsinh,
                        Unary::kAtanh, Unary::kTanh, Unary::kErf, Unary::kRound, Unary::kSqrt}) {
    std::vector<float> y(x.size(), 1);
    table.unary[static_cast<int>(f)](x.data(), y.data(), static_cast<int64_t>(x.size()), 0, 0);
    for (const float value : y) EXPECT_TRUE(value == 0 && std::signbit(value)) << row_of(f).formula << ": " << value;
  }
}

// Each loop against the formula of ops/activation_list.h in double.
TEST_P(Eltwise, EveryFunctionIsItsFormula) {
  const EltwiseTable& table = eltwise_table_of(GetParam());
  std::vector<float> x = {0.0f, -0.0f, kInf, -kInf, kNaN, 100.0f, -100.0f};
  for (int i = -800; i <= 800; ++i) x.push_back(static_cast<float>(i) * 0.025f);
  std::vector<float> y(x.size());
  for (int f = 0; f < kVectorFunctionCount; ++f) {
    constexpr float kAlpha = 0.25f, kBeta = 0.5f;
    table.unary[f](x.data(), y.data(), static_cast<int64_t>(x.size()), kAlpha, kBeta);
    for (size_t i = 0; i < x.size(); ++i) {
      const auto want = static_cast<float>(evaluate<double>(static_cast<Unary>(f), x[i], kAlpha, kBeta));
      const char* const formula = row_of(static_cast<Unary>(f)).formula.data();
      if (std::isnan(want) || std::isinf(want)) {
        // Gelu of -infinity is -infinity times 0.
        ASSERT_TRUE(std::isnan(want) ? std::isnan(y[i]) || x[i] == -kInf : y[i] == want)
            << formula << " of " << x[i] << " = " << y[i] << ", not " << want;
      } else {
        ASSERT_NEAR(y[i], want, 2e-6 * std::max(1.0f, std::abs(want))) << formula << " of " << x[i];
      }
    }
  }
}

TEST_P(Eltwise, BinaryOperatorsWithScalarsAndTails) {
  const EltwiseTable& table = eltwise_table_of(GetParam());
  const std::function<float(float, float)> exact[] = {[](float a, float b) { return a + b; },
                                                      [](float a, float b) { return a - b; },
                                                      [](float a, float b) { return a * b; },
                                                      [](float a, float b) { return a / b; },
                                                      [](float a, float b) { return std::max(a, b); },
                                                      [](float a, float b) { return std::min(a, b); },
                                                      [](float a, float b) { return a < 0 ? a * b : a; }};
  for (int op = 0; op < kBinaryCount; ++op)
    for (int64_t n : {1, 7, 8, 9, 31})
      for (int strides = 1; strides < 4; ++strides) {
        const int64_t sa = strides & 1, sb = strides >> 1;
        std::vector<float> a, b, y(n + 1, 77.0f);
        for (int64_t i = 0; i < n; ++i)
          a.push_back(static_cast<float>(i % 5) - 2), b.push_back(1.5f - static_cast<float>(i % 4));
        table.binary[op](a.data(), sa, b.data(), sb, y.data(), n);
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], exact[op](a[i * sa], b[i * sb])) << op << " " << n;
        ASSERT_EQ(y.back(), 77.0f);
      }
}

TEST_P(Eltwise, MaxAndMinKeepANaNFromEitherSide) {
  const EltwiseTable& table = eltwise_table_of(GetParam());
  const float a[] = {kNaN, 1.0f, kInf, -kInf}, b[] = {1.0f, kNaN, 1.0f, 1.0f};
  float y[4];
  table.binary[static_cast<int>(Binary::kMax)](a, 1, b, 1, y, 4);
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_EQ(y[2], kInf);
  EXPECT_EQ(y[3], 1.0f);
  table.binary[static_cast<int>(Binary::kMin)](a, 1, b, 1, y, 4);
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_EQ(y[2], 1.0f);
  EXPECT_EQ(y[3], -kInf);
}

TEST_P(Eltwise, TransposesEdges) {
  const EltwiseTable& table = eltwise_table_of(GetParam());
  for (int64_t rows : {1, 3, 4, 5, 16, 19, 33})
    for (int64_t columns : {1, 2, 4, 7, 21}) {
      const int64_t src_stride = columns + 2, dst_stride = rows + 1;
      std::vector<uint32_t> src(rows * src_stride), dst(columns * dst_stride, 9999);
      for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<uint32_t>(i);
      table.transpose32(src.data(), src_stride, dst.data(), dst_stride, rows, columns);
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t i = 0; i < rows; ++i) ASSERT_EQ(dst[j * dst_stride + i], src[i * src_stride + j]);
        ASSERT_EQ(dst[j * dst_stride + rows], 9999u);
      }
    }
}

TEST_P(Eltwise, CastsTruncateAndMarkWhatDoesNotFit) {
  const EltwiseTable& table = eltwise_table_of(GetParam());
  const float x[] = {1.9f, -1.9f, 3e9f, 1e30f, kNaN, -2147483648.0f};
  int32_t y32[6];
  table.int32_from_float(x, y32, 6);
  EXPECT_EQ(std::vector<int32_t>(y32, y32 + 6),
            (std::vector<int32_t>{1, -1, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN}));
  int64_t y64[6];
  table.int64_from_float(x, y64, 6);
  EXPECT_EQ(std::vector<int64_t>(y64, y64 + 6),
            (std::vector<int64_t>{1, -1, 3000000000, INT64_MIN, INT64_MIN, -2147483648}));
}

INSTANTIATE_TEST_SUITE_P(Isas, Eltwise, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
