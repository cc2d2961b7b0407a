#include "ep/cpu/simd/state.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(StateTable, state_table)

namespace tenon::cpu {
namespace {

class State : public testing::TestWithParam<Isa> {};

std::vector<float> numbers(int64_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> made(static_cast<size_t>(count));
  for (float& number : made) number = value(random);
  return made;
}

// Columns in whole tiles, in single vectors and in parts of one; what lies behind a row stays as it is.
TEST_P(State, IsReadAndChangedInEachColumn) {
  const StateTable& table = state_table_of(GetParam());
  std::mt19937 random(1);
  for (int64_t depth : {1, 3, 16}) {
    for (int64_t width : {1, 7, 8, 9, 16, 31, 32, 64, 75, 128}) {
      std::vector<float> state = numbers(depth * width + 1, random), before = state;
      const auto x = numbers(depth, random), factor = numbers(depth, random), k = numbers(depth, random),
                 v = numbers(width, random), q = numbers(depth, random);
      std::vector<float> y(static_cast<size_t>(width) + 1, 42.0f), z = y;
      table.read(state.data(), x.data(), 0.5f, depth, width, y.data());
      EXPECT_EQ(state, before);
      table.update(state.data(), factor.data(), k.data(), v.data(), q.data(), 2.0f, depth, width, z.data());
      for (int64_t i = 0; i < width; ++i) {
        double read = 0, changed_sum = 0;
        for (int64_t d = 0; d < depth; ++d) {
          const double old = before[d * width + i], changed = double{factor[d]} * old + double{k[d]} * v[i];
          EXPECT_NEAR(state[d * width + i], changed, 1e-6) << depth << "x" << width;
          read += x[d] * old;
          changed_sum += q[d] * changed;
        }
        EXPECT_NEAR(y[i], 0.5 * read, 1e-5) << depth << "x" << width;
        EXPECT_NEAR(z[i], 2 * changed_sum, 1e-5) << depth << "x" << width;
      }
      EXPECT_EQ(y.back(), 42.0f);
      EXPECT_EQ(z.back(), 42.0f);
      EXPECT_EQ(state.back(), before.back());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, State, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

}  // namespace
}  // namespace tenon::cpu
