// Refusals, memory that is overwritten, and special values. Results are tests/problems/elementwise.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ep/cpu/ops/vector_testing.h"

namespace tenon::cpu {
namespace {

TEST(Activation, TakesItsParametersFromTheAttributes) {
  TestNode test("Activation", "tenon", 1);
  test.node().set_string("activation", "hardswish");
  test.node().set_float("activation_alpha", 0.25f);
  test.node().set_float("activation_beta", 0.5f);
  test.input({4}, {-3, -1, 1, 3}).output({4});
  EXPECT_THAT(test.run(1), testing::ElementsAre(-0.0f, -0.25f, 0.75f, 3.0f));
  EXPECT_TRUE(test.create().value()->may_run_in_place(0, 0));
}

// Missing channels of the blocked layout are zero, and convolutions that follow rely on it.
TEST(Activation, KeepsThePaddingOfBlockedChannelsZero) {
  Node node;
  node.op_type = "Activation";
  node.domain = "tenon";
  node.since_version = 1;
  node.set_string("activation", "sigmoid");
  const TensorSpec spec{.type = DataType::kFloat, .shape = {2, 11, 3}, .layout = Layout::kBlocked8};
  KernelNode asked;
  asked.node = &node;
  asked.inputs = {&spec, 1};
  asked.outputs = {&spec, 1};
  const auto row = std::find_if(vector_kernels().begin(), vector_kernels().end(),
                                [](const KernelEntry& entry) { return entry.op_type == "Activation"; });
  ASSERT_NE(row, vector_kernels().end());
  ASSERT_TRUE(row->match(asked).ok());
  const auto kernel = row->create(asked).value();
  struct Context final : KernelContext {
    Result<void*> allocate_output(size_t, const Shape&) override { return internal_error("No output is dynamic."); }
  } context;
  const std::vector<float> x(2 * 16 * 3, 0.0f);
  std::vector<float> y(x.size(), -1);
  const void* inputs[] = {x.data()};
  void* outputs[] = {y.data()};
  const auto pool = ThreadPool::create({.threads = 1}).value();
  context.inputs = inputs;
  context.outputs = outputs;
  context.pool = pool.get();
  ASSERT_TRUE(kernel->run(context).ok());
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t block = i / 24 % 2, lane = i % 8;
    EXPECT_EQ(y[i], block == 1 && lane >= 3 ? 0.0f : 0.5f) << i;
  }
}

TEST(BinaryNodes, OnlyAWholeOperandMayBeOverwritten) {
  TestNode test("Add", "", 14);
  test.input({2, 3}, std::vector<float>(6)).input({3}, std::vector<float>(3)).output({2, 3});
  const auto kernel = test.create().value();
  EXPECT_TRUE(kernel->may_run_in_place(0, 0));
  EXPECT_FALSE(kernel->may_run_in_place(1, 0));
}

TEST(BinaryNodes, RefuseShapesThatDoNotBroadcast) {
  TestNode test("Add", "", 14);
  test.input({2, 3}, std::vector<float>(6)).input({2}, std::vector<float>(2)).output({2, 3});
  EXPECT_THAT(test.create().status().message(), testing::HasSubstr("does not broadcast"));
}

TEST(Pow, LeavesOtherExponentsToTheReference) {
  TestNode test("Pow", "", 15);
  test.input({1}, {-3}).input({}, {2.5f}, true).output({1});
  EXPECT_EQ(test.create().status().code(), StatusCode::kUnsupported);
}

TEST(Cast, BetweenFloatsAndIntegers) {
  TestNode to_float("Cast", "", 13);
  to_float.input<int64_t>(DataType::kInt64, {3}, {-5, 1, int64_t{1} << 40}).output({3});
  EXPECT_THAT(to_float.run(1), testing::ElementsAre(-5.0f, 1.0f, 1099511627776.0f));
  TestNode to_int("Cast", "", 13);
  to_int.input({3}, {-1.7f, 2.5f, 0}).output(DataType::kInt32, {3});
  EXPECT_THAT(to_int.run<int32_t>(1), testing::ElementsAre(-1, 2, 0));
  TestNode to_bool("Cast", "", 13);
  to_bool.input({3}, {-1.7f, NAN, 0}).output(DataType::kBool, {3});
  EXPECT_THAT(to_bool.run<uint8_t>(1), testing::ElementsAre(1, 1, 0));
  TestNode from_bool("Cast", "", 13);
  from_bool.input<uint8_t>(DataType::kBool, {2}, {1, 0}).output({2});
  EXPECT_THAT(from_bool.run(1), testing::ElementsAre(1.0f, 0.0f));
}

}  // namespace
}  // namespace tenon::cpu
