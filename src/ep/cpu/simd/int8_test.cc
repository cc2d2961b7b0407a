#include "ep/cpu/simd/int8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/fault.h"
#include "ep/cpu/simd/amx.h"
#include "ep/cpu/simd/test_tables.h"
#include "ops/activation_formula.h"

TENON_TEST_TABLES(Int8Table, int8_table)
#if defined(__x86_64__)
namespace tenon::cpu {
namespace isa_avx2vnni {
extern const Int8Table int8_table;
}
namespace isa_avx512vnni {
extern const Int8Table int8_table, int8_amx_table;
}
}  // namespace tenon::cpu
#endif

namespace tenon::cpu {
namespace {

// Those of all sets that this machine runs, with VNNI and tiles where it has them.
std::vector<const Int8Table*> tables() {
  std::vector<const Int8Table*> all;
  for (Isa isa : testable_isas()) all.push_back(&int8_table_of(isa));
#if defined(__x86_64__)
  if (selected_vnni())
    all.push_back(selected_isa() == Isa::kAvx512 ? &isa_avx512vnni::int8_table : &isa_avx2vnni::int8_table);
  if (selected_amx()) all.push_back(&isa_avx512vnni::int8_amx_table);
#endif
  return all;
}

struct Problem {
  int64_t m, n, k;
  bool a_signed, b_signed, trans_b;
};

int counted(uint8_t byte, bool is_signed, bool as_signed) {
  const int value = is_signed ? static_cast<int8_t>(byte) : byte;
  return value + (as_signed ? (is_signed ? 0 : -128) : (is_signed ? 128 : 0));
}

class Product {
 public:
  Product(const Problem& problem, uint32_t seed) : q_(problem), lda_(problem.k + 3), random_(seed) {
    a_ = bytes(q_.m * lda_);
    b_ = bytes(q_.k * q_.n);
  }

  // The sum of products as the task counts them.
  int64_t sum(int64_t i, int64_t j) const {
    int64_t sum = 0;
    for (int64_t p = 0; p < q_.k; ++p) sum += int64_t{a(i, p)} * b(p, j);
    return sum;
  }
  int a(int64_t i, int64_t p) const { return counted(a_[i * lda_ + p], q_.a_signed, false); }
  int b(int64_t p, int64_t j) const { return counted(b_[q_.trans_b ? j * q_.k + p : p * q_.n + j], q_.b_signed, true); }
  int64_t row_sum(int64_t i) const {
    int64_t sum = 0;
    for (int64_t p = 0; p < q_.k; ++p) sum += a(i, p);
    return sum;
  }

  // Packs B with `table` and checks the sums of its columns.
  Int8Task task(const Int8Table& table) {
    packed_.assign(int8_packed_bytes(q_.k, q_.n) + 8, 77);
    std::vector<int32_t> sums(int8_columns(q_.n));
    table.pack(b_.data(), q_.b_signed, q_.trans_b ? 1 : q_.n, q_.trans_b ? q_.k : 1, q_.k, q_.n, 0,
               int8_columns(q_.n) / kInt8Panel, packed_.data(), sums.data());
    for (size_t i = packed_.size() - 8; i < packed_.size(); ++i) EXPECT_EQ(packed_[i], 77);
    for (int64_t j = 0; j < q_.n; ++j) {
      int64_t wanted = 0;
      for (int64_t p = 0; p < q_.k; ++p) wanted += b(p, j);
      EXPECT_EQ(sums[j], wanted) << table.name << " column " << j;
    }
    return {.a = a_.data(),
            .lda = lda_,
            .a_signed = q_.a_signed,
            .b = packed_.data(),
            .panel_stride = int8_depth(q_.k) * kInt8Panel,
            .m = q_.m,
            .n = q_.n,
            .k = q_.k};
  }

  std::vector<uint8_t> bytes(int64_t count) {
    std::vector<uint8_t> v(count);
    // Often the ends of the range, where sums of 16 bits would overflow.
    for (uint8_t& x : v) x = static_cast<uint8_t>(random_() % 3 == 0 ? (random_() % 2 == 0 ? 255 : 128) : random_());
    return v;
  }
  std::vector<int32_t> integers(int64_t count) {
    std::vector<int32_t> v(count);
    for (int32_t& x : v) x = static_cast<int32_t>(random_() % 1000) - 500;
    return v;
  }
  std::vector<float> floats(int64_t count, float low, float high) {
    std::uniform_real_distribution<float> value(low, high);
    std::vector<float> v(count);
    for (float& x : v) x = value(random_);
    return v;
  }

 private:
  Problem q_;
  int64_t lda_;
  std::mt19937 random_;
  std::vector<uint8_t> a_, b_, packed_;
};

std::vector<Problem> problems() {
  std::vector<Problem> all;
  uint32_t mix = 1;
  for (int64_t m : {1, 5, 6, 13})
    for (int64_t n : {1, 16, 50, 81})
      for (int64_t k : {1, 3, 18, 67, 1100}) {
        mix = mix * 1664525 + 1013904223;
        all.push_back({m, n, k, (mix >> 16 & 1) != 0, (mix >> 17 & 1) != 0, (mix >> 18 & 1) != 0});
      }
  // One and two tiles of rows, each with rows left over; depths of whole tiles, and one of two staged parts.
  for (int64_t m : {16, 17, 32, 50})
    for (int64_t k : {64, 128, 190}) all.push_back({m, 70, k, (m + k) % 4 == 0, k == 128, m == 17});
  all.push_back({33, 40, 2100, true, true, false});
  return all;
}

TEST(Int8Product, SumsAreExact) {
  for (const Int8Table* table : tables()) {
    for (const Problem& q : problems()) {
      Product product(q, 1);
      Int8Task task = product.task(*table);
      const std::vector<int32_t> row_terms = product.integers(q.m), row_factors = product.integers(q.m),
                                 column_terms = product.integers(int8_columns(q.n)),
                                 column_factors = product.integers(int8_columns(q.n));
      for (int corrections : {0, 1, 2}) {
        task.column_terms = corrections != 0 ? column_terms.data() : nullptr;
        task.column_factors = corrections != 0 ? column_factors.data() : nullptr;
        task.row_factors = corrections == 2 ? row_factors.data() : nullptr;
        task.row_terms = corrections == 2 ? row_terms.data() : nullptr;
        const int64_t ldc = q.n + 2;
        std::vector<int32_t> c(q.m * ldc, 12345);
        task.c = c.data();
        task.ldc = ldc;
        table->run(task);
        for (int64_t i = 0; i < q.m; ++i) {
          for (int64_t j = 0; j < ldc; ++j) {
            int64_t wanted = 12345;
            if (j < q.n) {
              wanted = product.sum(i, j);
              if (corrections != 0) wanted += column_terms[j];
              if (corrections == 1) wanted -= product.row_sum(i) * column_factors[j];
              if (corrections == 2) wanted += row_terms[i] - int64_t{row_factors[i]} * column_factors[j];
            }
            ASSERT_EQ(c[i * ldc + j], static_cast<int32_t>(wanted))
                << table->name << " " << q.m << "x" << q.k << "x" << q.n << " at " << i << "," << j;
          }
        }
      }
    }
  }
}

float step_of(float x, const Int8Step& step) {
  return std::clamp(std::nearbyint(x * step.inverse) + step.zero, step.low, step.high);
}

TEST(Int8Product, ScalesActivatesAndRequantises) {
  for (const Int8Table* table : tables()) {
    for (const Problem& q : problems()) {
      Product product(q, 2);
      Int8Task task = product.task(*table);
      const int64_t columns = int8_columns(q.n);
      const auto row_scales = product.floats(q.m, 1e-6f, 1e-5f), row_bias = product.floats(q.m, -1, 1),
                 column_scales = product.floats(columns, 0.5f, 2), column_bias = product.floats(columns, -1, 1),
                 middle_bias = product.floats(columns, -1, 1), residual = product.floats(q.m * q.n, -1, 1);
      std::vector<uint8_t> lookup(256);
      for (int i = 0; i < 256; ++i) lookup[i] = static_cast<uint8_t>(255 - i);
      for (Int8Output output : {Int8Output::kFloat, Int8Output::kUint8, Int8Output::kInt8}) {
        const bool middle = (q.m + q.n) % 2 == 0;
        const bool mapped = output != Int8Output::kFloat && q.k % 2 == 0;
        task.row_scales = row_scales.data();
        task.row_bias = row_bias.data();
        task.column_scales = column_scales.data();
        task.column_bias = column_bias.data();
        task.middle = middle;
        task.middle_step = {.inverse = 40, .zero = 100};
        task.middle_scale = 0.02f;
        task.middle_bias = middle_bias.data();
        task.residual = residual.data();
        task.ldr = q.n;
        task.epilogue = {.activation = Activation::kRelu, .residual_after = q.m % 2 == 0};
        task.output = output;
        task.step = {.inverse = 50, .zero = 120, .low = 3, .high = 250};
        task.table = mapped ? lookup.data() : nullptr;
        std::vector<float> floats(q.m * q.n);
        std::vector<uint8_t> bytes(q.m * q.n);
        task.c = output == Int8Output::kFloat ? static_cast<void*>(floats.data()) : bytes.data();
        task.ldc = q.n;
        table->run(task);
        for (int64_t i = 0; i < q.m; ++i) {
          for (int64_t j = 0; j < q.n; ++j) {
            float x = std::fma(static_cast<float>(static_cast<int32_t>(product.sum(i, j))),
                               column_scales[j] * row_scales[i], column_bias[j] + row_bias[i]);
            if (middle) x = std::fma(step_of(x, task.middle_step) - 100, 0.02f, middle_bias[j]);
            const float added = residual[i * q.n + j];
            x = static_cast<float>(evaluate(task.epilogue, x, added));
            const int64_t at = i * q.n + j;
            if (output == Int8Output::kFloat) {
              // Next to a tie of the middle step a fused multiply-add may fall to the other side.
              ASSERT_NEAR(floats[at], x, middle ? 0.021f : 1e-4f * (1 + std::fabs(x))) << table->name;
              continue;
            }
            const int wanted = static_cast<int>(step_of(x, task.step));
            int got = mapped ? 255 - bytes[at] : bytes[at];
            if (output == Int8Output::kInt8) got ^= 0x80;
            ASSERT_NEAR(got, wanted, middle ? 2 : 1) << table->name << " at " << i << "," << j;
          }
        }
      }
    }
  }
}

// A system that grants no tiles is no error of a run: int8_table() is then that of AVX-512 with VNNI.
TEST(Int8Product, TilesNeedAGrant) {
  if (!request_amx().ok()) GTEST_SKIP() << "no AMX";
  const FaultInjection fault(1);
  const Status refused = request_amx();
  EXPECT_TRUE(fault.fired());
  EXPECT_FALSE(refused.ok());
}

TEST(Int8Product, PacksRowsAtOffsets) {
  for (const Int8Table* table : tables()) {
    for (int64_t k : {1, 3, 4, 9, 26}) {
      Product product({1, 1, 1, false, false, false}, 3);
      const std::vector<uint8_t> memory = product.bytes(400), a = product.bytes(k);
      std::vector<int64_t> offsets(k);
      for (int64_t p = 0; p < k; ++p) offsets[p] = p * 37 % 384;
      for (bool b_signed : {false, true}) {
        std::vector<uint8_t> packed(int8_packed_bytes(k, kInt8Panel));
        std::vector<int32_t> sums(kInt8Panel), c(kInt8Panel);
        table->pack_rows(memory.data(), b_signed, offsets.data(), k, packed.data(), sums.data());
        Int8Task task{.a = a.data(),
                      .lda = k,
                      .b = packed.data(),
                      .panel_stride = int8_depth(k) * kInt8Panel,
                      .m = 1,
                      .n = kInt8Panel,
                      .k = k,
                      .c = c.data(),
                      .ldc = kInt8Panel};
        table->run(task);
        for (int64_t j = 0; j < kInt8Panel; ++j) {
          int product_sum = 0, sum = 0;
          for (int64_t p = 0; p < k; ++p) {
            const int b = counted(memory[offsets[p] + j], b_signed, true);
            product_sum += a[p] * b;
            sum += b;
          }
          ASSERT_EQ(c[j], product_sum) << table->name;
          ASSERT_EQ(sums[j], sum) << table->name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tenon::cpu
