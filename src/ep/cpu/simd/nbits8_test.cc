#include "ep/cpu/simd/nbits8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace tenon::cpu {
namespace {

// The table of this machine: other instruction sets have no functions, or the same source with other lanes.
TEST(NBits8, GivesTheProductOfTheRoundedNumbers) {
  const NBits8Table& table = nbits8_table();
  if (table.run == nullptr) GTEST_SKIP() << "this CPU has no VNNI";
  std::mt19937 random(1);
  std::uniform_real_distribution<float> value(-1, 1);
  for (bool zero_points : {false, true}) {
    for (int64_t m : {1, 2, 3, 4, 5, 9}) {
      for (int64_t n : {1, 16, 33}) {
        const NBitsFormat format{
            .bits = 4, .block_size = m % 2 == 0 ? 32 : 24, .blocks = 3, .zero_points = zero_points};
        const int64_t k = format.blocks * format.block_size, panels = (n + kNBitsPanel - 1) / kNBitsPanel;
        const int64_t columns = panels * kNBitsPanel;
        std::vector<uint8_t> packed(panels * format.panel_bytes());
        std::vector<double> weights(k * columns);
        for (int64_t p = 0; p < panels; ++p) {
          for (int64_t b = 0; b < format.blocks; ++b) {
            uint8_t* const head = packed.data() + p * format.panel_bytes() + b * format.block_bytes();
            for (int64_t j = 0; j < kNBitsPanel; ++j) {
              const float scale = 0.01f * static_cast<float>(1 + random() % 9);
              std::memcpy(head + 4 * j, &scale, sizeof(scale));
              int zero = 8;
              if (zero_points) head[4 * kNBitsPanel + j] = static_cast<uint8_t>(zero = static_cast<int>(random() % 16));
              for (int64_t e = 0; e < format.block_size; ++e) {
                const auto q = static_cast<int>(random() % 16);
                head[format.head_bytes() + e / 8 * 4 * kNBitsPanel + j * 4 + e % 4] |=
                    static_cast<uint8_t>(q << (e % 8 / 4 * 4));
                weights[(b * format.block_size + e) * columns + p * kNBitsPanel + j] = (q - zero) * double{scale};
              }
            }
          }
        }
        std::vector<float> a(m * k), scales(m * format.blocks), sums(m * format.blocks), bias(n), c(m * n);
        std::vector<int8_t> bytes(m * k);
        for (float& x : a) x = value(random);
        for (float& x : bias) x = value(random);
        for (int64_t i = 0; i < m; ++i) {
          table.quantize(a.data() + i * k, format.block_size, format.blocks, bytes.data() + i * k,
                         scales.data() + i * format.blocks, sums.data() + i * format.blocks);
        }
        const auto rounded = [&](int64_t i, int64_t p) {
          return bytes[i * k + p] * double{scales[i * format.blocks + p / format.block_size]};
        };
        for (int64_t i = 0; i < m * k; ++i) ASSERT_NEAR(a[i], rounded(i / k, i % k), 0.5 / 127 + 1e-6);
        table.run({.format = format,
                   .a = bytes.data(),
                   .lda = k,
                   .scales = scales.data(),
                   .sums = sums.data(),
                   .b = packed.data(),
                   .bias = bias.data(),
                   .c = c.data(),
                   .ldc = n,
                   .m = m,
                   .n = n});
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double want = bias[j];
            for (int64_t p = 0; p < k; ++p) want += rounded(i, p) * weights[p * columns + j];
            ASSERT_NEAR(c[i * n + j], want, 1e-5) << m << "x" << n << " at " << i << "," << j;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tenon::cpu
