#include "ep/cpu/simd/integers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

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

INSTANTIATE_TEST_SUITE_P(Isas, Integers, testing::ValuesIn(testable_isas()));

}  // namespace
}  // namespace tenon::cpu
