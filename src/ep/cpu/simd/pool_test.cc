#include "ep/cpu/simd/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(PoolTable, pool_table)

namespace tenon::cpu {
namespace {

class Pool : public testing::TestWithParam<Isa> {};

template <typename T, typename Op>
void expect_folds(PoolFold<T> fold, Op op) {
  for (int64_t stride : {1, 2, 3})
    for (int64_t count : {1, 3, 5})
      for (int64_t n : {1, 2, 7, 15, 16, 17, 20, 31, 63, 64, 65, 130}) {
        const int64_t rows = 3, shift = 2, pitch = (n - 1) * stride + (count - 1) * shift + 2;
        std::vector<T> x(rows * pitch), y(rows * (n + 1), T(7));
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(static_cast<int>(i * 37 % 251) - 120);
        fold({.x = x.data(),
              .x_pitch = pitch,
              .shift = shift,
              .count = count,
              .stride = stride,
              .y = y.data(),
              .y_pitch = n + 1,
              .n = n,
              .rows = rows});
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < n; ++i) {
            T wanted = x[r * pitch + i * stride];
            for (int64_t k = 1; k < count; ++k) wanted = op(wanted, x[r * pitch + i * stride + k * shift]);
            ASSERT_EQ(y[r * (n + 1) + i], wanted) << "element " << i << " of " << n << ", stride " << stride;
          }
          ASSERT_EQ(y[r * (n + 1) + n], T(7));
        }
      }
}

TEST_P(Pool, FoldsOfEveryTypeAndStride) {
  const PoolTable& table = pool_table_of(GetParam());
  const auto larger = [](auto a, auto b) { return a > b ? a : b; };
  expect_folds<float>(table.maximum_f32, larger);
  expect_folds<uint8_t>(table.maximum_u8, larger);
  expect_folds<int8_t>(table.maximum_i8, larger);
  expect_folds<float>(table.sum_f32, [](float a, float b) { return a + b; });
}

// Planes of rows that are shorter and longer than a vector, from both ends of an image and from between.
TEST_P(Pool, PlanesFoldDownAndAlong) {
  const PoolTable& table = pool_table_of(GetParam());
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  for (bool maximum : {true, false})
    for (bool nan : {false, true})
      for (int64_t width : {1, 2, 3, 4, 5, 7, 8, 9, 14, 15, 16, 17, 20, 33, 50})
        for (auto [height, kernel_rows, pad_top, count, shift, pad, row_stride, column_stride] :
             {std::array<int64_t, 8>{7, 3, 1, 3, 1, 1, 1, 1},
              {5, 5, 4, 4, 1, 3, 1, 1},
              {6, 1, 0, 5, 2, 8, 1, 1},
              {1, 4, 2, 1, 1, 0, 1, 1},
              {7, 3, 1, 3, 1, 1, 2, 2},
              {7, 2, 0, 2, 1, 0, 2, 2},
              {7, 2, 1, 3, 2, 4, 3, 1},
              {9, 1, 0, 5, 3, 7, 1, 2},
              {5, 4, 2, 4, 1, 3, 2, 5}}) {
          const int64_t planes = height == 7 ? 3 : 1;
          const int64_t across = width + 2 * pad - (count - 1) * shift - 1;
          const int64_t out_width = across / column_stride + 1,
                        out_height = (height + 2 * pad_top - kernel_rows) / row_stride + 1;
          const bool strided = row_stride != 1 || column_stride != 1;
          bool empty = false;  // some window has no element
          for (int64_t column = 0; column < out_width; ++column) {
            bool any = false;
            for (int64_t k = 0; k < count; ++k) {
              const int64_t at = column * column_stride - pad + k * shift;
              any |= at >= 0 && at < width;
            }
            empty |= !any;
          }
          if (across < 0 || empty || (strided && width > table.short_row - (maximum ? 0 : 1))) continue;
          std::vector<float> x(planes * height * width), columns(out_width + kPoolSlack, 1), by_row(out_height, 1);
          for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 251) - 200);
          if (nan) x[x.size() / 2] = NAN;
          for (int64_t i = 0; i < out_width; ++i) columns[i] = static_cast<float>(i % 3 + 1);
          for (int64_t i = 0; i < out_height; ++i) by_row[i] = static_cast<float>(i + 1);
          const int64_t begin = planes == 1 ? out_height / 3 : 0,
                        end = planes == 1 ? (out_height * 2 + 2) / 3 : out_height;
          const int64_t pitch = width + 2 * pad + 3, n = planes * (end - begin) * out_width;
          std::vector<float> rows((end - begin) * pitch + kPoolSlack, maximum ? kLowest : 0.0f), y(n + 40, 7.0f);
          const bool made = (maximum ? table.maximum_plane : table.average_plane)({.x = x.data(),
                                                                                   .planes = planes,
                                                                                   .height = height,
                                                                                   .width = width,
                                                                                   .kernel_rows = kernel_rows,
                                                                                   .pad_top = pad_top,
                                                                                   .count = count,
                                                                                   .shift = shift,
                                                                                   .row_stride = row_stride,
                                                                                   .column_stride = column_stride,
                                                                                   .rows = rows.data(),
                                                                                   .pitch = pitch,
                                                                                   .pad = pad,
                                                                                   .y = y.data(),
                                                                                   .out_width = out_width,
                                                                                   .begin = begin,
                                                                                   .end = end,
                                                                                   .columns = columns.data(),
                                                                                   .by_row = by_row.data() + begin});
          EXPECT_TRUE(made || !strided || (maximum && nan));
          if (!made) std::fill_n(y.begin(), n, 7.0f);
          for (int64_t i = 0; i < n && made; ++i) {
            const int64_t plane = i / out_width / (end - begin), column = i % out_width;
            const int64_t row = begin + i / out_width % (end - begin);
            float wanted = maximum ? kLowest : 0.0f;
            const int64_t top = row * row_stride - pad_top;
            for (int64_t r = std::max<int64_t>(0, top); r < std::min(height, top + kernel_rows); ++r)
              for (int64_t k = 0; k < count; ++k) {
                const int64_t at = column * column_stride - pad + k * shift;
                if (at < 0 || at >= width) continue;
                const float value = x[(plane * height + r) * width + at];
                wanted = !maximum ? wanted + value : std::isnan(wanted) || value <= wanted ? wanted : value;
              }
            if (!maximum) wanted /= columns[column] * by_row[row];
            ASSERT_TRUE(y[i] == wanted || (std::isnan(y[i]) && std::isnan(wanted)))
                << "element " << i << " is " << y[i] << ", not " << wanted << ", of rows of " << width << " to "
                << out_width;
          }
          for (int64_t i = n; i < n + 40; ++i) ASSERT_EQ(y[i], 7.0f) << "behind the last of rows of " << width;
        }
}

TEST_P(Pool, AMaximumKeepsANaN) {
  for (int64_t stride : {1, 2, 3})
    for (int64_t at : {0, 1, 2, 5, 38}) {
      std::vector<float> x(39 * stride + 4, 1.0f), y(40);
      x[at] = NAN;
      pool_table_of(GetParam())
          .maximum_f32({.x = x.data(), .shift = 1, .count = 3, .stride = stride, .y = y.data(), .n = 40});
      for (int64_t i = 0; i < 40; ++i) ASSERT_EQ(std::isnan(y[i]), at >= i * stride && at < i * stride + 3) << i;
    }
}

TEST_P(Pool, TheFirstOfEqualOnesAndTheFirstNaNGiveThePlace) {
  for (int64_t stride : {1, 2, 3})
    for (int64_t n : {1, 15, 16, 40}) {
      // Nothing behind the last element is there to read.
      const std::vector<int32_t> rows = {3, 0, 4};  // out of order
      std::vector<float> x((n - 1) * stride + 5, 1.0f), y(n);
      std::vector<int32_t> at(n);
      x[4] = NAN, x[0] = 2;
      pool_table_of(GetParam()).maximum_at(x.data(), rows.data(), 3, stride, y.data(), at.data(), n);
      for (int64_t i = 0; i < n; ++i) {
        int64_t best = rows[0] + i * stride;
        for (int32_t row : rows) {
          const int64_t place = row + i * stride;
          if (x[place] > x[best] || (std::isnan(x[place]) && !std::isnan(x[best]))) best = place;
        }
        ASSERT_EQ(at[i], best) << i;
        ASSERT_EQ(std::isnan(y[i]), std::isnan(x[best]));
      }
    }
}

TEST_P(Pool, DividesByTheProductOfRowAndColumn) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int64_t n : {1, 3, 4, 7, 8, 15, 16, 19, 33}) {
    std::vector<float> y(3 * n + 1), columns(n, 3.0f);
    const std::vector<float> by_row = {1, 2, 3};
    columns[n - 1] = 2;
    for (int64_t i = 0; i <= 3 * n; ++i) y[i] = static_cast<float>(i * i) - 40;
    y[n] = -kInfinity;
    y[2 * n] = NAN;
    const std::vector<float> x = y;
    pool_table_of(GetParam()).divide(y.data(), columns.data(), by_row.data(), 3, n);
    for (int64_t i = 0; i < 3 * n; ++i) {
      if (i == 2 * n) continue;
      ASSERT_EQ(y[i], x[i] / (columns[i % n] * by_row[i / n])) << n;
    }
    EXPECT_TRUE(std::isnan(y[2 * n]));
    ASSERT_EQ(y[3 * n], x[3 * n]);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Pool, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
