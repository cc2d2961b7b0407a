#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "ep/cpu/ops/vector_testing.h"

namespace tenon::cpu {
namespace {

struct Sizes {
  int64_t b, t, s, h, d, e;
};

size_t at(int64_t i) { return i; }

// Plain loops; the mask by strides over [B,H,T,S].
std::vector<double> attention(const Sizes& z, const std::vector<float>& q, const std::vector<float>& k,
                              const std::vector<float>& v, const std::vector<float>& mask,
                              const std::array<int64_t, 4>& stride, double scale) {
  std::vector<double> y(at(z.b * z.t * z.h * z.e), 0);
  for (int64_t b = 0; b < z.b; ++b)
    for (int64_t h = 0; h < z.h; ++h)
      for (int64_t t = 0; t < z.t; ++t) {
        std::vector<double> p(at(z.s));
        double top = -INFINITY, sum = 0;
        for (int64_t s = 0; s < z.s; ++s) {
          double dot = 0;
          for (int64_t i = 0; i < z.d; ++i)
            dot += double{q[at(((b * z.t + t) * z.h + h) * z.d + i)]} * k[at(((b * z.s + s) * z.h + h) * z.d + i)];
          p[at(s)] = dot * scale;
          if (!mask.empty()) p[at(s)] += mask[at(b * stride[0] + h * stride[1] + t * stride[2] + s * stride[3])];
          top = std::max(top, p[at(s)]);
        }
        for (double& x : p) sum += x = std::exp(x - top);
        for (int64_t s = 0; s < z.s; ++s)
          for (int64_t i = 0; i < z.e; ++i)
            y[at(((b * z.t + t) * z.h + h) * z.e + i)] += p[at(s)] / sum * v[at(((b * z.s + s) * z.h + h) * z.e + i)];
      }
  return y;
}

TEST(PackedAttention, TakesThirdsOfTheLastAxis) {
  std::mt19937 random(2);
  for (const Sizes& z : {Sizes{1, 128, 128, 12, 32, 32}, Sizes{2, 5, 5, 3, 8, 8}, Sizes{1, 7, 7, 1, 5, 5}}) {
    const int64_t hidden = z.h * z.d;
    const auto packed = random_floats(random, z.b * z.t * 3 * hidden);
    std::vector<float> parts[3];
    for (int64_t row = 0; row < z.b * z.t; ++row)
      for (int64_t third = 0; third < 3; ++third)
        parts[third].insert(parts[third].end(), packed.begin() + (row * 3 + third) * hidden,
                            packed.begin() + (row * 3 + third + 1) * hidden);
    TestNode test("PackedAttention", "tenon", 1);
    test.node().set_int("num_heads", z.h);
    test.node().set_float("scale", 0.2f);
    test.input({z.b, z.t, 3 * hidden}, packed).output({z.b, z.t, hidden});
    for (int threads : {1, 2})
      expect_near(test.run(threads), attention(z, parts[0], parts[1], parts[2], {}, {}, 0.2f), 2e-5);
  }
}

// Models mask with the lowest float: added to a score it must not overflow into NaN. A row of -infinity is NaN, as a
// Softmax of it is.
TEST(Attention, LowestFloatAsMaskGivesNoNaN) {
  std::mt19937 random(3);
  const Sizes z{1, 6, 20, 2, 8, 8};
  const auto q = random_floats(random, z.t * z.h * z.d, -9, 9), k = random_floats(random, z.s * z.h * z.d, -9, 9),
             v = random_floats(random, z.s * z.h * z.e);
  std::vector<float> mask(at(z.t * z.s), 0.0f);
  for (int64_t s = 10; s < z.s; ++s)
    for (int64_t t = 0; t < z.t; ++t) mask[at(t * z.s + s)] = -FLT_MAX;
  for (int64_t s = 0; s < z.s; ++s) mask[at(2 * z.s + s)] = -INFINITY;
  TestNode test("Attention", "tenon", 1);
  test.node().set_int("num_heads", z.h);
  test.node().set_float("scale", 1 / std::sqrt(8.0f));
  test.input({1, z.t, z.h * z.d}, q).input({1, z.s, z.h * z.d}, k).input({1, z.s, z.h * z.e}, v);
  test.input({z.t, z.s}, mask).output({1, z.t, z.h * z.e});
  auto got = test.run(1);
  auto want = attention(z, q, k, v, mask, {0, 0, z.s, 1}, 1 / std::sqrt(8.0));
  for (int64_t i = 2 * z.h * z.e; i < 3 * z.h * z.e; ++i) {
    EXPECT_TRUE(std::isnan(got[at(i)]) && std::isnan(want[at(i)]));
    got[at(i)] = 0, want[at(i)] = 0;
  }
  expect_near(got, want, 2e-5);
}

// torch.onnx writes Where(IsNaN(p), 0, p) after the softmax: no query gets NaN.
TEST(Attention, AGuardedQueryWithoutKeysIsZeros) {
  std::mt19937 random(4);
  const Sizes z{2, 7, 20, 2, 8, 8};
  const auto q = random_floats(random, z.b * z.t * z.h * z.d), k = random_floats(random, z.b * z.s * z.h * z.d),
             v = random_floats(random, z.b * z.s * z.h * z.e);
  std::vector<float> mask(at(z.t * z.s), 0.0f);
  for (int64_t s = 0; s < z.s; ++s) mask[at(2 * z.s + s)] = -INFINITY;
  mask[at(4 * z.s + 3)] = NAN;
  TestNode test("Attention", "tenon", 1);
  test.node().set_int("num_heads", z.h);
  test.node().set_float("scale", 0.3f);
  test.node().set_int("guarded", 1);
  test.input({z.b, z.t, z.h * z.d}, q).input({z.b, z.s, z.h * z.d}, k).input({z.b, z.s, z.h * z.e}, v);
  test.input({z.t, z.s}, mask).output({z.b, z.t, z.h * z.e});
  auto want = attention(z, q, k, v, mask, {0, 0, z.s, 1}, 0.3f);
  for (int64_t b = 0; b < z.b; ++b)
    for (int64_t t : {2, 4})
      for (int64_t i = 0; i < z.h * z.e; ++i) {
        EXPECT_TRUE(std::isnan(want[at((b * z.t + t) * z.h * z.e + i)]));
        want[at((b * z.t + t) * z.h * z.e + i)] = 0;
      }
  for (int threads : {1, 2}) expect_near(test.run(threads), want, 2e-5);
}

TEST(Attention, RefusesAMaskThatDoesNotBroadcast) {
  TestNode test("Attention", "tenon", 1);
  test.node().set_int("num_heads", 1);
  test.node().set_float("scale", 1);
  for (int i = 0; i < 3; ++i) test.input({1, 2, 4}, std::vector<float>(8));
  test.input({3, 2}, std::vector<float>(6)).output({1, 2, 4});
  EXPECT_THAT(test.create().status().message(), testing::HasSubstr("does not broadcast"));
}

}  // namespace
}  // namespace tenon::cpu
