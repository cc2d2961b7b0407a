#include "ep/cpu/simd/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "ep/cpu/simd/test_tables.h"
#include "ops/activation_formula.h"

TENON_TEST_TABLES(GemmTable, gemm_table)

namespace tenon::cpu {
namespace {

struct Problem {
  int64_t m, n, k;
  bool trans_b;
  Activation activation;
  bool bias, residual, residual_after;
  float alpha;
  int64_t gap = 5;  // between rows of C
};

void check(const GemmTable& table, const Problem& q, std::mt19937& random) {
  std::uniform_real_distribution<float> value(-1, 1);
  const auto fill = [&](int64_t count) {
    std::vector<float> v(count);
    for (float& x : v) x = value(random);
    return v;
  };
  const int64_t lda = q.k + 3, ldc = q.n + q.gap, ldr = q.n + 1;
  const auto a = fill(q.m * lda), b = fill(q.k * q.n), bias = fill(q.n), residual = fill(q.m * ldr);
  constexpr float kGuard = 12345.0f;
  std::vector<float> c(q.m * ldc + 8, kGuard);
  std::vector<float> packed(gemm_packed_floats(q.k, q.n) + 8, kGuard);
  const int64_t row_stride = q.trans_b ? 1 : q.n, column_stride = q.trans_b ? q.k : 1;
  table.pack(b.data(), row_stride, column_stride, q.k, q.n, 0, gemm_panels(q.n), packed.data());
  for (size_t i = packed.size() - 8; i < packed.size(); ++i) ASSERT_EQ(packed[i], kGuard);
  GemmTask task;
  task.a = a.data();
  task.lda = lda;
  task.b = packed.data();
  task.panel_stride = q.k * kGemmPanel;
  task.c = c.data();
  task.ldc = ldc;
  task.m = q.m;
  task.n = q.n;
  task.k = q.k;
  task.alpha = q.alpha;
  task.bias = q.bias ? bias.data() : nullptr;
  task.residual = q.residual ? residual.data() : nullptr;
  task.ldr = ldr;
  task.epilogue = {.activation = q.activation, .alpha = 0.25f, .beta = 0.5f, .residual_after = q.residual_after};
  table.run(task);
  // Unpacked, B gives the same; its buffer ends with it.
  if (q.m <= 24) {
    std::vector<float> plain(c.size(), kGuard);
    task.plain_b = b.data();
    task.row_stride = row_stride;
    task.column_stride = column_stride;
    task.c = plain.data();
    table.run(task);
    for (size_t i = 0; i < c.size(); ++i)
      ASSERT_NEAR(plain[i], c[i], 2e-6 * (static_cast<double>(q.k) + 1))
          << "plain " << q.m << "x" << q.n << "x" << q.k << " at " << i;
  }
  for (int64_t i = q.m * ldc; i < std::ssize(c); ++i) ASSERT_EQ(c[i], kGuard) << q.m << "x" << q.n << "x" << q.k;
  for (int64_t i = 0; i < q.m; ++i) {
    for (int64_t j = 0; j < ldc; ++j) {
      const float got = c[i * ldc + j];
      if (j >= q.n) {
        ASSERT_EQ(got, kGuard) << i << "," << j;
        continue;
      }
      double z = 0;
      for (int64_t p = 0; p < q.k; ++p) z += double{a[i * lda + p]} * b[p * row_stride + j * column_stride];
      z *= q.alpha;
      if (q.bias) z += bias[j];
      const double r = q.residual ? residual[i * ldr + j] : 0.0;
      const double want = evaluate(task.epilogue, z, r);
      ASSERT_NEAR(got, want, 1e-5 * std::sqrt(static_cast<double>(q.k) + 1))
          << q.m << "x" << q.n << "x" << q.k << " at " << i << "," << j << " activation "
          << static_cast<int>(q.activation);
    }
  }
}

class Gemm : public testing::TestWithParam<Isa> {};

TEST_P(Gemm, EdgesOfEveryBlock) {
  const GemmTable& table = gemm_table_of(GetParam());
  std::mt19937 random(1);
  for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 25, 64})
    for (int64_t n : {1, 7, 15, 16, 17, 32, 47, 64, 100, 121, 130, 200})
      for (int64_t k : {1, 2, 5, 64, 511, 513, 1100})
        if (m * n * k < 2000000)
          check(table, {m, n, k, (m + n + k) % 2 == 0, Activation::kNone, true, false, false, 1}, random);
}

// Rows of C that touch: lanes behind a short row are the next one's, and none are behind the last.
TEST_P(Gemm, FewColumnsWithoutGaps) {
  const GemmTable& table = gemm_table_of(GetParam());
  std::mt19937 random(4);
  for (int64_t m : {1, 2, 7, 8, 9, 17, 40})
    for (int64_t n : {1, 2, 3, 4, 5, 7, 8, 9})
      for (int64_t k : {0, 1, 3, 4, 70}) {
        const bool odd = (m + n + k) % 2 != 0;
        check(table, {m, n, k, false, odd ? Activation::kRelu : Activation::kNone, m % 3 == 0, odd, false, 0.5f, 0},
              random);
      }
}

TEST_P(Gemm, OuterProducts) {
  const GemmTable& table = gemm_table_of(GetParam());
  std::mt19937 random(5);
  for (int64_t m : {1, 5, 20})
    for (int64_t n : {31, 32, 40, 200, 4097})
      for (int64_t gap : {0, 3})
        check(table,
              {m, n, 1, n % 2 == 0, Activation::kSigmoid, m == 5, n % 2 != 0, m == 20, gap == 0 ? 1.0f : 0.5f, gap},
              random);
}

// B in 16 bits is the same numbers: the product is that of the panels in 32 bits.
TEST_P(Gemm, PanelsOf16Bits) {
  const GemmTable& table = gemm_table_of(GetParam());
  std::mt19937 random(3);
  for (const bool brain : {false, true}) {
    for (int64_t m = 1; m <= kGemmNarrowRows; ++m) {
      for (int64_t n : {1, 16, 31, 64, 130, 200}) {
        const int64_t k = 5 * m + n;
        // Small integers and their halves: exact in both types, and so are their sums.
        const auto some = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8) / 2; };
        const auto bits_of = [&](float x) {
          uint32_t bits = 0;
          std::memcpy(&bits, &x, sizeof bits);
          if (brain || x == 0) return static_cast<uint16_t>(bits >> 16);
          return static_cast<uint16_t>((bits >> 16 & 0x8000u) | (((bits >> 23 & 0xffu) - 112) << 10) |
                                       (bits >> 13 & 0x3ffu));
        };
        std::vector<float> a(m * k), bias(n), packed(gemm_packed_floats(k, n)), want(m * n), got(m * n + 1, 12345.0f);
        std::vector<uint16_t> narrow(packed.size());
        for (float& x : a) x = some();
        for (float& x : bias) x = some();
        for (size_t i = 0; i < packed.size(); ++i) narrow[i] = bits_of(packed[i] = some());
        GemmTask task;
        task.a = a.data();
        task.lda = k;
        task.b = packed.data();
        task.panel_stride = k * kGemmPanel;
        task.c = want.data();
        task.ldc = n;
        task.m = m;
        task.n = n;
        task.k = k;
        task.bias = bias.data();
        task.epilogue.activation = Activation::kRelu;
        table.run(task);
        task.b = nullptr;
        task.narrow_b = narrow.data();
        task.brain = brain;
        task.c = got.data();
        table.run(task);
        ASSERT_EQ(got.back(), 12345.0f);
        got.pop_back();
        ASSERT_EQ(got, want) << m << "x" << n << "x" << k << (brain ? " bf16" : " f16");
      }
    }
  }
}

TEST_P(Gemm, EpiloguesOnRandomShapes) {
  const GemmTable& table = gemm_table_of(GetParam());
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    const auto pick = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    check(table,
          {pick(1, 20), pick(1, 70), i % 10 == 0 ? pick(500, 1200) : pick(0, 40), pick(0, 1) == 1,
           static_cast<Activation>(i % kActivationCount), pick(0, 1) == 1, pick(0, 1) == 1, pick(0, 1) == 1,
           i % 3 == 0 ? 0.5f : 1.0f},
          random);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Gemm, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
