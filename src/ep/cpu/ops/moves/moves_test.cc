// Refusals and failures of runs. Results are tests/problems/move.txt and reduce.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ep/cpu/ops/vector_testing.h"

namespace tenon::cpu {
namespace {

TEST(Transpose, RefusesWhatIsNoPermutation) {
  TestNode test("Transpose", "", 13);
  test.node().set_ints("perm", {0, 0});
  test.input({2, 3}, std::vector<float>(6)).output({2, 3});
  EXPECT_EQ(test.create().status().code(), StatusCode::kInvalidArgument);
}

TEST(Concat, RefusesInputsThatDoNotFit) {
  TestNode test("Concat", "", 13);
  test.node().set_int("axis", 0);
  test.input({2, 3}, std::vector<float>(6)).input({2, 4}, std::vector<float>(8)).output({4, 3});
  EXPECT_EQ(test.create().status().code(), StatusCode::kInvalidArgument);
}

TEST(Slice, RefusesAnOutputThatReachesOutside) {
  for (const auto& [step, dim] : {std::pair<int64_t, int64_t>{1, 5}, {3, 3}, {INT64_MIN, 2}, {INT64_MAX, 2}}) {
    TestNode test("Slice", "", 13);
    test.input({4}, std::vector<float>(4)).input<int64_t>(DataType::kInt64, {1}, {0}, true);
    test.input<int64_t>(DataType::kInt64, {1}, {4}, true).input<int64_t>(DataType::kInt64, {1}, {0}, true);
    test.input<int64_t>(DataType::kInt64, {1}, {step}, true).output({dim});
    EXPECT_EQ(test.create().status().code(), StatusCode::kInvalidArgument) << step;
  }
}

TEST(Slice, LeavesVariableBoundsToTheReference) {
  TestNode test("Slice", "", 13);
  test.input({4}, std::vector<float>(4)).input<int64_t>(DataType::kInt64, {1}, {0});
  test.input<int64_t>(DataType::kInt64, {1}, {4}).output({4});
  EXPECT_EQ(test.create().status().code(), StatusCode::kUnsupported);
}

// S6: what only data can do fails the run, with the index in the message.
TEST(Gather, AnIndexOutsideFailsTheRun) {
  TestNode test("Gather", "", 13);
  test.input({3, 2}, std::vector<float>(6)).input<int64_t>(DataType::kInt64, {2}, {1, 3}).output({2, 2});
  const auto kernel = test.create().value();
  struct Context final : KernelContext {
    Result<void*> allocate_output(size_t, const Shape&) override { return internal_error("No output is dynamic."); }
  } context;
  const std::vector<float> table(6);
  const std::vector<int64_t> indices{1, 3};
  std::vector<float> y(4);
  const void* inputs[] = {table.data(), indices.data()};
  void* outputs[] = {y.data()};
  const auto pool = ThreadPool::create({.threads = 1}).value();
  context.inputs = inputs;
  context.outputs = outputs;
  context.pool = pool.get();
  const Status status = kernel->run(context);
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), testing::HasSubstr("Index 3 at position 1"));
}

TEST(LookupOrDefault, GivesTheLastRowForEveryIndexOutside) {
  TestNode test("LookupOrDefault", "tenon", 1);
  test.input({3, 2}, {0, 1, 2, 3, 9, 9}).input<int32_t>(DataType::kInt32, {1, 4}, {1, -1, 2, 0}).output({1, 4, 2});
  EXPECT_THAT(test.run(1), testing::ElementsAre(2, 3, 9, 9, 9, 9, 0, 1));
}

TEST(Reduce, SumsOverAxesThatAreApart) {
  TestNode test("ReduceSum", "", 13);
  test.input({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}).input<int64_t>(DataType::kInt64, {2}, {0, 2}, true).output({1, 2, 1});
  EXPECT_THAT(test.run(1), testing::ElementsAre(14, 22));
}

}  // namespace
}  // namespace tenon::cpu
