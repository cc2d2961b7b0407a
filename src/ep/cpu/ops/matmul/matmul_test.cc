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

TEST(MatMul, LeavesOtherTypesToTheReference) {
  TestNode test("MatMul", "", 13);
  test.input<double>(DataType::kDouble, {1, 1}, {1}).input<double>(DataType::kDouble, {1, 1}, {1});
  test.output(DataType::kDouble, {1, 1});
  EXPECT_EQ(test.create().status().code(), StatusCode::kUnsupported);
}

TEST(FusedMatMul, RefusesAnUnknownActivation) {
  TestNode test("MatMul", "tenon", 1);
  test.node().set_string("activation", "wish");
  test.input({1, 1}, {1}).input({1, 1}, {1}).output({1, 1});
  EXPECT_THAT(test.create().status().message(), testing::HasSubstr("\"wish\""));
}

}  // namespace
}  // namespace tenon::cpu
