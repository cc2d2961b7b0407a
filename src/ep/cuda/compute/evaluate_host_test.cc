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

ConstantRef wholes(const std::vector<int64_t>& values) { return make_int64_constant(values); }

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

TEST(EvaluateOnHost, ARestHasTheSignOfItsDivisor) {
  EXPECT_THAT(of_whole("Mod", {7, -7, 7, -7, 5, kLeast}, {3, 3, -3, -3, 0, -1}), ElementsAre(1, 2, -2, -1, 0, 0));
}

TEST(EvaluateOnHost, NumbersAreComparedAndNegated) {
  const ConstantRef a = wholes({1, 2, 3}), b = wholes({2, 2, 2});
  const auto compared = [&](const char* op_type) { return evaluated<uint8_t>(op_type, {a, b}, DataType::kBool, 3); };
  EXPECT_THAT(compared("Less"), ElementsAre(1, 0, 0));
  EXPECT_THAT(compared("LessOrEqual"), ElementsAre(1, 1, 0));
  EXPECT_THAT(compared("Greater"), ElementsAre(0, 0, 1));
  EXPECT_THAT(compared("GreaterOrEqual"), ElementsAre(0, 1, 1));
  EXPECT_THAT(evaluated<int64_t>("Neg", {wholes({5, kLeast})}, DataType::kInt64, 2), ElementsAre(-5, kLeast));
  EXPECT_THAT(evaluated<int64_t>("Abs", {wholes({-5, 6})}, DataType::kInt64, 2), ElementsAre(5, 6));
}

TEST(EvaluateOnHost, FloatsAreRounded) {
  const auto rounded = [](const char* op_type) {
    return evaluated<float>(op_type, {floats({2.5F, -1.5F, 0.25F})}, DataType::kFloat, 3);
  };
  EXPECT_THAT(rounded("Floor"), ElementsAre(2, -2, 0));
  EXPECT_THAT(rounded("Ceil"), ElementsAre(3, -1, 1));
  EXPECT_THAT(rounded("Round"), ElementsAre(2, -2, 0));
  EXPECT_THAT(evaluated<float>("Sqrt", {floats({9, 0.25F})}, DataType::kFloat, 2), ElementsAre(3, 0.5F));
}

// The pads of torch: pairs from the last axis to the first become all beginnings, then all ends.
TEST(EvaluateOnHost, RowsAreReversedAndTransposed) {
  plan_testing::GraphBuilder builder;
  std::byte* data = nullptr;
  const ConstantRef pairs = *make_constant(DataType::kInt64, Shape{3, 2}, &data);
  for (int64_t i = 0; i < 6; ++i) reinterpret_cast<int64_t*>(data)[i] = i;
  const auto one = [&](const char* name, int64_t number) { return builder.graph.add_constant(name, wholes({number})); };
  const ValueId x = builder.graph.add_constant("pairs", pairs);
  builder.shape(builder.node("Slice", {x, one("start", -1), one("end", kLeast), one("axis", 0), one("step", -1)},
                             "reversed", DataType::kInt64),
                Shape{3, 2});
  const Result<std::vector<ConstantRef>> reversed = evaluate_on_host(builder.graph, builder.last());
  ASSERT_TRUE(reversed.ok()) << reversed.status().to_string();
  const ValueId rows = builder.graph.add_constant("rows", reversed->front());
  builder.shape(builder.node("Transpose", {rows}, "pads", DataType::kInt64), Shape{2, 3});
  const Result<std::vector<ConstantRef>> pads = evaluate_on_host(builder.graph, builder.last());
  ASSERT_TRUE(pads.ok()) << pads.status().to_string();
  EXPECT_THAT(pads->front()->as<int64_t>(), ElementsAre(4, 2, 0, 5, 3, 1));
}

TEST(EvaluateOnHost, APartOfNothingIsNothing) {
  const auto one = [](int64_t number) { return make_int64_constant(std::vector<int64_t>{number}); };
  const ConstantRef nothing = make_int64_constant({});
  EXPECT_TRUE(
      evaluated<int64_t>("Slice", {nothing, one(-1), one(kLeast), one(0), one(-1)}, DataType::kInt64, 0).empty());
}

}  // namespace
}  // namespace tenon::cuda
