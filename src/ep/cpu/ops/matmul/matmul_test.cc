// Refusals. Results are tests/problems/matmul.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ep/cpu/ops/vector_testing.h"

namespace tenon::cpu {
namespace {

TEST(MatMul, RefusesShapesThatDoNotMatch) {
  TestNode test("MatMul", "", 13);
  test.input({2, 3}, std::vector<float>(6)).input({4, 5}, std::vector<float>(20)).output({2, 5});
  const auto kernel = test.create();
  EXPECT_EQ(kernel.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(kernel.status().message(), testing::HasSubstr("3 against 4"));
}

// The sum times alpha is rounded once, which wrapped sums cannot be.
TEST(Gemm, LeavesScaledWholeNumbersToTheReference) {
  for (const float alpha : {1.0f, 0.5f}) {
    TestNode test("Gemm", "", 13);
    test.node().set_float("alpha", alpha);
    test.input<int32_t>(DataType::kInt32, {1, 1}, {1}).input<int32_t>(DataType::kInt32, {1, 1}, {1});
    test.output(DataType::kInt32, {1, 1});
    EXPECT_EQ(test.create().status().code(), alpha == 1 ? StatusCode::kOk : StatusCode::kUnsupported);
  }
}

TEST(RecurrentWeights, SubnormalValuesAreZero) {
  TestNode test("RNN", "", 14);
  test.node().set_int("hidden_size", 2);
  test.input({1, 1, 2}, {1e3f, 1e3f}).input({1, 2, 2}, std::vector<float>(4, 1e-39f), true);
  test.input({1, 2, 2}, std::vector<float>(4, 1e-39f), true).output({1, 1, 1, 2});
  for (const float value : test.run(1)) EXPECT_EQ(value, 0.0f);
}

TEST(FusedMatMul, RefusesAnUnknownActivation) {
  TestNode test("MatMul", "tenon", 1);
  test.node().set_string("activation", "wish");
  test.input({1, 1}, {1}).input({1, 1}, {1}).output({1, 1});
  EXPECT_THAT(test.create().status().message(), testing::HasSubstr("\"wish\""));
}

}  // namespace
}  // namespace tenon::cpu
