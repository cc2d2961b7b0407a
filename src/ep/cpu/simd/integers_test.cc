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

INSTANTIATE_TEST_SUITE_P(Isas, Integers, testing::ValuesIn(testable_isas()));

}  // namespace
}  // namespace tenon::cpu
