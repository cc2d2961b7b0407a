#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ep/cpu/ops/vector_testing.h"

namespace tenon::cpu {
namespace {

// Plain loops; element (row, column) of A and B by strides.
std::vector<double> product(const std::vector<float>& a, int64_t a_row, int64_t a_column, const std::vector<float>& b,
                            int64_t b_row, int64_t b_column, int64_t m, int64_t n, int64_t k, double alpha = 1) {
  std::vector<double> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum +=
            double{a[static_cast<size_t>(i * a_row + p * a_column)]} * b[static_cast<size_t>(p * b_row + j * b_column)];
      c[static_cast<size_t>(i * n + j)] = alpha * sum;
    }
  return c;
}

TEST(MatMul, RandomMatricesWithConstantAndVariableB) {
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    const auto pick = [&](int64_t high) { return std::uniform_int_distribution<int64_t>(1, high)(random); };
    const int64_t m = i % 5 == 0 ? 1 : pick(90), n = pick(200), k = i % 7 == 0 ? pick(1300) : pick(100);
    const auto a = random_floats(random, m * k), b = random_floats(random, k * n);
    TestNode test("MatMul", "", 13);
    test.input({m, k}, a).input({k, n}, b, i % 2 == 0).output({m, n});
    for (int threads : {1, 2, 4}) expect_near(test.run(threads), product(a, k, 1, b, n, 1, m, n, k), 2e-4);
  }
}

TEST(MatMul, BatchesBroadcastOnBothSides) {
  std::mt19937 random(2);
  struct Case {
    Shape a, b, y;
  };
  for (const Case& c : {Case{{3, 4, 5}, {5, 6}, {3, 4, 6}}, Case{{4, 5}, {2, 5, 6}, {2, 4, 6}},
                        Case{{2, 1, 4, 5}, {3, 5, 6}, {2, 3, 4, 6}}, Case{{2, 3, 4, 5}, {2, 3, 5, 6}, {2, 3, 4, 6}},
                        Case{{1, 4, 5}, {3, 5, 6}, {3, 4, 6}}, Case{{5}, {5, 6}, {6}}, Case{{4, 5}, {5}, {4}},
                        Case{{5}, {5}, {}}, Case{{5}, {3, 5, 6}, {3, 6}}, Case{{0, 5}, {5, 6}, {0, 6}}}) {
    for (bool constant : {false, true}) {
      const auto a = random_floats(random, c.a.element_count()), b = random_floats(random, c.b.element_count());
      const Shape sa = c.a.rank() == 1 ? Shape{1, c.a[0]} : c.a, sb = c.b.rank() == 1 ? Shape{c.b[0], 1} : c.b;
      const int64_t m = sa[sa.rank() - 2], k = sa[sa.rank() - 1], n = sb[sb.rank() - 1];
      const int64_t batches = m == 0 ? 0 : c.y.element_count() / (m * n);
      std::vector<double> want;
      for (int64_t i = 0; i < batches; ++i) {
        // Every case has at most two batch dimensions.
        const auto dim = [](const Shape& s, int from_end) {
          return s.rank() >= 3 + from_end ? s[s.rank() - 3 - from_end] : int64_t{1};
        };
        const int64_t inner = std::max(dim(sa, 0), dim(sb, 0));
        const int64_t i0 = i % inner, i1 = i / inner;
        const auto at = [&](const Shape& s) {
          return (dim(s, 1) == 1 ? 0 : i1) * dim(s, 0) + (dim(s, 0) == 1 ? 0 : i0);
        };
        const std::vector<float> ai(a.begin() + at(sa) * m * k, a.begin() + (at(sa) + 1) * m * k);
        const std::vector<float> bi(b.begin() + at(sb) * k * n, b.begin() + (at(sb) + 1) * k * n);
        const auto part = product(ai, k, 1, bi, n, 1, m, n, k);
        want.insert(want.end(), part.begin(), part.end());
      }
      TestNode test("MatMul", "", 13);
      test.input(c.a, a).input(c.b, b, constant).output(c.y);
      for (int threads : {1, 2}) expect_near(test.run(threads), want, 1e-5);
    }
  }
}

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

TEST(Gemm, TransposesScalesAndBroadcastsC) {
  std::mt19937 random(3);
  const int64_t m = 9, n = 21, k = 13;
  for (int i = 0; i < 96; ++i) {
    const bool trans_a = i & 1, trans_b = i & 2, constant_b = i & 4, constant_c = i & 8;
    const float alpha = i % 3 == 0 ? 0.5f : 1.0f, beta = i % 5 == 0 ? 2.0f : (i % 7 == 0 ? 0.0f : 1.0f);
    const Shape shapes[] = {{n}, {1, n}, {m, 1}, {m, n}, {}, {1}};
    const Shape& shape = shapes[i % 6];
    const auto a = random_floats(random, m * k), b = random_floats(random, k * n);
    const auto c = random_floats(random, shape.element_count());
    auto want = trans_a ? product(a, 1, m, b, trans_b ? 1 : n, trans_b ? k : 1, m, n, k, alpha)
                        : product(a, k, 1, b, trans_b ? 1 : n, trans_b ? k : 1, m, n, k, alpha);
    for (int64_t r = 0; r < m; ++r)
      for (int64_t j = 0; j < n; ++j) {
        const bool by_row = shape.rank() == 2 && shape[0] == m;
        const bool by_column = shape.rank() > 0 && shape[shape.rank() - 1] == n;
        const int64_t at = (by_row ? r * shape[1] : 0) + (by_column ? j : 0);
        want[static_cast<size_t>(r * n + j)] += double{beta} * c[static_cast<size_t>(at)];
      }
    TestNode test("Gemm", "", 13);
    test.node().set_int("transA", trans_a);
    test.node().set_int("transB", trans_b);
    test.node().set_float("alpha", alpha);
    test.node().set_float("beta", beta);
    test.input(trans_a ? Shape{k, m} : Shape{m, k}, a).input(trans_b ? Shape{n, k} : Shape{k, n}, b, constant_b);
    test.input(shape, c, constant_c).output({m, n});
    for (int threads : {1, 2}) expect_near(test.run(threads), want, 1e-5);
  }
}

TEST(FusedMatMul, BiasResidualAndActivation) {
  std::mt19937 random(4);
  for (int i = 0; i < 40; ++i) {
    const auto pick = [&](int64_t high) { return std::uniform_int_distribution<int64_t>(1, high)(random); };
    const int64_t batch = pick(3), m = pick(40), n = pick(60), k = pick(50);
    const bool trans_b = i & 1, after = i & 2, with_residual = i % 3 != 0;
    const auto a = random_floats(random, batch * m * k), b = random_floats(random, k * n);
    const auto bias = random_floats(random, n), residual = random_floats(random, batch * m * n);
    auto want = product(a, k, 1, b, trans_b ? 1 : n, trans_b ? k : 1, batch * m, n, k, 0.5);
    for (size_t at = 0; at < want.size(); ++at) {
      double z = want[at] + bias[at % static_cast<size_t>(n)];
      if (with_residual && !after) z += residual[at];
      z = 0.5 * z * (1 + std::erf(z / std::sqrt(2.0)));
      if (with_residual && after) z += residual[at];
      want[at] = z;
    }
    TestNode test("MatMul", "tenon", 1);
    test.node().set_string("activation", "gelu");
    test.node().set_int("trans_b", trans_b);
    test.node().set_int("residual_after", after);
    test.node().set_float("alpha", 0.5f);
    test.input({batch, m, k}, a).input(trans_b ? Shape{n, k} : Shape{k, n}, b, true).input({n}, bias, true);
    if (with_residual) test.input({batch, m, n}, residual);
    test.output({batch, m, n});
    for (int threads : {1, 2}) expect_near(test.run(threads), want, 2e-5);
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
