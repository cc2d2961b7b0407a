#include "ep/cpu/simd/integers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "ep/cpu/ops/reference_types.h"
#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(IntegerTable, integer_table)

namespace tenon::cpu {
namespace {

class Integers : public testing::TestWithParam<Isa> {};

template <typename T, typename Rows>
void expect_rows(const Rows& rows) {
  using Limits = std::numeric_limits<T>;
  constexpr int64_t kCount = 3;
  for (int64_t n : {1, 2, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 70}) {
    std::vector<T> x(kCount * n), sum(kCount), most(kCount), least(kCount);
    for (int64_t i = 0; i < std::ssize(x); ++i) x[i] = static_cast<T>(i * 37 % 101 - 50);
    // Sums of these wrap around, and nothing lies beyond them.
    x[n] = Limits::max();
    x[kCount * n - 1] = Limits::min();
    rows[static_cast<int>(RowFold::kSum)](x.data(), sum.data(), kCount, n);
    rows[static_cast<int>(RowFold::kMax)](x.data(), most.data(), kCount, n);
    rows[static_cast<int>(RowFold::kMin)](x.data(), least.data(), kCount, n);
    for (int64_t row = 0; row < kCount; ++row) {
      const auto begin = x.begin() + row * n, end = begin + n;
      uint64_t wrapped = 0;
      for (auto at = begin; at != end; ++at) wrapped += static_cast<uint64_t>(*at);
      EXPECT_EQ(sum[row], static_cast<T>(wrapped)) << n;
      EXPECT_EQ(most[row], *std::max_element(begin, end)) << n;
      EXPECT_EQ(least[row], *std::min_element(begin, end)) << n;
    }
  }
}

TEST_P(Integers, FoldRows) {
  const IntegerTable& table = integer_table_of(GetParam());
  expect_rows<int32_t>(table.rows32);
  expect_rows<int64_t>(table.rows64);
}

template <typename T, typename Shift>
void expect_shifts(const Shift& shift) {
  constexpr int kBits = 8 * sizeof(T);
  std::vector<T> a, b;
  for (int by : {0, 1, 3, kBits - 1, kBits, kBits + 1, 200})
    for (int i = 0; i < 21; ++i) {
      a.push_back(static_cast<T>(uint64_t{0x9e3779b97f4a7c15} * static_cast<uint64_t>(i + 1)));
      b.push_back(static_cast<T>(by));
    }
  std::vector<T> left(a.size()), right = a;
  shift(a.data(), b.data(), true, left.data(), std::ssize(a));
  shift(right.data(), b.data(), false, right.data(), std::ssize(a));
  for (size_t i = 0; i < a.size(); ++i) {
    const bool inside = b[i] < kBits;
    EXPECT_EQ(left[i], static_cast<T>(inside ? uint64_t{a[i]} << b[i] : 0)) << kBits << " bits by " << +b[i];
    EXPECT_EQ(right[i], static_cast<T>(inside ? uint64_t{a[i]} >> b[i] : 0)) << kBits << " bits by " << +b[i];
  }
}

TEST_P(Integers, ShiftsBeyondTheWidthLeaveNothing) {
  const IntegerTable& table = integer_table_of(GetParam());
  expect_shifts<uint8_t>(table.shift8);
  expect_shifts<uint16_t>(table.shift16);
  expect_shifts<uint32_t>(table.shift32);
  expect_shifts<uint64_t>(table.shift64);
}

TEST_P(Integers, ArithmeticWrapsAround) {
  const IntegerTable& table = integer_table_of(GetParam());
  std::vector<int32_t> a, b;
  for (uint32_t i = 0; i < 37; ++i) {
    a.push_back(static_cast<int32_t>(i * 0x9e3779b9u));
    b.push_back(static_cast<int32_t>(~i * 0x7f4a7c15u));
  }
  for (int op = 0; op < kWideNumberOpCount; ++op)
    for (int64_t stride : {0, 1}) {
      std::vector<int32_t> y = a;
      table.wide32[op](y.data(), b.data(), stride, y.data(), std::ssize(y));
      for (size_t i = 0; i < y.size(); ++i) {
        const int32_t r = b[i * stride];
        const uint32_t u = static_cast<uint32_t>(a[i]), v = static_cast<uint32_t>(r);
        const int32_t want[] = {static_cast<int32_t>(u + v), static_cast<int32_t>(u - v), static_cast<int32_t>(u * v),
                                std::max(a[i], r), std::min(a[i], r)};
        EXPECT_EQ(y[i], want[op]) << op << " of " << a[i] << " and " << r;
      }
    }
}

TEST_P(Integers, ComparesFloatsAndJoinsBytes) {
  const IntegerTable& table = integer_table_of(GetParam());
  std::vector<float> a, b;
  std::vector<uint8_t> p, q;
  for (int i = 0; i < 70; ++i) {
    a.push_back(i % 9 == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(i % 5));
    b.push_back(static_cast<float>(i % 3));
    p.push_back(static_cast<uint8_t>(i % 3 * 2));
    q.push_back(static_cast<uint8_t>(i % 2));
  }
  for (int64_t stride : {0, 1}) {
    std::vector<uint8_t> y(a.size());
    for (int op = 0; op < kWideOpCount - kWideNumberOpCount; ++op) {
      table.compare_float[op](a.data(), b.data(), stride, y.data(), std::ssize(y));
      for (size_t i = 0; i < y.size(); ++i) {
        const float l = a[i], r = b[i * stride];
        const bool want[] = {l == r, l<r, l <= r, l> r, l >= r};
        EXPECT_EQ(y[i], want[op] ? 1 : 0) << op << " of " << l << " and " << r;
      }
    }
    for (int op = 0; op < 3; ++op) {
      y = p;
      table.logic[op](y.data(), q.data(), stride, y.data(), std::ssize(y));
      for (size_t i = 0; i < y.size(); ++i) {
        const bool l = p[i] != 0, r = q[i * stride] != 0;
        const bool want[] = {l && r, l || r, l != r};
        EXPECT_EQ(y[i], want[op] ? 1 : 0) << op << " of " << l << " and " << r;
      }
    }
  }
}

TEST_P(Integers, QuotientsAreCutOff) {
  const IntegerTable& table = integer_table_of(GetParam());
  constexpr int32_t kLowest = std::numeric_limits<int32_t>::min(), kHighest = std::numeric_limits<int32_t>::max();
  std::vector<int32_t> a = {7, -7, 7, -7, kLowest, kLowest, kHighest, kHighest, 0, kHighest - 1}, y(a.size());
  const std::vector<int32_t> b = {2, 2, -2, -2, -1, 1, kHighest, kHighest - 1, 5, kHighest};
  EXPECT_TRUE(table.divide32(a.data(), b.data(), 1, y.data(), std::ssize(a)));
  EXPECT_EQ(y, (std::vector<int32_t>{3, -3, -3, 3, kLowest, kLowest, 1, 1, 0, 0}));
  const int32_t three = 3, zero = 0;
  EXPECT_TRUE(table.divide32(a.data(), &three, 0, y.data(), std::ssize(a)));
  EXPECT_EQ(y[4], -715827882);
  EXPECT_FALSE(table.divide32(a.data(), &zero, 0, y.data(), std::ssize(a)));
  std::vector<int32_t> one_zero = b;
  one_zero[6] = 0;
  EXPECT_FALSE(table.divide32(a.data(), one_zero.data(), 1, y.data(), std::ssize(a)));
}

// The numbers of a type around each edge of [low, low + span], and of what lies outside of the mask.
template <typename T, typename Loop>
void expect_range(Loop loop, T mask, T low, T span) {
  std::vector<T> x;
  for (T at : {T{0}, low, static_cast<T>(low + span), mask})
    for (int beside : {-1, 0, 1}) x.push_back(static_cast<T>(at + static_cast<T>(beside)));
  const size_t edges = x.size();
  for (size_t i = 0; i < edges; ++i) x.push_back(x[i] ^ static_cast<T>(~mask));
  for (size_t n : {size_t{1}, size_t{7}, x.size()}) {
    while (x.size() < 140) x.push_back(x[x.size() - edges]);
    std::vector<uint8_t> y(x.size() + 1, 7);
    loop(x.data(), mask, low, span, y.data(), static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) {
      const T bits = x[i] & mask;
      EXPECT_EQ(y[i], bits >= low && bits - low <= span ? 1 : 0) << +x[i] << " of [" << +low << ", +" << +span << "]";
    }
    EXPECT_EQ(y[n], 7);
  }
}

TEST_P(Integers, RangesOfBits) {
  const IntegerTable& table = integer_table_of(GetParam());
  for (uint16_t span : {0, 0x3ff}) expect_range<uint16_t>(table.in_range16, 0x7fff, 0x7c00, span);
  expect_range<uint16_t>(table.in_range16, 0xffff, 0xfc00, 0);
  expect_range<uint16_t>(table.in_range16, 0xffff, 1, 0xfffe);
  for (uint32_t span : {0, 0x7fffff}) expect_range<uint32_t>(table.in_range32, 0x7fffffff, 0x7f800000, span);
  expect_range<uint32_t>(table.in_range32, 0xffffffff, 0xff800000, 0);
  for (uint64_t span : {uint64_t{0}, (uint64_t{1} << 52) - 1})
    expect_range<uint64_t>(table.in_range64, ~uint64_t{0} >> 1, uint64_t{0x7ff} << 52, span);
  expect_range<uint64_t>(table.in_range64, ~uint64_t{0}, uint64_t{0xfff} << 52, 0);
  // Nothing of no bits.
  expect_range<uint64_t>(table.in_range64, 0, 1, 0);
}

template <typename T, typename Loop, typename Function>
void expect_each(Loop loop, Function function) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x = {0, 1, Limits::max(), Limits::min(), static_cast<T>(Limits::min() + 1)};
  for (int i = 0; i < 140; ++i) x.push_back(static_cast<T>(static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u >> 5));
  for (size_t n : {size_t{1}, size_t{5}, x.size() - 1}) {
    auto y = x;
    loop(y.data(), y.data(), static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(y[i], static_cast<T>(function(x[i]))) << +x[i];
    EXPECT_EQ(y[n], x[n]);
  }
}

TEST_P(Integers, FunctionsOfOneNumber) {
  const IntegerTable& table = integer_table_of(GetParam());
  const auto negative = [](auto x) { return uint64_t{0} - static_cast<uint64_t>(x); };
  const auto magnitude = [&](auto x) { return x < 0 ? negative(x) : static_cast<uint64_t>(x); };
  const auto sign = [](auto x) { return (x > 0 ? 1 : 0) - (x < 0 ? 1 : 0); };
  expect_each<int8_t>(table.abs8, magnitude);
  expect_each<int16_t>(table.abs16, magnitude);
  expect_each<int32_t>(table.abs32, magnitude);
  expect_each<int64_t>(table.abs64, magnitude);
  expect_each<int8_t>(table.neg8, negative);
  expect_each<int16_t>(table.neg16, negative);
  expect_each<int32_t>(table.neg32, negative);
  expect_each<int64_t>(table.neg64, negative);
  expect_each<int8_t>(table.sign8, sign);
  expect_each<int16_t>(table.sign16, sign);
  expect_each<int32_t>(table.sign32, sign);
  expect_each<int64_t>(table.sign64, sign);
  expect_each<uint8_t>(table.not8, [](uint8_t x) { return x == 0; });
  expect_each<uint8_t>(table.truth8, [](uint8_t x) { return x != 0; });
  expect_each<uint8_t>(table.complement8, [](uint8_t x) { return ~x; });
}

TEST_P(Integers, LowBitsAreKept) {
  const IntegerTable& table = integer_table_of(GetParam());
  std::vector<uint64_t> x(77);
  for (size_t i = 0; i < x.size(); ++i) x[i] = (i + 1) * 0x9e3779b97f4a7c15u;
  const std::vector<uint32_t> x32(x.begin(), x.end());
  const std::vector<uint16_t> x16(x.begin(), x.end());
  const std::vector<uint8_t> x8(x.begin(), x.end());
  const int64_t n = std::ssize(x);
  std::vector<uint8_t> y8(n);
  std::vector<uint16_t> y16(n);
  std::vector<uint32_t> y32(n);
  table.int8_from_int16(x16.data(), y8.data(), n);
  EXPECT_EQ(y8, x8);
  y8.assign(n, 0), table.int8_from_int32(x32.data(), y8.data(), n);
  EXPECT_EQ(y8, x8);
  y8.assign(n, 0), table.int8_from_int64(x.data(), y8.data(), n);
  EXPECT_EQ(y8, x8);
  table.int16_from_int32(x32.data(), y16.data(), n);
  EXPECT_EQ(y16, x16);
  y16.assign(n, 0), table.int16_from_int64(x.data(), y16.data(), n);
  EXPECT_EQ(y16, x16);
  table.int32_from_int64(x.data(), y32.data(), n);
  EXPECT_EQ(y32, x32);
}

TEST_P(Integers, AFloatRoundsToSixteenBitsAsTheIntegerItself) {
  std::vector<int32_t> x = {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  for (int64_t exponent = 0; exponent < 31; ++exponent)
    for (int64_t half = 0; half < 512; half += 3)
      for (int64_t beside : {-1, 0, 1})
        for (int64_t sign : {-1, 1})
          x.push_back(static_cast<int32_t>(sign * ((((half + 512) << exponent) >> 10) + beside)));
  std::vector<float> y(x.size());
  integer_table_of(GetParam()).float_from_int32(x.data(), y.data(), std::ssize(x));
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(ref::BFloat16(y[i]).bits, ref::BFloat16(x[i]).bits) << x[i];
    EXPECT_EQ(ref::Float16(y[i]).bits, ref::Float16(x[i]).bits) << x[i];
  }
}

TEST_P(Integers, FloatsAreCutOffToLowBits) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x = {1.9f,         -1.9f,    300.5f,    -300.5f, 70000,    3e9f,
                          -3e9f,        infinity, -infinity, 0x1p31f, -0x1p31f, std::numeric_limits<float>::quiet_NaN(),
                          2147483520.0f};
  std::vector<int64_t> whole = {1, -1, 300, -300, 70000, 0, 0, 0, 0, 0, 0, 0, 2147483520};
  x.insert(x.end(), x.begin(), x.end());
  x.insert(x.end(), x.begin(), x.end());
  std::vector<uint8_t> y8(x.size());
  std::vector<uint16_t> y16(x.size());
  integer_table_of(GetParam()).int8_from_float(x.data(), y8.data(), std::ssize(x));
  integer_table_of(GetParam()).int16_from_float(x.data(), y16.data(), std::ssize(x));
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(y8[i], static_cast<uint8_t>(whole[i % whole.size()])) << x[i];
    EXPECT_EQ(y16[i], static_cast<uint16_t>(whole[i % whole.size()])) << x[i];
  }
}

TEST_P(Integers, FloatsAreTrueUnlessTheyAreZero) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {0.0f, -0.0f, nan, -nan, 1e-45f, -3.0f, std::numeric_limits<float>::infinity()};
  while (x.size() < 77) x.push_back(x[x.size() - 7]);
  std::vector<uint8_t> y(x.size());
  integer_table_of(GetParam()).bool_from_float(x.data(), y.data(), std::ssize(x));
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], i % 7 < 2 ? 0 : 1) << x[i];
}

INSTANTIATE_TEST_SUITE_P(Isas, Integers, testing::ValuesIn(testable_isas()));

}  // namespace
}  // namespace tenon::cpu
