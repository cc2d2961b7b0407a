#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>

#include "ep/cpu/ops/vector_testing.h"

namespace tenon::cpu {
namespace {

// Index of the operand's element for element `i` of the output.
size_t broadcast_index(int64_t i, const Shape& output, const Shape& operand) {
  int64_t index = 0, stride = 1;
  for (int axis = output.rank() - 1; axis >= 0; --axis) {
    const int64_t at = i % output[axis];
    i /= output[axis];
    const int own = axis - (output.rank() - operand.rank());
    if (own < 0) continue;
    if (operand[own] != 1) index += at * stride;
    stride *= operand[own];
  }
  return static_cast<size_t>(index);
}

struct UnaryCase {
  const char* op;
  int version;
  std::vector<std::pair<const char*, float>> attributes;
  double (*exact)(double);
};

TEST(UnaryNodes, DefaultsAndAttributes) {
  const UnaryCase cases[] = {
      {"Relu", 14, {}, [](double x) { return std::max(x, 0.0); }},
      {"HardSigmoid", 6, {}, [](double x) { return std::clamp(0.2 * x + 0.5, 0.0, 1.0); }},
      {"HardSigmoid",
       22,
       {{"alpha", 0.5f}, {"beta", 0.25f}},
       [](double x) { return std::clamp(0.5 * x + 0.25, 0.0, 1.0); }},
      {"HardSwish", 14, {}, [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
      {"LeakyRelu", 16, {}, [](double x) { return x < 0 ? 0.01 * x : x; }},
      {"Elu", 6, {{"alpha", 2.0f}}, [](double x) { return x < 0 ? 2 * std::expm1(x) : x; }},
      {"Selu", 6, {}, [](double x) { return 1.05070098 * (x < 0 ? 1.67326324 * std::expm1(x) : x); }},
      {"Softplus", 1, {}, [](double x) { return std::log1p(std::exp(x)); }},
      {"Softsign", 1, {}, [](double x) { return x / (1 + std::abs(x)); }},
      {"ThresholdedRelu", 10, {}, [](double x) { return x > 1 ? x : 0; }},
      {"Mish", 18, {}, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"Clip", 6, {{"min", -0.5f}, {"max", 1.5f}}, [](double x) { return std::clamp(x, -0.5, 1.5); }},
      {"Gelu", 20, {}, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"Neg", 13, {}, [](double x) { return -x; }},
      {"Exp", 13, {}, [](double x) { return std::exp(x); }},
  };
  std::mt19937 random(1);
  for (const UnaryCase& c : cases)
    for (int64_t n : {1, 13, 40000}) {
      const auto x = random_floats(random, n, -4, 4);
      std::vector<double> want;
      for (float value : x) want.push_back(c.exact(value));
      TestNode test(c.op, "", c.version);
      for (auto [name, value] : c.attributes) test.node().set_float(name, value);
      test.input({n}, x).output({n});
      for (int threads : {1, 2}) expect_near(test.run(threads), want, 1e-6);
    }
}

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

TEST(Clip, BoundsAreInputsAndMayBeAbsent) {
  TestNode test("Clip", "", 13);
  test.input({3}, {-9, 0.5f, 9}).absent().input({}, {2.0f}).output({3});
  EXPECT_THAT(test.run(1), testing::ElementsAre(-9.0f, 0.5f, 2.0f));
}

TEST(BinaryNodes, BroadcastEveryWay) {
  std::mt19937 random(2);
  struct Case {
    Shape a, b, y;
  };
  const Case cases[] = {{{7}, {7}, {7}},
                        {{2, 3, 5}, {}, {2, 3, 5}},
                        {{}, {2, 3, 5}, {2, 3, 5}},
                        {{2, 3, 5}, {5}, {2, 3, 5}},
                        {{2, 3, 5}, {3, 1}, {2, 3, 5}},
                        {{2, 1, 5}, {3, 1}, {2, 3, 5}},
                        {{4, 1, 6, 1}, {1, 3, 1, 20}, {4, 3, 6, 20}},
                        {{1, 48, 30, 41}, {1, 48, 1, 1}, {1, 48, 30, 41}},
                        {{1, 1}, {1}, {1, 1}},
                        {{0, 3}, {3}, {0, 3}}};
  const std::pair<const char*, std::function<double(double, double)>> operators[] = {
      {"Add", [](double a, double b) { return a + b; }},
      {"Sub", [](double a, double b) { return a - b; }},
      {"Mul", [](double a, double b) { return a * b; }},
      {"Div", [](double a, double b) { return a / b; }},
      {"Max", [](double a, double b) { return std::max(a, b); }},
      {"Min", [](double a, double b) { return std::min(a, b); }}};
  for (const Case& c : cases)
    for (const auto& [name, exact] : operators) {
      const auto a = random_floats(random, c.a.element_count()), b = random_floats(random, c.b.element_count(), 1, 2);
      std::vector<double> want;
      for (int64_t i = 0; i < c.y.element_count(); ++i)
        want.push_back(exact(a[broadcast_index(i, c.y, c.a)], b[broadcast_index(i, c.y, c.b)]));
      TestNode test(name, "", 14);
      test.input(c.a, a).input(c.b, b).output(c.y);
      for (int threads : {1, 2}) expect_near(test.run(threads), want, 1e-6);
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

TEST(Pow, ConstantExponents) {
  for (auto [exponent, want] : {std::pair{2.0f, 9.0f}, {3.0f, -27.0f}, {1.0f, -3.0f}, {-1.0f, -1.0f / 3}}) {
    TestNode test("Pow", "", 15);
    test.input({1}, {-3}).input({}, {exponent}, true).output({1});
    EXPECT_THAT(test.run(1), testing::ElementsAre(testing::FloatEq(want)));
  }
  TestNode test("Pow", "", 15);
  test.input({1}, {-3}).input({}, {2.5f}, true).output({1});
  EXPECT_EQ(test.create().status().code(), StatusCode::kUnsupported);
}

TEST(Where, BroadcastsThreeOperands) {
  std::mt19937 random(3);
  const std::array<Shape, 4> cases[] = {{Shape{4, 5}, Shape{4, 5}, Shape{4, 5}, Shape{4, 5}},
                                        {Shape{5}, Shape{4, 1}, Shape{}, Shape{4, 5}},
                                        {Shape{4, 1}, Shape{5}, Shape{2, 1, 1}, Shape{2, 4, 5}}};
  for (const auto& [c, a, b, y] : cases) {
    std::vector<uint8_t> condition;
    for (int64_t i = 0; i < c.element_count(); ++i) condition.push_back(random() & 1);
    const auto va = random_floats(random, a.element_count()), vb = random_floats(random, b.element_count());
    std::vector<double> want;
    for (int64_t i = 0; i < y.element_count(); ++i)
      want.push_back(condition[broadcast_index(i, y, c)] ? va[broadcast_index(i, y, a)] : vb[broadcast_index(i, y, b)]);
    TestNode test("Where", "", 16);
    test.input<uint8_t>(DataType::kBool, c, condition).input(a, va).input(b, vb).output(y);
    for (int threads : {1, 2}) expect_near(test.run(threads), want, 0);
  }
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
