// Special values. Results are tests/problems/softmax.txt and norm.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string_view>

#include "ep/cpu/ops/vector_testing.h"

namespace tenon::cpu {
namespace {

TEST(Softmax, InfinityGivesZeroAndLargeValuesDoNotOverflow) {
  TestNode test("Softmax", "", 13);
  test.input({1, 4}, {1000.0f, -INFINITY, 999.0f, -1000.0f}).output({1, 4});
  expect_near(test.run(1), {1 / (1 + std::exp(-1.0)), 0, 1 / (1 + std::exp(1.0)), 0}, 1e-6);
}

// Threads share long rows by parts that do not depend on how many there are.
TEST(LongRows, HaveTheSameBitsWhateverTheNumberOfThreads) {
  constexpr int64_t kRows = 2, kLength = 70000;
  std::mt19937 random(1);
  const std::vector<float> x = random_floats(random, kRows * kLength), scale = random_floats(random, kLength);
  for (const char* op : {"Softmax", "LogSoftmax", "ReduceSum", "ReduceL2", "LayerNormalization", "LpNormalization",
                         "MeanVarianceNormalization"}) {
    const std::string_view name = op;
    TestNode test(op, "", name.starts_with("Reduce") || name == "LpNormalization" ? 1 : 17);
    test.input({kRows, kLength}, x);
    if (name.starts_with("Reduce")) test.node().set_ints("axes", {1});
    if (name.starts_with("MeanVariance")) test.node().set_ints("axes", {1});
    if (name == "LayerNormalization") test.input({kLength}, scale);
    test.output(name.starts_with("Reduce") ? Shape{kRows, 1} : Shape{kRows, kLength});
    const std::vector<float> one = test.run(1);
    for (int threads : {2, 3}) EXPECT_TRUE(test.run(threads) == one) << op << " on " << threads << " threads";
  }
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

// Axes around another one, the last axes, and none but the last; also of groups that threads share.
TEST(MeanVariance, GroupsAreTheSharedAxes) {
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{2, 2, 90, 200}}) {
    std::vector<float> x(static_cast<size_t>(shape.element_count()));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) * 0.25F - 9;
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0, 2, 3}, {2, 3}, {3}, {0, 1, 2, 3}}) {
      const auto shares = [&](int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
      // The group of an element is its place along the other axes.
      const auto group_of = [&](size_t i) {
        int64_t group = 0;
        auto rest = static_cast<int64_t>(i);
        for (int d = 3; d >= 0; rest /= shape[d], --d) group = shares(d) ? group : group * 1000 + rest % shape[d];
        return group;
      };
      std::map<int64_t, std::vector<size_t>> groups;
      for (size_t i = 0; i < x.size(); ++i) groups[group_of(i)].push_back(i);
      std::vector<double> want(x.size());
      for (const auto& [group, members] : groups) {
        double sum = 0, squares = 0;
        for (size_t i : members) sum += static_cast<double>(x[i]);
        const double count = static_cast<double>(members.size()), mean = sum / count;
        for (size_t i : members) squares += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
        for (size_t i : members) want[i] = (static_cast<double>(x[i]) - mean) / (std::sqrt(squares / count) + 1e-9);
      }
      TestNode test("MeanVarianceNormalization", "", 13);
      test.node().set_ints("axes", axes);
      test.input(shape, x).output(shape);
      EXPECT_EQ((*test.create())->name(), "mean_variance f32");
      expect_near(test.run(2), want, 1e-5);
    }
  }
}

}  // namespace
}  // namespace tenon::cpu
