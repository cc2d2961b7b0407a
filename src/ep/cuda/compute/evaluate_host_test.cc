#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ep/cuda/compute/region.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();

ConstantRef floats(const std::vector<float>& values) {
  std::byte* data = nullptr;
  ConstantRef made = *make_constant(DataType::kFloat, Shape{static_cast<int64_t>(values.size())}, &data);
  std::copy(values.begin(), values.end(), reinterpret_cast<float*>(data));
  return made;
}

// The result of `op_type` for constants: `count` numbers of `type`.
template <typename T>
std::vector<T> evaluated(const std::string& op_type, const std::vector<ConstantRef>& operands, DataType type,
                         int64_t count) {
  plan_testing::GraphBuilder builder;
  std::vector<ValueId> inputs;
  inputs.reserve(operands.size());
  for (const ConstantRef& operand : operands)
    inputs.push_back(builder.graph.add_constant("c" + std::to_string(inputs.size()), operand));
  builder.shape(builder.node(op_type, inputs, "y", type), Shape{count});
  const Result<std::vector<ConstantRef>> made = evaluate_on_host(builder.graph, builder.last());
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  if (!made.ok()) return {};
  return {made->front()->as<T>().begin(), made->front()->as<T>().end()};
}

std::vector<int64_t> of_whole(const std::string& op_type, const std::vector<int64_t>& a,
                              const std::vector<int64_t>& b) {
  return evaluated<int64_t>(op_type, {make_int64_constant(a), make_int64_constant(b)}, DataType::kInt64,
                            static_cast<int64_t>(a.size()));
}

// Whatever numbers a model has, no division ends the process.
TEST(EvaluateOnHost, WholeNumbersWrap) {
  EXPECT_THAT(of_whole("Div", {kLeast, 7, -7, 5}, {-1, -1, 2, 0}), ElementsAre(kLeast, -7, -3, 0));
  EXPECT_THAT(of_whole("Add", {kMost, 1}, {1, 2}), ElementsAre(kLeast, 3));
  EXPECT_THAT(of_whole("Sub", {kLeast, 1}, {1, 2}), ElementsAre(kMost, -1));
  EXPECT_THAT(of_whole("Mul", {kMost, 3}, {2, -2}), ElementsAre(-2, -6));
}

TEST(EvaluateOnHost, FloatsDivideByZero) {
  EXPECT_THAT(evaluated<float>("Div", {floats({1, -1, 3}), floats({0, 0, 2})}, DataType::kFloat, 3),
              ElementsAre(std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), 1.5F));
}

TEST(EvaluateOnHost, HalfIsTrueAndNoWholeNumber) {
  EXPECT_THAT(evaluated<uint8_t>("Cast", {floats({0.5F, 0, -2})}, DataType::kBool, 3), ElementsAre(1, 0, 1));
  EXPECT_THAT(evaluated<int64_t>("Cast", {floats({0.5F, 0, -2.5F})}, DataType::kInt64, 3), ElementsAre(0, 0, -2));
}

// docs/reference/operators.md says what a float becomes that the integer cannot hold.
TEST(EvaluateOnHost, FloatsThatDoNotFitAreTheLowestInteger) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const ConstantRef values = floats({3e9F, -3e9F, 1e20F, kInfinity, -kInfinity, std::nanf(""), -7.9F});
  constexpr int32_t kLow = std::numeric_limits<int32_t>::min();
  EXPECT_THAT(evaluated<int32_t>("Cast", {values}, DataType::kInt32, 7),
              ElementsAre(kLow, kLow, kLow, kLow, kLow, kLow, -7));
  EXPECT_THAT(evaluated<int64_t>("Cast", {values}, DataType::kInt64, 7),
              ElementsAre(3000000000, -3000000000, kLeast, kLeast, kLeast, kLeast, -7));
}

TEST(EvaluateOnHost, ANaNWinsWhereverItStands) {
  for (const char* op_type : {"Min", "Max"})
    for (float value :
         evaluated<float>(op_type, {floats({std::nanf(""), 1}), floats({2, std::nanf("")})}, DataType::kFloat, 2))
      EXPECT_TRUE(std::isnan(value)) << op_type;
}

TEST(EvaluateOnHost, APartOfNothingIsNothing) {
  const auto one = [](int64_t number) { return make_int64_constant(std::vector<int64_t>{number}); };
  const ConstantRef nothing = make_int64_constant({});
  EXPECT_TRUE(
      evaluated<int64_t>("Slice", {nothing, one(-1), one(kLeast), one(0), one(-1)}, DataType::kInt64, 0).empty());
}

}  // namespace
}  // namespace tenon::cuda
