// Special values. Results are tests/problems/softmax.txt and norm.txt.
#include <gtest/gtest.h>

#include <cmath>

#include "ep/cpu/ops/vector_testing.h"

namespace tenon::cpu {
namespace {

TEST(Softmax, InfinityGivesZeroAndLargeValuesDoNotOverflow) {
  TestNode test("Softmax", "", 13);
  test.input({1, 4}, {1000.0f, -INFINITY, 999.0f, -1000.0f}).output({1, 4});
  expect_near(test.run(1), {1 / (1 + std::exp(-1.0)), 0, 1 / (1 + std::exp(1.0)), 0}, 1e-6);
}

// By rows and by columns, and on the reference kernel.
TEST(GuardedSoftmax, AGroupWithoutProbabilitiesIsZero) {
  for (const int64_t axis : {0, 1}) {
    TestNode test("GuardedSoftmax", "tenon", 1);
    test.node().set_int("axis", axis);
    if (axis == 1) {
      test.input({3, 2}, {-INFINITY, -INFINITY, 1, 1, NAN, 2}).output({3, 2});
      EXPECT_EQ(test.run(1), (std::vector<float>{0, 0, 0.5F, 0.5F, 0, 0}));
    } else {
      test.input({2, 3}, {-INFINITY, 1, NAN, -INFINITY, 1, 2}).output({2, 3});
      EXPECT_EQ(test.run(1), (std::vector<float>{0, 0.5F, 0, 0, 0.5F, 0}));
    }
  }
}

}  // namespace
}  // namespace tenon::cpu
