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

// Products with subnormal numbers are slow: constant weights have none left.
TEST(MatMulWeights, SubnormalValuesAreZero) {
  for (const int64_t rows : {1, 40}) {
    TestNode test("MatMul", "", 13);
    test.input({rows, 32}, std::vector<float>(rows * 32, 1e3f));
    test.input({32, 48}, std::vector<float>(32 * 48, -1e-39f), true).output({rows, 48});
    for (const float value : test.run(1)) ASSERT_EQ(value, 0.0f);
  }
  TestNode test("MatMul", "", 13);  // those of a run count
  test.input({1, 2}, {1e3f, 0}).input({2, 1}, {1e-39f, 0}).output({1, 1});
  EXPECT_GT(test.run(1).at(0), 0.0f);
}

// 2^-130 is a bfloat16, in which weights of few rows are packed.
TEST(MatMulWeights, SubnormalValuesOf16BitsAreZero) {
  TestNode test("MatMul", "", 13);
  std::vector<float> weights(512 * 512, 0x1p-130f);
  weights[0] = 3.0f;
  test.input({1, 512}, std::vector<float>(512, 1e3f)).input({512, 512}, weights, true).output({1, 512});
  const std::vector<float> got = test.run(1);
  EXPECT_EQ(got.at(0), 3e3f);
  EXPECT_EQ(got.at(1), 0.0f);
}

TEST(RecurrentWeights, SubnormalValuesAreZero) {
  TestNode test("RNN", "", 14);
  test.node().set_int("hidden_size", 2);
  test.input({1, 1, 2}, {1e3f, 1e3f}).input({1, 2, 2}, std::vector<float>(4, 1e-39f), true);
  test.input({1, 2, 2}, std::vector<float>(4, 1e-39f), true).output({1, 1, 1, 2});
  for (const float value : test.run(1)) EXPECT_EQ(value, 0.0f);
}

// Weights of any number of dimensions, which are read as they lie.
TEST(ConvColumnsWeights, SubnormalValuesAreZero) {
  for (const float weight : {1e-39f, 1.0f}) {
    TestNode test("Conv", "", 11);
    test.input({1, 1, 2, 2, 2}, std::vector<float>(8, 1e3f)).input({1, 1, 1, 1, 1}, {weight}, true);
    test.output({1, 1, 2, 2, 2});
    for (const float value : test.run(1)) EXPECT_EQ(value, weight == 1 ? 1e3f : 0.0f);
  }
}

TEST(FusedMatMul, RefusesAnUnknownActivation) {
  TestNode test("MatMul", "tenon", 1);
  test.node().set_string("activation", "wish");
  test.input({1, 1}, {1}).input({1, 1}, {1}).output({1, 1});
  EXPECT_THAT(test.create().status().message(), testing::HasSubstr("\"wish\""));
}

}  // namespace
}  // namespace tenon::cpu
