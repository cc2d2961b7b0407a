#include "ep/cpu/simd/interleave.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(InterleaveTable, interleave_table)

namespace tenon::cpu {
namespace {

class Interleave : public testing::TestWithParam<Isa> {};

template <typename T>
void expect_pixels(const Pixels<T>& pixels_of, int64_t count) {
  for (int64_t n : {1, 7, 8, 15, 16, 17, 31, 32, 33, 100}) {
    const int64_t stride = n + 3;
    std::vector<T> pixels(count * n), rows(count * stride, 9), again(count * n + 1, 9);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<T>(i * 37 + 11);
    pixels_of.apart(pixels.data(), rows.data(), stride, n);
    for (int64_t c = 0; c < count; ++c) {
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(rows[c * stride + i], pixels[count * i + c]) << n;
      ASSERT_EQ(rows[c * stride + n], 9);
    }
    pixels_of.together(rows.data(), stride, again.data(), n);
    for (int64_t i = 0; i < count * n; ++i) ASSERT_EQ(again[i], pixels[i]) << n;
    ASSERT_EQ(again[count * n], 9);
  }
}

TEST_P(Interleave, PixelsComeApartAndTogether) {
  const InterleaveTable& table = interleave_table_of(GetParam());
  for (int count = kLeastPixel; count <= kLargestPixel; ++count) {
    expect_pixels(table.bytes[count - kLeastPixel], count);
    expect_pixels(table.halves[count - kLeastPixel], count);
    expect_pixels(table.words[count - kLeastPixel], count);
  }
}

TEST_P(Interleave, BytesAreTransposed) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{16, 8}, {17, 9}, {15, 7}, {70, 33}, {128, 64}}) {
    const int64_t src_stride = columns + 3, dst_stride = rows + 2;
    std::vector<uint8_t> x(rows * src_stride), y(columns * dst_stride, 9);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 37 + i / 256);
    interleave_table_of(GetParam()).transpose8(x.data(), src_stride, y.data(), dst_stride, rows, columns);
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) ASSERT_EQ(y[j * dst_stride + i], x[i * src_stride + j]) << rows;
      ASSERT_EQ(y[j * dst_stride + rows], 9);
    }
  }
}

TEST_P(Interleave, ChannelsOfBytesGoToBlocksAndBack) {
  const InterleaveTable& table = interleave_table_of(GetParam());
  for (int channels = 1; channels <= 8; ++channels) {
    for (int64_t pixels : {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 49, 64, 100}) {
      const int64_t plane = pixels + 3;
      std::vector<uint8_t> x(channels * plane), blocks(pixels * 8 + 1, 9), back(channels * plane, 9);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 37 + i / 256 + 1);
      table.to_blocks8(x.data(), plane, channels, blocks.data(), pixels);
      for (int64_t i = 0; i < pixels * 8; ++i)
        ASSERT_EQ(blocks[i], i % 8 < channels ? x[i % 8 * plane + i / 8] : 0) << pixels << " " << channels;
      ASSERT_EQ(blocks.back(), 9);
      table.from_blocks8(blocks.data(), back.data(), plane, channels, pixels);
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < plane; ++i)
          ASSERT_EQ(back[c * plane + i], i < pixels ? x[c * plane + i] : 9) << pixels << " " << channels;
    }
  }
}

TEST_P(Interleave, ManySmallMatricesAreTransposed) {
  const auto transpose_many = interleave_table_of(GetParam()).transpose_many;
  for (int64_t bytes : {1, 2, 4, 8})
    for (int64_t rows : {2, 3, 4, 5, 6, 7, 8, 11, 16, 20})
      for (int64_t columns : {2, 3, 4, 5, 8, 12, 16, 20, 61})
        for (int64_t count : {600, 601, 1039}) {
          const int64_t elements = rows * columns, all = count * elements * bytes;
          std::vector<uint8_t> x(all), y(all + 1, 9);
          for (int64_t i = 0; i < all; ++i) x[i] = static_cast<uint8_t>(i * 37 + i / 251);
          const bool done = transpose_many(bytes, x.data(), y.data(), rows, columns, count);
          ASSERT_EQ(y.back(), 9);
          for (int64_t i = 0; done && i < count * elements; ++i) {
            const int64_t place = i % elements, from = i - place + place % rows * columns + place / rows;
            ASSERT_TRUE(std::equal(y.begin() + i * bytes, y.begin() + (i + 1) * bytes, x.begin() + from * bytes))
                << bytes << " bytes, " << rows << "x" << columns << ", element " << i;
          }
          // Where there is no such loop, nothing is written.
          ASSERT_TRUE(done || std::all_of(y.begin(), y.end(), [](uint8_t byte) { return byte == 9; }));
        }
}

TEST_P(Interleave, PatternsFillWhateverLiesWhere) {
  std::vector<uint8_t> pattern(16), memory(700);
  for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<uint8_t>(i * 11 + 3);
  for (int64_t begin : {0, 1, 7, 63}) {
    for (int64_t n : {0, 1, 15, 31, 32, 63, 64, 65, 127, 200, 256, 500, 600}) {
      std::fill(memory.begin(), memory.end(), uint8_t{9});
      interleave_table_of(GetParam()).fill(pattern.data(), memory.data() + begin, n);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(memory[begin + i], pattern[i % 16]) << begin << " " << n;
      ASSERT_EQ(memory[begin + n], 9);
    }
  }
}

TEST_P(Interleave, PatternsAreRepeated) {
  for (int64_t bytes : {16, 17, 31, 32, 45, 63, 64, 65, 128, 200, 5000})
    for (int64_t count : {1, 2, 7, 300}) {
      std::vector<uint8_t> x(bytes), y(bytes * count + 1, 9);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 37 + 11);
      interleave_table_of(GetParam()).repeat(x.data(), bytes, y.data(), count);
      for (int64_t i = 0; i < bytes * count; ++i) ASSERT_EQ(y[i], x[i % bytes]) << bytes << " times " << count;
      ASSERT_EQ(y.back(), 9);
    }
}

INSTANTIATE_TEST_SUITE_P(Isas, Interleave, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
