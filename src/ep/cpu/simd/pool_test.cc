#include "ep/cpu/simd/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(PoolTable, pool_table)

namespace tenon::cpu {
namespace {

class Pool : public testing::TestWithParam<Isa> {};

template <typename T, typename Op>
void expect_taps(PoolTap<T> tap, Op op) {
  for (int64_t stride : {1, 2, 3})
    for (int64_t n : {1, 2, 15, 16, 17, 63, 64, 65, 130, 200}) {
      // Nothing behind the last tap is there to read.
      std::vector<T> x((n - 1) * stride + 1), y(n + 1);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(static_cast<int>(i * 37 % 251) - 120);
      for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(static_cast<int>(i * 53 % 241) - 120);
      const std::vector<T> before = y;
      tap(x.data(), stride, y.data(), n);
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(y[i], op(before[i], x[i * stride])) << "element " << i << " of " << n << ", stride " << stride;
      ASSERT_EQ(y[n], before[n]);
    }
}

TEST_P(Pool, TapsOfEveryTypeAndStride) {
  const PoolTable& table = pool_table_of(GetParam());
  const auto larger = [](auto a, auto b) { return a > b ? a : b; };
  expect_taps<float>(table.maximum_f32, larger);
  expect_taps<uint8_t>(table.maximum_u8, larger);
  expect_taps<int8_t>(table.maximum_i8, larger);
  expect_taps<float>(table.sum_f32, [](float a, float b) { return a + b; });
}

TEST_P(Pool, AMaximumKeepsANaNFromEitherSide) {
  for (int64_t stride : {1, 2})
    for (size_t at : {size_t{0}, size_t{39}}) {
      std::vector<float> x(80, 1.0f), y(40, 0.0f);
      x[at * stride] = NAN;
      pool_table_of(GetParam()).maximum_f32(x.data(), stride, y.data(), 40);
      x[at * stride] = 2.0f;
      pool_table_of(GetParam()).maximum_f32(x.data(), stride, y.data(), 40);
      for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), i == at);
    }
}

INSTANTIATE_TEST_SUITE_P(Isas, Pool, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
