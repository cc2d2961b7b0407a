#include <gtest/gtest.h>

#include <cmath>

#include "ep/cpu/ops/vector_testing.h"

namespace tenon::cpu {
namespace {

std::vector<double> softmax(const std::vector<float>& x, int64_t outer, int64_t n, int64_t inner, bool log) {
  std::vector<double> y(x.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const auto at = [&](int64_t p) { return static_cast<size_t>((o * n + p) * inner + i); };
      double top = -INFINITY, sum = 0;
      for (int64_t p = 0; p < n; ++p) top = std::max(top, double{x[at(p)]});
      for (int64_t p = 0; p < n; ++p) sum += std::exp(x[at(p)] - top);
      for (int64_t p = 0; p < n; ++p) y[at(p)] = log ? x[at(p)] - top - std::log(sum) : std::exp(x[at(p)] - top) / sum;
    }
  return y;
}

TEST(Softmax, EveryAxisOfRandomShapes) {
  std::mt19937 random(1);
  for (const Shape& shape :
       {Shape{5}, Shape{3, 214}, Shape{2, 3, 4, 5}, Shape{1, 16, 4, 210}, Shape{7, 1}, Shape{2, 700, 3}}) {
    const auto x = random_floats(random, shape.element_count(), -9, 9);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      int64_t outer = 1, inner = 1;
      for (int i = 0; i < axis; ++i) outer *= shape[i];
      for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
      for (const char* op : {"Softmax", "LogSoftmax"}) {
        const bool log = op[0] == 'L';
        TestNode test(op, "", 13);
        test.node().set_int("axis", axis - (axis % 2 == 0 ? 0 : shape.rank()));
        test.input(shape, x).output(shape);
        for (int threads : {1, 2}) expect_near(test.run(threads), softmax(x, outer, shape[axis], inner, log), 1e-6);
        TestNode flat(op, "", 11);
        flat.node().set_int("axis", axis);
        flat.input(shape, x).output(shape);
        expect_near(flat.run(2), softmax(x, outer, shape[axis] * inner, 1, log), 2e-6);
      }
    }
  }
}

TEST(Softmax, InfinityGivesZeroAndLargeValuesDoNotOverflow) {
  TestNode test("Softmax", "", 13);
  test.input({1, 4}, {1000.0f, -INFINITY, 999.0f, -1000.0f}).output({1, 4});
  expect_near(test.run(1), {1 / (1 + std::exp(-1.0)), 0, 1 / (1 + std::exp(1.0)), 0}, 1e-6);
}

struct Norm {
  std::vector<double> y, sum, mean, inverse_std;
};

Norm layer_norm(const std::vector<float>& x, const std::vector<float>& skip, const std::vector<float>& scale,
                const std::vector<float>& bias, int64_t rows, int64_t n, double epsilon) {
  Norm out;
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    std::vector<double> v;
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(r * n + i);
      v.push_back(double{x[at]} + (skip.empty() ? 0 : skip[at]));
      mean += v.back() / static_cast<double>(n);
    }
    for (double value : v) variance += (value - mean) * (value - mean) / static_cast<double>(n);
    const double inverse = 1 / std::sqrt(variance + epsilon);
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(i);
      out.y.push_back((v[at] - mean) * inverse * scale[at] + (bias.empty() ? 0 : bias[at]));
    }
    out.sum.insert(out.sum.end(), v.begin(), v.end());
    out.mean.push_back(mean);
    out.inverse_std.push_back(inverse);
  }
  return out;
}

TEST(LayerNorm, SkipSumAndAbsentParts) {
  std::mt19937 random(2);
  for (int i = 0; i < 48; ++i) {
    const int64_t rows = 1 + i % 7, n = std::vector<int64_t>{1, 5, 8, 17, 33, 384}[static_cast<size_t>(i % 6)];
    const bool with_skip = i & 1, with_bias = i & 2, with_sum = i & 4;
    const auto x = random_floats(random, rows * n, 3, 5);
    const auto skip = with_skip ? random_floats(random, rows * n) : std::vector<float>();
    const auto scale = random_floats(random, n);
    const auto bias = with_bias ? random_floats(random, n) : std::vector<float>();
    const Norm want = layer_norm(x, skip, scale, bias, rows, n, 1e-3);
    TestNode test("LayerNorm", "tenon", 1);
    test.node().set_float("epsilon", 1e-3f);
    test.input({rows, n}, x);
    with_skip ? test.input({rows, n}, skip) : test.absent();
    test.input({n}, scale);
    if (with_bias) test.input({n}, bias);
    test.output({rows, n});
    if (with_sum) test.output({rows, n});
    for (int threads : {1, 2}) {
      expect_near(test.run(threads), want.y, 1e-4);
      if (with_sum) expect_near(test.run(threads, 1), want.sum, 1e-6);
    }
  }
}

TEST(LayerNormalization, AxisAndOptionalOutputs) {
  std::mt19937 random(3);
  const Shape shape{3, 4, 5};
  const auto x = random_floats(random, 60), scale = random_floats(random, 20), bias = random_floats(random, 20);
  const Norm want = layer_norm(x, {}, scale, bias, 3, 20, 1e-5);
  TestNode test("LayerNormalization", "", 17);
  test.node().set_int("axis", -2);
  test.input(shape, x).input({4, 5}, scale).input({4, 5}, bias).output(shape).output({3, 1, 1}).output({3, 1, 1});
  for (int threads : {1, 2}) {
    expect_near(test.run(threads), want.y, 1e-5);
    expect_near(test.run(threads, 1), want.mean, 1e-6);
    expect_near(test.run(threads, 2), want.inverse_std, 1e-5);
  }
}

}  // namespace
}  // namespace tenon::cpu
