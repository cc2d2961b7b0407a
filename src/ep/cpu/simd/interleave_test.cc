#include "ep/cpu/simd/interleave.h"

#include <gtest/gtest.h>

#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(InterleaveTable, interleave_table)

namespace tenon::cpu {
namespace {

class Interleave : public testing::TestWithParam<Isa> {};

template <typename T>
void expect_threes(const Threes<T>& threes) {
  for (int64_t n : {1, 7, 8, 15, 16, 17, 31, 32, 33, 100}) {
    const int64_t stride = n + 3;
    std::vector<T> pixels(3 * n), rows(3 * stride, 9), again(3 * n + 1, 9);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<T>(i * 37 + 11);
    threes.apart(pixels.data(), rows.data(), stride, n);
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(rows[c * stride + i], pixels[3 * i + c]) << n;
      ASSERT_EQ(rows[c * stride + n], 9);
    }
    threes.together(rows.data(), stride, again.data(), n);
    for (int64_t i = 0; i < 3 * n; ++i) ASSERT_EQ(again[i], pixels[i]) << n;
    ASSERT_EQ(again[3 * n], 9);
  }
}

TEST_P(Interleave, PixelsComeApartAndTogether) {
  const InterleaveTable& table = interleave_table_of(GetParam());
  expect_threes(table.bytes);
  expect_threes(table.halves);
  expect_threes(table.words);
}

INSTANTIATE_TEST_SUITE_P(Isas, Interleave, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
