#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ep/cpu/ops/vector_testing.h"

namespace tenon::cpu {
namespace {

std::vector<int64_t> index_of(int64_t i, const Shape& shape) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<size_t>(axis)] = i % shape[axis];
    i /= shape[axis];
  }
  return index;
}

int64_t flat_index(const std::vector<int64_t>& index, const Shape& shape) {
  int64_t flat = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) flat = flat * shape[axis] + index[static_cast<size_t>(axis)];
  return flat;
}

template <typename T>
std::vector<T> counting(int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i * 7 + 1);
  return values;
}

template <typename T>
void check_transpose(DataType type, const Shape& x, const std::vector<int64_t>& order) {
  Shape y = x;
  for (size_t i = 0; i < order.size(); ++i) y[static_cast<int>(i)] = x[static_cast<int>(order[i])];
  const auto values = counting<T>(x.element_count());
  std::vector<T> want(values.size());
  for (int64_t i = 0; i < y.element_count(); ++i) {
    const auto to = index_of(i, y);
    std::vector<int64_t> from(to.size());
    for (size_t d = 0; d < to.size(); ++d) from[static_cast<size_t>(order[d])] = to[d];
    want[static_cast<size_t>(i)] = values[static_cast<size_t>(flat_index(from, x))];
  }
  TestNode test("Transpose", "", 13);
  test.node().set_ints("perm", order);
  test.input<T>(type, x, values).output(type, y);
  for (int threads : {1, 2}) ASSERT_EQ(test.run<T>(threads), want) << x.to_string();
}

TEST(Transpose, EveryPermutationAndElementSize) {
  for (const Shape& x : {Shape{6, 35}, Shape{3, 5, 18}, Shape{2, 3, 4, 17}, Shape{2, 1, 3, 2, 5}}) {
    std::vector<int64_t> order(static_cast<size_t>(x.rank()));
    std::iota(order.begin(), order.end(), 0);
    do {
      check_transpose<uint8_t>(DataType::kUint8, x, order);
      check_transpose<uint16_t>(DataType::kFloat16, x, order);
      check_transpose<float>(DataType::kFloat, x, order);
      check_transpose<int64_t>(DataType::kInt64, x, order);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  check_transpose<float>(DataType::kFloat, {300, 400}, {1, 0});
  check_transpose<float>(DataType::kFloat, {1, 128, 12, 32}, {0, 2, 3, 1});
  check_transpose<float>(DataType::kFloat, {0, 4}, {1, 0});
}

TEST(Transpose, RefusesWhatIsNoPermutation) {
  TestNode test("Transpose", "", 13);
  test.node().set_ints("perm", {0, 0});
  test.input({2, 3}, std::vector<float>(6)).output({2, 3});
  EXPECT_EQ(test.create().status().code(), StatusCode::kInvalidArgument);
}

TEST(Expand, RepeatsDimensionsOfOne) {
  for (const auto& [x, y] : {std::pair{Shape{3, 1}, Shape{2, 3, 4}},
                             {Shape{}, Shape{5, 7}},
                             {Shape{4}, Shape{3, 4}},
                             {Shape{1, 2048, 1}, Shape{1, 2048, 9}}}) {
    const auto values = counting<int64_t>(x.element_count());
    std::vector<int64_t> want;
    for (int64_t i = 0; i < y.element_count(); ++i) {
      auto index = index_of(i, y);
      index.erase(index.begin(), index.begin() + (y.rank() - x.rank()));
      for (int d = 0; d < x.rank(); ++d)
        if (x[d] == 1) index[static_cast<size_t>(d)] = 0;
      want.push_back(values[static_cast<size_t>(flat_index(index, x))]);
    }
    TestNode test("Expand", "", 13);
    test.input<int64_t>(DataType::kInt64, x, values).output(DataType::kInt64, y);
    for (int threads : {1, 2}) EXPECT_EQ(test.run<int64_t>(threads), want);
  }
}

TEST(SplitAndConcat, AreEachOthersInverseOnEveryAxis) {
  const Shape whole{4, 6, 10};
  const auto values = counting<float>(whole.element_count());
  for (int axis = 0; axis < 3; ++axis) {
    Shape first = whole, second = whole;
    first[axis] = 1;
    second[axis] = whole[axis] - 1;
    TestNode split("Split", "", 13);
    split.node().set_int("axis", axis - 3);
    split.input(whole, values).output(first).output(second);
    for (int threads : {1, 2}) {
      const auto a = split.run(threads, 0), b = split.run(threads, 1);
      TestNode concat("Concat", "", 13);
      concat.node().set_int("axis", axis);
      concat.input(first, a).input(second, b).output(whole);
      EXPECT_EQ(concat.run(threads), values);
      ASSERT_EQ(a.size() + b.size(), values.size());
      EXPECT_EQ(a[0], values[0]);
    }
  }
}

TEST(Concat, RefusesInputsThatDoNotFit) {
  TestNode test("Concat", "", 13);
  test.node().set_int("axis", 0);
  test.input({2, 3}, std::vector<float>(6)).input({2, 4}, std::vector<float>(8)).output({4, 3});
  EXPECT_EQ(test.create().status().code(), StatusCode::kInvalidArgument);
}

std::vector<float> slice(const Shape& x, const Shape& y, const std::vector<float>& values,
                         const std::vector<int64_t>& starts, const std::vector<int64_t>& steps) {
  std::vector<float> out;
  for (int64_t i = 0; i < y.element_count(); ++i) {
    auto index = index_of(i, y);
    for (size_t d = 0; d < index.size(); ++d) index[d] = starts[d] + index[d] * steps[d];
    out.push_back(values[static_cast<size_t>(flat_index(index, x))]);
  }
  return out;
}

TEST(Slice, StepsBothWaysAndClampsItsStarts) {
  const Shape x{5, 8};
  const auto values = counting<float>(40);
  struct Case {
    std::vector<int64_t> starts, ends, steps, real_starts;
    Shape y;
  };
  for (const Case& c :
       {Case{{1, 2}, {4, 6}, {1, 1}, {1, 2}, {3, 4}}, Case{{0, -1}, {5, -9}, {2, -3}, {0, 7}, {3, 3}},
        Case{{100, 0}, {-100, 8}, {-1, 1}, {4, 0}, {5, 8}}, Case{{-100, 3}, {2, 4}, {1, 1}, {0, 3}, {2, 1}},
        Case{{2, 0}, {2, 8}, {1, 1}, {2, 0}, {0, 8}}}) {
    TestNode test("Slice", "", 13);
    test.input(x, values).input<int64_t>(DataType::kInt64, {2}, c.starts, true);
    test.input<int64_t>(DataType::kInt64, {2}, c.ends, true).absent();
    test.input<int64_t>(DataType::kInt64, {2}, c.steps, true).output(c.y);
    for (int threads : {1, 2}) EXPECT_EQ(test.run(threads), slice(x, c.y, values, c.real_starts, c.steps));
  }
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

TEST(Gather, RowsOnEveryAxis) {
  const Shape x{4, 5, 6};
  const auto values = counting<float>(120);
  const std::vector<int32_t> indices{3, -1, 0, 2};
  for (int axis = 0; axis < 3; ++axis) {
    Shape y;
    for (int d = 0; d < 3; ++d) {
      if (d != axis) {
        y.push_back(x[d]);
      } else {
        y.push_back(2);
        y.push_back(2);
      }
    }
    std::vector<float> want;
    for (int64_t i = 0; i < y.element_count(); ++i) {
      auto index = index_of(i, y);
      const int64_t at = index[static_cast<size_t>(axis)] * 2 + index[static_cast<size_t>(axis) + 1];
      const int64_t row = indices[static_cast<size_t>(at)];
      index.erase(index.begin() + axis);
      index[static_cast<size_t>(axis)] = row < 0 ? row + x[axis] : row;
      want.push_back(values[static_cast<size_t>(flat_index(index, x))]);
    }
    TestNode test("Gather", "", 13);
    test.node().set_int("axis", axis);
    test.input(x, values).input<int32_t>(DataType::kInt32, {2, 2}, indices).output(y);
    for (int threads : {1, 2}) EXPECT_EQ(test.run(threads), want);
  }
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
  EXPECT_THAT(status.message(), testing::HasSubstr("Index 3 at place 1"));
}

TEST(LookupOrDefault, GivesTheLastRowForEveryIndexOutside) {
  TestNode test("LookupOrDefault", "tenon", 1);
  test.input({3, 2}, {0, 1, 2, 3, 9, 9}).input<int32_t>(DataType::kInt32, {1, 4}, {1, -1, 2, 0}).output({1, 4, 2});
  EXPECT_THAT(test.run(1), testing::ElementsAre(2, 3, 9, 9, 9, 9, 0, 1));
}

TEST(Reduce, NeighbouringAxes) {
  std::mt19937 random(1);
  struct Case {
    Shape x;
    std::vector<int64_t> axes;
    Shape y;
  };
  const Case cases[] = {{{3, 37}, {1}, {3}},
                        {{37, 70}, {0}, {1, 70}},
                        {{2, 9, 130}, {1}, {2, 130}},
                        {{4, 5, 6}, {}, {}},
                        {{2, 48, 7, 9}, {2, 3}, {2, 48, 1, 1}},
                        {{5, 1, 3}, {-3, 1}, {3}},
                        {{1, 512, 256}, {1}, {1, 256}}};
  for (const Case& c : cases) {
    const auto x = random_floats(random, c.x.element_count());
    for (const char* op :
         {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL2", "ReduceL1"}) {
      const std::string name = op;
      std::vector<bool> reduced(static_cast<size_t>(c.x.rank()), c.axes.empty());
      for (int64_t axis : c.axes) reduced[static_cast<size_t>(axis < 0 ? axis + c.x.rank() : axis)] = true;
      Shape kept = c.x;
      for (int d = 0; d < c.x.rank(); ++d)
        if (reduced[static_cast<size_t>(d)]) kept[d] = 1;
      const double start = name == "ReduceMax" ? -INFINITY : name == "ReduceMin" ? INFINITY : 0;
      std::vector<double> want(static_cast<size_t>(kept.element_count()), start);
      for (int64_t i = 0; i < c.x.element_count(); ++i) {
        auto index = index_of(i, c.x);
        for (size_t d = 0; d < index.size(); ++d)
          if (reduced[d]) index[d] = 0;
        double& sum = want[static_cast<size_t>(flat_index(index, kept))];
        const double v = x[static_cast<size_t>(i)];
        if (name == "ReduceMax")
          sum = std::max(sum, v);
        else if (name == "ReduceMin")
          sum = std::min(sum, v);
        else if (name == "ReduceSumSquare" || name == "ReduceL2")
          sum += v * v;
        else if (name == "ReduceL1")
          sum += std::abs(v);
        else
          sum += v;
      }
      const int64_t summed = c.x.element_count() / kept.element_count();
      for (double& sum : want) {
        if (name == "ReduceMean") sum /= static_cast<double>(summed);
        if (name == "ReduceL2") sum = std::sqrt(sum);
      }
      TestNode test(op, "", 18);
      test.input(c.x, x);
      if (!c.axes.empty()) test.input<int64_t>(DataType::kInt64, {static_cast<int64_t>(c.axes.size())}, c.axes, true);
      test.output(c.y);
      for (int threads : {1, 2}) expect_near(test.run(threads), want, 1e-5);
    }
  }
}

TEST(Reduce, LeavesAxesThatAreApartToTheReference) {
  TestNode test("ReduceSum", "", 13);
  test.input({2, 3, 4}, std::vector<float>(24)).input<int64_t>(DataType::kInt64, {2}, {0, 2}, true).output({3});
  EXPECT_EQ(test.create().status().code(), StatusCode::kUnsupported);
}

TEST(GlobalMaxPool, ReducesAllSpatialAxes) {
  TestNode test("GlobalMaxPool", "", 1);
  test.input({1, 2, 3}, {1, 5, 2, -3, -1, -2}).output({1, 2, 1});
  EXPECT_THAT(test.run(1), testing::ElementsAre(5, -1));
}

}  // namespace
}  // namespace tenon::cpu
