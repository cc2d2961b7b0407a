#include "ep/cpu/simd/doubles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ep/cpu/ops/reference_types.h"
#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(DoubleTable, double_table)

namespace tenon::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Doubles : public testing::TestWithParam<Isa> {
 protected:
  const DoubleTable& table() const { return double_table_of(GetParam()); }
};

std::vector<double> numbers(int64_t n) {
  std::vector<double> x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<double>(i * 37 % 101) / 64 - 0.7;
  return x;
}

double reduced(WideReduction reduction, const std::vector<double>& values) {
  double sum = reduction == WideReduction::kProd ? 1 : 0;
  if (reduction == WideReduction::kMax) sum = -kInfinity;
  if (reduction == WideReduction::kMin) sum = kInfinity;
  for (double x : values) {
    if (reduction == WideReduction::kSum) sum += x;
    if (reduction == WideReduction::kL1) sum += std::abs(x);
    if (reduction == WideReduction::kSumSquare) sum += x * x;
    if (reduction == WideReduction::kProd) sum *= x;
    if (reduction == WideReduction::kMax) sum = std::max(sum, x);
    if (reduction == WideReduction::kMin) sum = std::min(sum, x);
  }
  return sum;
}

TEST_P(Doubles, ReduceRowsAndColumns) {
  for (int r = 0; r < kWideReductionCount; ++r)
    for (int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 20, 33, 70})
      for (int64_t inner : {1, 9, 80}) {
        const std::vector<double> x = numbers(n * inner);
        std::vector<double> y(inner);
        if (inner == 1) {
          table().reduce_rows[r](x.data(), y.data(), 1, n);
        } else {
          table().reduce_columns[r](x.data(), y.data(), n, inner, 0, inner);
        }
        for (int64_t i = 0; i < inner; ++i) {
          std::vector<double> values;
          values.reserve(n);
          for (int64_t k = 0; k < n; ++k) values.push_back(x[k * inner + i]);
          const double wanted = reduced(static_cast<WideReduction>(r), values);
          ASSERT_NEAR(y[i], wanted, 1e-13 * std::max(1.0, std::abs(wanted))) << r << " " << n << " " << inner;
        }
      }
}

TEST_P(Doubles, OneNaNMakesAnExtremeNaN) {
  for (WideReduction reduction : {WideReduction::kMax, WideReduction::kMin})
    for (size_t at : {size_t{0}, size_t{5}, size_t{40}, size_t{66}}) {
      std::vector<double> x = numbers(67);
      x[at] = NAN;
      double y = 0;
      table().reduce_rows[static_cast<int>(reduction)](x.data(), &y, 1, 67);
      EXPECT_TRUE(std::isnan(y)) << at;
    }
  for (int r : {static_cast<int>(WideReduction::kMax), static_cast<int>(WideReduction::kMin)})
    for (int64_t n : {1, 2, 3, 5, 9, 20})
      for (int64_t at = 0; at < n; ++at) {
        // Nothing of the next row is read into this one.
        std::vector<double> x = numbers(3 * n), y(3);
        x[n + at] = NAN;
        table().reduce_rows[r](x.data(), y.data(), 3, n);
        EXPECT_FALSE(std::isnan(y[0]));
        EXPECT_TRUE(std::isnan(y[1])) << at << " of " << n;
        EXPECT_FALSE(std::isnan(y[2]));
      }
}

TEST_P(Doubles, ProductsOfFloatsDoNotUnderflowBetweenLanes) {
  // Each lane alone would leave the range of float32.
  std::vector<float> x(128);
  for (int i = 0; i < 128; ++i) x[i] = i % 2 == 0 ? 1e4f : 1e-4f;
  float y = 0;
  table().product_rows(x.data(), &y, 1, 128);
  EXPECT_NEAR(y, 1.0f, 1e-4f);
}

TEST_P(Doubles, ExponentialsOfEverySize) {
  std::vector<double> x = {0, -1e-300, -0.3, -1, -12.5, -300, -707.9, -709, -kInfinity, NAN, -0.69, -55};
  for (size_t n = 1; n <= x.size(); ++n) {
    std::vector<double> y(n);
    const double sum = table().exponentials(x.data(), y.data(), static_cast<int64_t>(n), 0);
    double wanted = 0;
    for (size_t i = 0; i < n; ++i) {
      const double e = x[i] < -708 ? 0 : std::exp(x[i]);
      wanted += e;
      if (std::isnan(e)) {
        ASSERT_TRUE(std::isnan(y[i]));
      } else {
        ASSERT_NEAR(y[i], e, 3e-16 * e) << x[i];
      }
    }
    if (!std::isnan(wanted)) {
      ASSERT_NEAR(sum, wanted, 1e-15 * wanted);
    }
    ASSERT_EQ(std::isnan(sum), std::isnan(wanted));
  }
}

TEST_P(Doubles, AnOddFloatRoundsToFloat16AsTheNumberItself) {
  std::vector<double> x = {0.0,   -0.0,      1e300, -1e300, 65519.999999999,
                           65520, kInfinity, NAN,   1e-30,  5.9604644775390625e-08};
  for (int i = 0; i < 0x7c00; i += 7) {
    // Half way between two numbers, and a little beside it.
    const double low = ref::Float16::decode(static_cast<uint16_t>(i));
    const double high = ref::Float16::decode(static_cast<uint16_t>(i + 1));
    for (double beside : {-0x1p-50, 0.0, 0x1p-50}) x.push_back((low + high) / 2 * (1 + beside));
  }
  std::vector<float> y(x.size());
  table().round_to_odd(x.data(), y.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const ref::Float16 got(y[i]), wanted(x[i]);
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(y[i]));
    } else {
      ASSERT_EQ(got.bits, wanted.bits) << x[i];
    }
  }
}

TEST_P(Doubles, AnOddFloatRoundsToBfloat16AsTheNumberItself) {
  std::vector<double> x = {0.0, -0.0, 1e300, -1e300, kInfinity, -kInfinity, 3.3961775292304957e38, 1e-46, 1e-320};
  // Half way between two numbers and a little beside it, also where float32 and bfloat16 have fewer places.
  for (int i = 0; i < 0x7f7f; i += 5) {
    const double low = std::bit_cast<float>(i << 16), high = std::bit_cast<float>((i + 1) << 16);
    for (double beside : {-0x1p-50, 0.0, 0x1p-50}) x.push_back((low + high) / (i % 2 == 0 ? 2 : -2) * (1 + beside));
  }
  std::vector<float> y(x.size());
  table().round_to_odd(x.data(), y.data(), std::ssize(x));
  // The nearest one, of two the one whose last bit is 0: from the neighbours, without float32 between.
  for (size_t i = 0; i < x.size(); ++i) {
    const uint16_t got = ref::BFloat16(y[i]).bits;
    const auto value = [](uint32_t bits) {
      return (bits & 0x7fff) == 0x7f80 ? 0x1p128 : static_cast<double>(std::bit_cast<float>((bits & 0x7fff) << 16));
    };
    const double magnitude = std::min(std::abs(x[i]), 0x1p128), error = std::abs(value(got) - magnitude);
    EXPECT_EQ(got >> 15, std::signbit(x[i]) ? 1 : 0) << x[i];
    if ((got & 0x7fff) < 0x7f80) {
      const double above = std::abs(value(got + 1) - magnitude);
      EXPECT_TRUE(error < above || (error == above && got % 2 == 0)) << x[i];
    }
    if ((got & 0x7fff) > 0) {
      const double below = std::abs(value(got - 1) - magnitude);
      EXPECT_TRUE(error < below || (error == below && got % 2 == 0)) << x[i];
    }
  }
}

TEST_P(Doubles, IntegersAreCutOff) {
  const std::vector<double> x = {1.9, -1.9, 0x1p62, 0x1p63, -0x1p63, -0x1.8p63, NAN, kInfinity, -kInfinity, 1e17};
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  const std::vector<int64_t> wanted = {1,       -1,      int64_t{1} << 62, kLowest, kLowest,
                                       kLowest, kLowest, kLowest,          kLowest, 100000000000000000};
  std::vector<int64_t> y(x.size());
  table().int64_from_double(x.data(), y.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(y, wanted);
}

TEST_P(Doubles, ShortIntegersAreCutOff) {
  const std::vector<double> x = {1.9,  -1.9,      2147483647.9, 2147483648.0, -2147483648.9, -2147483649.0,
                                 NAN,  kInfinity, -kInfinity,   -2147483648,  1e300,         -0.5,
                                 12.0, -13.0,     -1e300,       0x1p32 + 5,   2147483646.5};
  constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();
  const std::vector<int32_t> wanted = {1,       -1,      2147483647, kLowest, kLowest,   kLowest,
                                       kLowest, kLowest, kLowest,    kLowest, kLowest,   0,
                                       12,      -13,     kLowest,    kLowest, 2147483646};
  std::vector<int32_t> y(x.size());
  table().int32_from_double(x.data(), y.data(), std::ssize(x));
  EXPECT_EQ(y, wanted);
}

TEST_P(Doubles, LongIntegersAreRoundedToTheNearestNumber) {
  std::vector<int64_t> x = {0, 1, -1, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (int bits = 40; bits < 63; ++bits)
    for (int64_t beside : {-3, -1, 0, 1, 3}) x.push_back(((int64_t{1} << bits) + beside) * (bits % 2 == 0 ? 1 : -1));
  std::vector<double> y(x.size());
  table().double_from_int64(x.data(), y.data(), std::ssize(x));
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], static_cast<double>(x[i])) << x[i];
}

TEST_P(Doubles, LinesOfOneToThreeAxes) {
  const std::vector<double> x = numbers(21);
  const double slope[] = {0.5, -2, 3}, base[] = {1, 0.25, -1};
  for (int64_t axes : {1, 2, 3}) {
    std::vector<float> y(21 * axes);
    table().affine_line(x.data(), 21, slope, base, axes, y.data());
    for (int64_t i = 0; i < 21 * axes; ++i)
      ASSERT_FLOAT_EQ(y[i], static_cast<float>(slope[i % axes] * x[i / axes] + base[i % axes]));
  }
}

TEST_P(Doubles, RootsAndScales) {
  const std::vector<double> x = {4, 0, 2.25, 9, 16, -1, 25, 36, 49, 64, 81};
  std::vector<double> y(x.size());
  table().roots(x.data(), y.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(y[2], 1.5);
  EXPECT_TRUE(std::isnan(y[5]));
  table().scale(x.data(), y.data(), static_cast<int64_t>(x.size()), 0.5);
  EXPECT_EQ(y[10], 40.5);
}

TEST_P(Doubles, PowersOfE) {
  std::vector<double> x = {0,      -0.0,   1,    -1,    709.78,    709.79,     5000, -708,
                           -720.5, -745.1, -746, -5000, kInfinity, -kInfinity, NAN};
  for (int i = 0; i < 400; ++i) x.push_back((i - 200) * 0.37 + i * 1e-7);
  std::vector<double> y(x.size() + 1, 77);
  table().powers(x.data(), y.data(), std::ssize(x));
  EXPECT_EQ(y.back(), 77);
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(x[i]);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(y[i]));
    } else if (std::isinf(want)) {
      EXPECT_EQ(y[i], want) << x[i];
    } else {
      // Of subnormal numbers the last place is the smallest of them.
      EXPECT_NEAR(y[i], want, std::max(4.5e-16 * want, 5e-324)) << x[i];
    }
  }
}

TEST_P(Doubles, TangentsKeepTheirPlacesNearZero) {
  std::vector<double> x = {0,         -0.0, 1e-300, -1e-20, 1e-8,      0.35,       -0.35,
                           0.3499999, 19,   22,     -400,   kInfinity, -kInfinity, NAN};
  for (int i = -300; i < 300; ++i) x.push_back(i * 0.0123 + i * 1e-9);
  std::vector<double> y(x.size() + 1, 77);
  table().tanh(x.data(), y.data(), std::ssize(x));
  EXPECT_EQ(y.back(), 77);
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::tanh(x[i]);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(y[i]));
    } else {
      EXPECT_NEAR(y[i], want, 6.7e-16 * std::abs(want)) << x[i];
      EXPECT_EQ(std::signbit(y[i]), std::signbit(want)) << x[i];
    }
  }
}

// Differences in units of the last place of `want`, which is exact to more places.
double places(double got, long double want) {
  const auto rounded = static_cast<double>(want);
  if (got == rounded || (std::isnan(got) && std::isnan(rounded))) return 0;
  if (!std::isfinite(got) || !std::isfinite(rounded)) return kInfinity;
  const double magnitude = std::max(std::abs(rounded), std::numeric_limits<double>::min());
  const double place = std::nextafter(magnitude, kInfinity) - magnitude;
  return static_cast<double>(std::abs(static_cast<long double>(got) - want) / static_cast<long double>(place));
}

// Every exponent with both signs, many numbers near zero, and what is special.
std::vector<double> numbers_of_every_size() {
  std::vector<double> x = {0.0, -0.0, kInfinity, -kInfinity, NAN, 5e-324, 1, -1, 0.70710678118654752, 1e22, -3e300};
  for (int exponent = -1074; exponent <= 1023; ++exponent)
    for (double part : {1.0, -1.1, 1.41421356237309504, -1.9}) x.push_back(std::ldexp(part, exponent));
  for (int i = -3000; i <= 3000; ++i) {
    x.push_back(i * 0.0123 + i * 1e-9);
    x.push_back(i * 1.5707963267948966);  // nearly a multiple of pi / 2, where most places cancel
    x.push_back(i * 1.0e9 * 1.5707963267948966);
  }
  return x;
}

struct Accuracy {
  const char* name;
  void (*DoubleTable::*loop)(const double*, double*, int64_t);
  double places;
  long double (*exact)(long double);
};

constexpr Accuracy kAccuracies[] = {
    {"log", &DoubleTable::logs, 1, [](long double x) { return std::log(x); }},
    {"sin", &DoubleTable::sines, 1, [](long double x) { return std::sin(x); }},
    {"cos", &DoubleTable::cosines, 1, [](long double x) { return std::cos(x); }},
    {"tan", &DoubleTable::tangents, 3, [](long double x) { return std::tan(x); }},
    {"sigmoid", &DoubleTable::sigmoids, 4, [](long double x) { return x < -709 ? 0 : 1 / (1 + std::exp(-x)); }},
};

TEST_P(Doubles, FunctionsAreAccurateAtEverySize) {
  const std::vector<double> x = numbers_of_every_size();
  for (const Accuracy& f : kAccuracies) {
    std::vector<double> y(x.size() + 1, 77);
    (table().*f.loop)(x.data(), y.data(), std::ssize(x));
    EXPECT_EQ(y.back(), 77);
    for (size_t i = 0; i < x.size(); ++i) {
      const long double want = f.exact(x[i]);
      if (want != 0 && std::abs(want) < std::numeric_limits<double>::min() && f.loop == &DoubleTable::sigmoids)
        continue;
      ASSERT_LE(places(y[i], want), f.places) << f.name << " of " << x[i] << " is " << y[i];
      if (want == 0) {
        ASSERT_EQ(std::signbit(y[i]), std::signbit(want)) << f.name << " of " << x[i];
      }
    }
    // In place, and with a rest of every length.
    for (int64_t n = 0; n < 40; ++n) {
      std::vector<double> part(x.begin() + 2000, x.begin() + 2000 + n + 1);
      const double next = part.back();
      (table().*f.loop)(part.data(), part.data(), n);
      const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
      ASSERT_TRUE(std::equal(part.begin(), part.end() - 1, y.begin() + 2000, same))
          << f.name << " of " << n << " numbers";
      ASSERT_EQ(part.back(), next);
    }
  }
}

TEST_P(Doubles, RoundToWholeNumbers) {
  const std::vector<double> x = {0.5, -0.5, 1.5, 2.5, -2.5, 1e300, -1e17, kInfinity, NAN, -0.0, 4503599627370495.5,
                                 7.2, -7.8};
  std::vector<double> down(x.size()), up(x.size()), nearest(x.size());
  table().floors(x.data(), down.data(), std::ssize(x));
  table().ceilings(x.data(), up.data(), std::ssize(x));
  table().nearest(x.data(), nearest.data(), std::ssize(x));
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(down[i]) && std::isnan(up[i]) && std::isnan(nearest[i]));
      continue;
    }
    EXPECT_EQ(down[i], std::floor(x[i]));
    EXPECT_EQ(up[i], std::ceil(x[i]));
    EXPECT_EQ(nearest[i], std::nearbyint(x[i]));
  }
}

TEST_P(Doubles, BinaryLoopsKeepNaNs) {
  const std::vector<double> a = {1, NAN, 2, -3, 0.5, kInfinity, 7, 8, 9, 1, 2},
                            b = {4, 1, NAN, -2, 0.25, 1, 7, 1, 2, 3, 4};
  const auto n = std::ssize(a);
  constexpr int kFirstComparison = static_cast<int>(DoubleOp::kEqual);
  for (int op = 0; op < kDoubleOpCount; ++op)
    for (int64_t stride : {0, 1}) {
      std::vector<double> y = a;
      std::vector<uint8_t> bytes(a.size());
      if (op < kFirstComparison) {
        table().binary[op](y.data(), b.data(), stride, y.data(), n);
      } else {
        table().binary[op](y.data(), b.data(), stride, bytes.data(), n);
      }
      for (size_t i = 0; i < a.size(); ++i) {
        const double l = a[i], r = b[i * stride];
        if (op >= kFirstComparison) {
          const bool want[] = {l == r, l<r, l <= r, l> r, l >= r};
          EXPECT_EQ(bytes[i], want[op - kFirstComparison] ? 1 : 0) << op << " at " << i;
          continue;
        }
        const double want[] = {l + r, l - r, l * r, l / r, std::max(l, r), std::min(l, r)};
        if (std::isnan(l) || std::isnan(r)) {
          EXPECT_TRUE(std::isnan(y[i])) << op << " at " << i;
        } else {
          EXPECT_EQ(y[i], want[op]) << op << " at " << i;
        }
      }
    }
}

TEST_P(Doubles, ConvertToAndFromFloat) {
  std::vector<double> x = numbers(37);
  x[3] = 1e300, x[4] = 1e-46, x[5] = -kInfinity;
  std::vector<float> y(x.size());
  std::vector<double> back(x.size());
  table().float_from_double(x.data(), y.data(), std::ssize(x));
  table().double_from_float(y.data(), back.data(), std::ssize(x));
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(y[i], static_cast<float>(x[i]));
    EXPECT_EQ(back[i], static_cast<double>(y[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Doubles, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
