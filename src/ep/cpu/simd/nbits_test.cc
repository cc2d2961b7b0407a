#include "ep/cpu/simd/nbits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(NBitsTable, nbits_table)

namespace tenon::cpu {
namespace {

struct Weights {
  NBitsFormat format;
  std::vector<uint8_t> packed;
  std::vector<double> values;  // [k][columns in whole panels]
  int64_t columns = 0;
};

Weights random_weights(NBitsFormat format, int64_t n, std::mt19937& random) {
  const int64_t panels = (n + kNBitsPanel - 1) / kNBitsPanel, each = 8 / format.bits;
  Weights w{format, std::vector<uint8_t>(panels * format.panel_bytes()), {}, panels * kNBitsPanel};
  w.values.resize(format.blocks * format.block_size * w.columns);
  std::uniform_real_distribution<float> scale(0.01f, 0.1f);
  for (int64_t panel = 0; panel < panels; ++panel) {
    for (int64_t block = 0; block < format.blocks; ++block) {
      uint8_t* const head = w.packed.data() + panel * format.panel_bytes() + block * format.block_bytes();
      for (int64_t j = 0; j < kNBitsPanel; ++j) {
        const float s = scale(random);
        std::memcpy(head + j * 4, &s, sizeof(s));
        int zero = 1 << (format.bits - 1);
        if (format.zero_points) {
          zero = static_cast<int>(random() & ((1u << format.bits) - 1));
          head[kNBitsPanel * 4 + j] = static_cast<uint8_t>(zero);
        }
        for (int64_t k = 0; k < format.block_size; ++k) {
          const auto q = static_cast<int>(random() & ((1u << format.bits) - 1));
          head[format.head_bytes() + k / each * kNBitsPanel + j] |= static_cast<uint8_t>(q << (k % each * format.bits));
          w.values[(block * format.block_size + k) * w.columns + panel * kNBitsPanel + j] = (q - zero) * double{s};
        }
      }
    }
  }
  return w;
}

class NBits : public testing::TestWithParam<Isa> {};

TEST_P(NBits, GivesTheProductWithWidenedWeights) {
  const NBitsTable& table = nbits_table_of(GetParam());
  std::mt19937 random(1);
  std::uniform_real_distribution<float> value(-1, 1);
  for (int64_t bits : {2, 4, 8}) {
    for (bool zero_points : {false, true}) {
      for (int64_t m : {1, 2, 3, 4, 5, 9}) {
        for (int64_t n : {1, 15, 16, 40}) {
          const NBitsFormat format{
              .bits = bits, .block_size = m % 2 == 0 ? 32 : 12, .blocks = 3, .zero_points = zero_points};
          const Weights w = random_weights(format, n, random);
          const int64_t k = format.blocks * format.block_size, ldc = n + 3;
          std::vector<float> a(m * k), sums(m * format.blocks), bias(n), c(m * ldc, 12345.0f);
          for (float& x : a) x = value(random);
          for (float& x : bias) x = value(random);
          for (int64_t i = 0; i < m; ++i) {
            table.sum_blocks(a.data() + i * k, format.block_size, format.blocks, sums.data() + i * format.blocks);
          }
          table.run({.format = format,
                     .a = a.data(),
                     .lda = k,
                     .sums = sums.data(),
                     .b = w.packed.data(),
                     .bias = n % 2 == 0 ? bias.data() : nullptr,
                     .c = c.data(),
                     .ldc = ldc,
                     .m = m,
                     .n = n});
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < ldc; ++j) {
              double want = j < n && n % 2 == 0 ? double{bias[j]} : 0;
              for (int64_t p = 0; p < k && j < n; ++p) want += double{a[i * k + p]} * w.values[p * w.columns + j];
              if (j >= n) want = 12345;
              ASSERT_NEAR(c[i * ldc + j], want, 2e-4 * (bits == 8 ? 8 : 1))
                  << bits << " bits " << m << "x" << n << " at " << i << "," << j;
            }
          }
        }
      }
    }
  }
}

TEST_P(NBits, WidensToTheSameNumbers) {
  const NBitsTable& table = nbits_table_of(GetParam());
  std::mt19937 random(2);
  for (int64_t bits : {2, 4, 8}) {
    const NBitsFormat format{.bits = bits, .block_size = 16, .blocks = 4, .zero_points = bits != 8};
    const Weights w = random_weights(format, 16, random);
    std::vector<float> floats(2 * 16 * kNBitsPanel);
    table.widen(format, w.packed.data(), 1, 3, floats.data());
    for (size_t i = 0; i < floats.size(); ++i) {
      ASSERT_NEAR(floats[i], w.values[16 * kNBitsPanel + i], 1e-5) << bits << " bits at " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, NBits, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
