// Winograd's transforms of maps, for tiles of both sizes in every instruction set, with products in double between
// them: a convolution against sums in double.
#include "ep/cpu/simd/winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(WinogradTable, winograd_table)

namespace tenon::cpu {
namespace {

constexpr float kGuard = 12345.0f;

// Eight channels to `outputs`, 1 to 8; the others of the block have zero weights.
struct Problem {
  int64_t side, height, width, pad_top, pad_left, pad_end;
  int outputs;
  bool residual, after;
};

std::vector<float> random_floats(std::mt19937& random, int64_t count) {
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(count);
  for (float& v : values) v = value(random);
  return values;
}

class WinogradMaps : public testing::TestWithParam<Isa> {
 protected:
  const WinogradTable& table_ = winograd_table_of(GetParam());
  std::mt19937 random_{5};

  void check(const Problem& q) {
    const int64_t positions = (q.side + 2) * (q.side + 2);
    const int64_t out_h = q.height + q.pad_top + q.pad_end - 2, out_w = q.width + q.pad_left + q.pad_end - 2;
    const int64_t tiles_x = (out_w + q.side - 1) / q.side, tiles = (out_h + q.side - 1) / q.side * tiles_x;
    const auto x = random_floats(random_, q.height * q.width * 8), w = random_floats(random_, q.outputs * 8 * 9);
    const auto bias = random_floats(random_, 8), residual = random_floats(random_, out_h * out_w * 8);

    std::vector<float> u(positions * 64), v(positions * tiles * 8), m(v.size());
    for (int c = 0; c < 8; ++c) table_.weights(w.data() + c * 9, 72, q.side, q.outputs, u.data() + c * 8, 64);
    WinogradInput in;
    in.x = x.data();
    in.height = q.height;
    in.width = q.width;
    in.pad_top = q.pad_top;
    in.pad_left = q.pad_left;
    in.tiles_x = tiles_x;
    in.tile_outputs = q.side;
    in.v_step = tiles * 8;
    // In two parts, which a row of tiles may end in.
    const int64_t half = (tiles + 1) / 2;
    for (int64_t first = 0; first < tiles; first += half) {
      in.first = first;
      in.count = std::min(half, tiles - first);
      in.v = v.data() + first * 8;
      table_.input(in);
    }
    for (int64_t p = 0; p < positions; ++p) {
      for (int64_t t = 0; t < tiles; ++t) {
        for (int64_t o = 0; o < 8; ++o) {
          double sum = 0;
          for (int64_t c = 0; c < 8; ++c)
            sum += static_cast<double>(v[(p * tiles + t) * 8 + c]) * u[p * 64 + c * 8 + o];
          m[(p * tiles + t) * 8 + o] = static_cast<float>(sum);
        }
      }
    }
    std::vector<float> y(out_h * out_w * 8 + 8, kGuard);
    WinogradOutput out;
    out.m_step = tiles * 8;
    out.bias = bias.data();
    out.residual = q.residual ? residual.data() : nullptr;
    out.residual_after = q.after;
    out.low = -1.5f;
    out.high = 2.0f;
    out.y = y.data();
    out.height = out_h;
    out.width = out_w;
    out.tiles_x = tiles_x;
    out.tile_outputs = q.side;
    for (int64_t first = 0; first < tiles; first += half) {
      out.first = first;
      out.count = std::min(half, tiles - first);
      out.m = m.data() + first * 8;
      table_.output(out);
    }

    for (int64_t i = 0; i < out_h * out_w * 8; ++i) {
      const int64_t row = i / 8 / out_w - q.pad_top, col = i / 8 % out_w - q.pad_left, o = i % 8;
      double sum = bias[o];
      for (int64_t k = 0; k < 9 && o < q.outputs; ++k) {
        const int64_t r = row + k / 3, c = col + k % 3;
        if (r < 0 || r >= q.height || c < 0 || c >= q.width) continue;
        for (int64_t channel = 0; channel < 8; ++channel)
          sum += static_cast<double>(x[(r * q.width + c) * 8 + channel]) * w[(o * 8 + channel) * 9 + k];
      }
      if (q.residual && !q.after) sum += residual[i];
      sum = std::clamp(sum, -1.5, 2.0);
      if (q.residual && q.after) sum += residual[i];
      ASSERT_NEAR(y[i], sum, 1e-4) << "row " << row + q.pad_top << ", column " << col + q.pad_left << ", lane " << o;
    }
    for (size_t i = y.size() - 8; i < y.size(); ++i) ASSERT_EQ(y[i], kGuard);
  }
};

TEST_P(WinogradMaps, EqualSumsOfTaps) {
  for (const int64_t side : {2, 4}) {
    for (const int64_t height : {1, 4, 7, 11}) {
      for (int64_t width = 1; width <= 19; ++width) {
        SCOPED_TRACE(testing::Message() << "side " << side << ", " << height << " x " << width);
        ASSERT_NO_FATAL_FAILURE(check({side, height, width, 1, 1, 1, 8, false, false}));
      }
    }
  }
}

TEST_P(WinogradMaps, TakePadsAndResiduals) {
  for (const int64_t side : {2, 4}) {
    ASSERT_NO_FATAL_FAILURE(check({side, 9, 14, 0, 2, 3, 5, true, false}));
    ASSERT_NO_FATAL_FAILURE(check({side, 6, 17, 2, 0, 0, 1, true, true}));
    ASSERT_NO_FATAL_FAILURE(check({side, 13, 10, 0, 0, 0, 8, true, true}));
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, WinogradMaps, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
