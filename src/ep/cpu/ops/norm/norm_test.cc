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

}  // namespace
}  // namespace tenon::cpu
