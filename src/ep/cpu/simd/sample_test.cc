#include "ep/cpu/simd/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ep/cpu/ops/sample/grid.h"
#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(SampleTable, sample_table)

namespace tenon::cpu {
namespace {

class Sample : public testing::TestWithParam<Isa> {};

// Also positions far out and NaN.
TEST_P(Sample, LinearTapsAreThoseOfTheFormula) {
  constexpr int64_t kHeight = 5, kWidth = 7;
  using Desc = GridSampleDesc;
  for (int64_t count : {1, 15, 16, 17, 40})
    for (bool align_corners : {false, true})
      for (bool border : {false, true}) {
        std::vector<float> grid(2 * count);
        for (size_t i = 0; i < grid.size(); ++i) grid[i] = static_cast<float>(i * 37 % 101) * 0.025f - 1.25f;
        grid[0] = NAN, grid[1] = 1e30f;
        if (count > 15) grid[20] = -INFINITY, grid[29] = -1e30f, grid[28] = INFINITY;
        constexpr int64_t kRoom = 48;
        std::vector<int32_t> offset(4 * kRoom);
        std::vector<float> weight(4 * kRoom);
        int32_t* const offsets[] = {&offset[0], &offset[kRoom], &offset[2 * kRoom], &offset[3 * kRoom]};
        float* const weights[] = {&weight[0], &weight[kRoom], &weight[2 * kRoom], &weight[3 * kRoom]};
        sample_table_of(GetParam())
            .linear_taps({.positions = grid.data(),
                          .count = count,
                          .height = kHeight,
                          .width = kWidth,
                          .align_corners = align_corners,
                          .border = border},
                         offsets, weights);
        const Desc desc{.mode = Desc::Mode::kLinear,
                        .padding = border ? Desc::Padding::kBorder : Desc::Padding::kZeros,
                        .align_corners = align_corners};
        for (int64_t i = 0; i < count; ++i) {
          const GridTaps<float> rows = taps_at(desc, grid[2 * i + 1], kHeight);
          const GridTaps<float> columns = taps_at(desc, grid[2 * i], kWidth);
          // An element of a border may stand with other parts of the same whole.
          float want[kHeight * kWidth] = {}, got[kHeight * kWidth] = {};
          for (int k = 0; k < 4; ++k) {
            const int64_t row = rows.index[k / 2], column = columns.index[k % 2];
            if (row >= 0 && column >= 0) want[row * kWidth + column] += rows.weight[k / 2] * columns.weight[k % 2];
            ASSERT_LT(offsets[k][i], kHeight * kWidth);
            if (offsets[k][i] >= 0) got[offsets[k][i]] += weights[k][i];
          }
          for (int64_t e = 0; e < kHeight * kWidth; ++e)
            ASSERT_NEAR(got[e], want[e], 1e-5) << "position " << i << " of " << count << ", element " << e;
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Isas, Sample, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
