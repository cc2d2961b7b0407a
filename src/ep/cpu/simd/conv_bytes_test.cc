#include "ep/cpu/simd/conv_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(ConvBytesTable, conv_bytes_table)
TENON_TEST_TABLES(Int8Table, int8_table)
#if defined(__x86_64__)
namespace tenon::cpu {
namespace isa_avx2vnni {
extern const ConvBytesTable conv_bytes_table;
extern const Int8Table int8_table;
}  // namespace isa_avx2vnni
namespace isa_avx512vnni {
extern const ConvBytesTable conv_bytes_table;
extern const Int8Table int8_table;
}  // namespace isa_avx512vnni
}  // namespace tenon::cpu
#endif

namespace tenon::cpu {
namespace {

struct Tables {
  const ConvBytesTable* conv;
  const Int8Table* product;
};

// Those of all sets that this machine runs, with VNNI where it has it.
std::vector<Tables> tables() {
  std::vector<Tables> all;
  // A set that a build lacks has the tables of another.
  const auto add = [&](const Tables& tables) {
    if (std::ranges::find(all, tables.conv, &Tables::conv) == all.end()) all.push_back(tables);
  };
  for (Isa isa : testable_isas()) add({&conv_bytes_table_of(isa), &int8_table_of(isa)});
#if defined(__x86_64__)
  if (selected_vnni() && selected_isa() == Isa::kAvx512)
    add({&isa_avx512vnni::conv_bytes_table, &isa_avx512vnni::int8_table});
  if (selected_vnni() && selected_isa() == Isa::kAvx2)
    add({&isa_avx2vnni::conv_bytes_table, &isa_avx2vnni::int8_table});
#endif
  return all;
}

std::vector<uint8_t> random_bytes(std::mt19937& random, int64_t count) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % 4 == 0 ? 255 : random());
  return bytes;
}

// The byte that is stored for a sum, and its tolerance: 1 where two integers are as near.
std::pair<int, int> byte_of(int32_t sum, float scale, float bias, int zero, float low, float high) {
  const float value = std::fma(static_cast<float>(sum), scale, bias);
  const float byte = std::clamp(std::nearbyint(value) + static_cast<float>(zero), low, high);
  return {static_cast<int>(byte), std::abs(std::fabs(value - std::floor(value)) - 0.5f) < 1e-4f ? 1 : 0};
}

class ConvBytes : public testing::TestWithParam<Tables> {};

// A window of 1x2 with a stride over rows and columns, every rest of pixels beside the tiles, and of outputs beside the
// panels.
TEST_P(ConvBytes, PixelsAreTheRoundedSums) {
  const auto& [table, product] = GetParam();
  std::mt19937 random(3);
  for (int64_t outputs : {8, 16, 40, 64, 88})
    for (int64_t blocks : {1, 3})
      for (int64_t count : {1, 4, 6, 7, 12, 29})
        for (Int8Output output : {Int8Output::kUint8, Int8Output::kInt8, Int8Output::kFloat}) {
          constexpr int64_t kRows = 3, kColumns = 11, kWidth = 2 * kColumns, kTaps = 2, kFirst = 2, kPixels = 33;
          const int64_t plane = kRows * kWidth * 8, depth = blocks * kTaps * 8, panels = int8_columns(outputs) / 16;
          const std::vector<uint8_t> given = random_bytes(random, blocks * plane),
                                     weights = random_bytes(random, depth * outputs);
          std::vector<uint8_t> x(given.size() * static_cast<size_t>(table->element_bytes));
          table->stage(given.data(), 0x80, std::ssize(given), x.data());
          std::vector<uint8_t> packed(static_cast<size_t>(int8_packed_bytes(depth, outputs)));
          product->pack(weights.data(), true, 1, depth, depth, outputs, 0, panels, packed.data(), nullptr);
          std::vector<int64_t> offsets;
          for (int64_t b = 0; b < blocks; ++b)
            for (int64_t t = 0; t < kTaps; ++t)
              for (int64_t c = 0; c < 8; c += table->word) offsets.push_back(b * plane + t * 8 + c);
          std::vector<int32_t> terms(static_cast<size_t>(panels * 16));
          std::vector<float> scales(terms.size()), bias(terms.size());
          for (size_t j = 0; j < terms.size(); ++j) {
            terms[j] = static_cast<int32_t>(random() % 20000) - 10000;
            scales[j] = 0.0005f * static_cast<float>(1 + j % 5);
            bias[j] = static_cast<float>(j % 7) - 3;
          }
          ConvBytesRun run{.x = x.data(),
                           .x_row = kWidth * 8,
                           .x_column = 16,
                           .rows = kRows,
                           .columns = kColumns,
                           .first = kFirst,
                           .count = count,
                           .offsets = offsets.data(),
                           .words = std::ssize(offsets),
                           .w = packed.data(),
                           .panel_stride = int8_depth(depth) * 16,
                           .outputs = outputs,
                           .terms = terms.data(),
                           .scales = scales.data(),
                           .bias = bias.data(),
                           .output = output,
                           .zero = 100,
                           .low = 3,
                           .high = 250,
                           .y_block = kPixels * 8};
          std::vector<uint8_t> bytes(static_cast<size_t>(outputs * kPixels), 77);
          std::vector<float> floats(bytes.size(), -1);
          run.y = output == Int8Output::kFloat ? static_cast<void*>(floats.data()) : bytes.data();
          table->run(run);
          for (int64_t p = 0; p < kPixels; ++p)
            for (int64_t o = 0; o < outputs; ++o) {
              const auto at = static_cast<size_t>(o / 8 * kPixels * 8 + p * 8 + o % 8);
              if (p < kFirst || p >= kFirst + count) {
                ASSERT_EQ(bytes[at], 77) << "pixel " << p;
                ASSERT_EQ(floats[at], -1) << "pixel " << p;
                continue;
              }
              int32_t sum = terms[static_cast<size_t>(o)];
              for (int64_t d = 0; d < depth; ++d) {
                const int64_t tap = d / 8 % kTaps, column = p % kColumns * 2 + tap;
                const int64_t place = d / 8 / kTaps * plane + p / kColumns * kWidth * 8 + column * 8 + d % 8;
                sum += (given[static_cast<size_t>(place)] ^ 0x80) *
                       static_cast<int8_t>(weights[static_cast<size_t>(o * depth + d)]);
              }
              const float scale = scales[static_cast<size_t>(o)], added = bias[static_cast<size_t>(o)];
              if (output == Int8Output::kFloat) {
                const float value = std::clamp(std::fma(static_cast<float>(sum), scale, added), 3.0f, 250.0f);
                ASSERT_NEAR(floats[at], value, 1e-4f * std::abs(value)) << "pixel " << p << ", output " << o;
                continue;
              }
              const auto [want, off] = byte_of(sum, scale, added, 100, 3, 250);
              const int have = bytes[at] ^ (output == Int8Output::kInt8 ? 0x80 : 0);
              ASSERT_NEAR(have, want, off) << "pixel " << p << " of " << count << ", output " << o << " of " << outputs;
            }
        }
}

TEST_P(ConvBytes, PlanesBecomeUnitsOfFour) {
  const ConvBytesTable& table = *GetParam().conv;
  std::mt19937 random(4);
  const std::vector<uint8_t> planes = random_bytes(random, 3 * 40);
  for (int channels : {1, 3}) {
    std::vector<uint8_t> units(static_cast<size_t>(19 * 4 * table.element_bytes), 9), want(units.size());
    table.stage_planes(planes.data(), 40, channels, 0x80, 19, units.data());
    for (size_t i = 0; i < 19; ++i)
      for (size_t c = 0; c < 4; ++c)
        want[(i * 4 + c) * static_cast<size_t>(table.element_bytes)] =
            c < static_cast<size_t>(channels) ? planes[c * 40 + i] ^ 0x80 : 0;
    EXPECT_EQ(units, want) << channels;
  }
}

// Every stride and dilation that its loads reach, and the largest sums.
TEST_P(ConvBytes, DepthwisePixelsAreTheRoundedSums) {
  const ConvBytesTable& table = *GetParam().conv;
  std::mt19937 random(5);
  for (int64_t stride : {1, 2, 3, 9})
    for (int64_t dilation : {1, 2, 5})
      for (int64_t columns : {1, 2, 7, 8, 21}) {
        DepthwiseTaps taps;
        table.set_taps(stride, dilation, taps);
        ASSERT_GE(taps.count, stride == 1 ? 1 : 0);
        if (taps.count == 0) continue;
        constexpr int64_t kRows = 2, kGroups = 3;
        const int64_t row = 8 * ((columns - 1) * stride + 4 * dilation + 6);
        const std::vector<uint8_t> x = random_bytes(random, (kRows + kGroups) * row + 64 + 64 * stride);
        std::vector<int8_t> weights(kGroups * 32);
        std::vector<int64_t> offsets;
        for (int64_t g = 0; g < kGroups; ++g) {
          offsets.push_back(g * row);
          for (int64_t i = 0; i < 32; ++i)
            weights[static_cast<size_t>(g * 32 + i)] =
                i % 4 < taps.count ? static_cast<int8_t>(random() % 3 == 0 ? -128 : static_cast<int>(random() % 256))
                                   : int8_t{0};
        }
        const std::vector<int32_t> terms = {0, 5, -900, 40, 4000, 3, -2, 1};
        const std::vector<float> scales = {0.001f, 0.002f, 0.0005f, 0.1f, 0.01f, 0.003f, 0.001f, 0.002f};
        const std::vector<float> bias = {0, 1, 2, -3, 4, 5, 60, 7};
        std::vector<uint8_t> y(static_cast<size_t>(kRows * columns * 8 + 8), 77);
        const bool is_signed = columns % 2 == 0;
        table.run_depthwise({.x = x.data(),
                             .x_row = row,
                             .stride = stride,
                             .taps = &taps,
                             .offsets = offsets.data(),
                             .weights = weights.data(),
                             .groups = kGroups,
                             .terms = terms.data(),
                             .scales = scales.data(),
                             .bias = bias.data(),
                             .is_signed = is_signed,
                             .zero = 120,
                             .low = 10,
                             .high = 255,
                             .rows = kRows,
                             .columns = columns,
                             .y = y.data()});
        for (int64_t i = 0; i < kRows * columns * 8; ++i) {
          const int64_t c = i % 8, p = i / 8 % columns, r = i / 8 / columns;
          int32_t sum = terms[static_cast<size_t>(c)];
          for (int64_t g = 0; g < kGroups; ++g)
            for (int64_t t = 0; t < taps.count; ++t)
              sum += x[static_cast<size_t>((r + g) * row + 8 * (p * stride + t * dilation) + c)] *
                     weights[static_cast<size_t>(g * 32 + c * 4 + t)];
          const auto channel = static_cast<size_t>(c);
          const auto [want, off] = byte_of(sum, scales[channel], bias[channel], 120, 10, 255);
          ASSERT_NEAR(y[static_cast<size_t>(i)] ^ (is_signed ? 0x80 : 0), want, off)
              << "stride " << stride << ", dilation " << dilation << ", pixel " << p << " of " << columns;
        }
        for (size_t i = 0; i < 8; ++i) ASSERT_EQ(y[y.size() - 8 + i], 77);
      }
}

INSTANTIATE_TEST_SUITE_P(Tables, ConvBytes, testing::ValuesIn(tables()),
                         [](const auto& info) { return std::string(info.param.conv->name); });

}  // namespace
}  // namespace tenon::cpu
