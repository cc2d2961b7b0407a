// The convolution tiles of every instruction set: each width, runs that make every size of tile, and all that a run may
// add, against sums in double.
#include "ep/cpu/simd/conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(ConvTable, conv_table)

namespace tenon::cpu {
namespace {

constexpr float kGuard = 12345.0f;

struct Problem {
  int width, pixels;
  int64_t stride, rows, cols, blocks, tail;
  bool plain, accumulates, before, after;
};

std::vector<float> random_floats(std::mt19937& random, int64_t count) {
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(count);
  for (float& v : values) v = value(random);
  return values;
}

void check(const ConvTable& table, const Problem& q, std::mt19937& random) {
  const int64_t step = q.plain ? 1 : 8, units = q.blocks + (q.tail > 0 ? 1 : 0), lanes = q.width * 8;
  const int64_t columns = (q.pixels - 1) * q.stride + q.cols;
  ConvRun run;
  run.x_pixel = q.stride * step;
  run.x_col = step;
  run.x_row = columns * step;
  run.x_block = run.x_row * q.rows;
  run.w_col = lanes * step;
  run.w_row = run.w_col * q.cols;
  run.w_block = run.w_row * q.rows;
  run.rows = q.rows;
  run.cols = q.cols;
  run.blocks = q.blocks;
  run.tail = q.tail;
  run.low = -1.5f;
  run.high = 2.0f;
  run.pixels = q.pixels;
  run.y_pixel = 8;
  run.y_block = q.pixels * 8 + 16;
  // After the inputs: a run fetches ahead, but must not use it.
  std::vector<float> x = random_floats(random, units * run.x_block);
  const auto w = random_floats(random, units * run.w_block), bias = random_floats(random, lanes);
  const auto before = random_floats(random, q.width * run.y_block);
  const auto& after = before;
  std::vector<float> y = random_floats(random, q.width * run.y_block);
  for (int j = 0; j < q.width; ++j) std::fill_n(y.begin() + j * run.y_block + q.pixels * 8, 16, kGuard);
  const std::vector<float> first = y;
  // The filling of the last block of inputs is not part of the sum.
  if (q.tail > 0)
    for (int64_t i = q.blocks * run.x_block; i < units * run.x_block; ++i)
      if (i % 8 >= q.tail) x[i] = std::numeric_limits<float>::quiet_NaN();
  run.x = x.data();
  run.w = w.data();
  run.ahead = w.data();
  run.ahead_pixel = lanes + 3;
  run.bias = q.accumulates ? nullptr : bias.data();
  run.residual_before = q.before ? before.data() : nullptr;
  run.residual_after = q.after ? after.data() : nullptr;
  run.y = y.data();
  (q.plain ? table.run_plain : table.run)[q.width - 1](run);

  for (int64_t j = 0; j < q.width; ++j) {
    for (int64_t p = 0; p < run.y_block / 8; ++p) {
      for (int64_t lane = 0; lane < 8; ++lane) {
        const int64_t at = j * run.y_block + p * 8 + lane;
        if (p >= q.pixels) {
          ASSERT_EQ(y[at], kGuard) << "behind the pixels of block " << j;
          continue;
        }
        double sum = q.accumulates ? first[at] : bias[j * 8 + lane];
        for (int64_t u = 0; u < units; ++u) {
          for (int64_t r = 0; r < q.rows; ++r) {
            for (int64_t c = 0; c < q.cols; ++c) {
              const float* from = x.data() + u * run.x_block + r * run.x_row + c * run.x_col + p * run.x_pixel;
              const float* weight = w.data() + u * run.w_block + r * run.w_row + c * run.w_col + j * 8 + lane;
              for (int64_t k = 0; k < (q.plain ? 1 : u < q.blocks ? 8 : q.tail); ++k)
                sum += static_cast<double>(from[k]) * weight[k * lanes];
            }
          }
        }
        if (q.before) sum += before[at];
        sum = std::clamp(sum, -1.5, 2.0);
        if (q.after) sum += after[at];
        ASSERT_NEAR(y[at], sum, 2e-5) << "pixel " << p << " of block " << j << ", lane " << lane;
      }
    }
  }
}

class ConvTiles : public testing::TestWithParam<Isa> {
 protected:
  const ConvTable& table_ = conv_table_of(GetParam());
  std::mt19937 random_{11};

  void check_all(Problem q) {
    for (q.width = 1; q.width <= table_.widths; ++q.width) {
      for (q.pixels = 1; q.pixels <= 31; ++q.pixels) {
        SCOPED_TRACE(testing::Message() << "width " << q.width << ", pixels " << q.pixels);
        ASSERT_NO_FATAL_FAILURE(check(table_, q, random_));
      }
    }
  }
};

TEST_P(ConvTiles, OnePixelWindows) {
  check_all({.stride = 1, .rows = 1, .cols = 1, .blocks = 2});
  check_all({.stride = 1, .rows = 1, .cols = 1, .blocks = 1, .tail = 3});
}

TEST_P(ConvTiles, Windows) { check_all({.stride = 1, .rows = 2, .cols = 3, .blocks = 1, .tail = 5}); }

TEST_P(ConvTiles, Strides) { check_all({.stride = 2, .rows = 3, .cols = 2, .blocks = 1, .tail = 1}); }

TEST_P(ConvTiles, PlainInputs) { check_all({.stride = 2, .rows = 2, .cols = 3, .blocks = 3, .plain = true}); }

TEST_P(ConvTiles, Additions) {
  check_all({.stride = 1, .rows = 1, .cols = 1, .blocks = 1, .before = true});
  check_all({.stride = 1, .rows = 1, .cols = 1, .blocks = 1, .after = true});
  check_all({.stride = 1, .rows = 1, .cols = 1, .blocks = 1, .accumulates = true, .after = true});
}

TEST_P(ConvTiles, KeepNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int width = 1; width <= table_.widths; ++width) {
    const std::vector<float> x(8 * 20, 1.0f), w(width * 64, 1.0f), bias(width * 8, nan);
    std::vector<float> y(width * 160, 0.0f);
    ConvRun run;
    run.x = x.data();
    run.w = w.data();
    run.w_block = width * 64;
    run.blocks = 1;
    run.bias = bias.data();
    run.high = 1;
    run.y = y.data();
    run.y_block = 160;
    run.pixels = 20;
    table_.run[width - 1](run);
    for (const float value : y) ASSERT_TRUE(std::isnan(value));
  }
}

// Every number of outputs at once; neighbours from one to more than two tiles, and pixels that are none. The last block
// of inputs holds NaNs behind its channels.
TEST_P(ConvTiles, FewOutputs) {
  constexpr int64_t kRows = 2, kCols = 3, kBlocks = 2, kTail = 5, kColumns = 45;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (int outputs = 1; outputs <= table_.few; ++outputs) {
    for (int64_t pixels = 1; pixels <= 40; ++pixels) {
      for (int64_t y_pixel : {1, 2}) {
        ConvRun run;
        run.x_col = 8;
        run.x_row = kColumns * 8;
        run.x_block = kRows * run.x_row;
        run.w_col = outputs * 8;
        run.w_row = kCols * run.w_col;
        run.w_block = kRows * run.w_row;
        run.rows = kRows;
        run.cols = kCols;
        run.blocks = kBlocks - 1;
        run.tail = kTail;
        run.low = -1.5f;
        run.high = 2.0f;
        run.pixels = pixels;
        run.y_pixel = y_pixel;
        run.y_block = pixels * y_pixel + 3;
        std::vector<float> x = random_floats(random_, kBlocks * run.x_block);
        for (int64_t i = run.x_block; i < kBlocks * run.x_block; ++i)
          if (i % 8 >= kTail) x[i] = kNaN;
        const auto w = random_floats(random_, kBlocks * run.w_block), bias = random_floats(random_, outputs);
        std::vector<float> y(outputs * run.y_block, kGuard);
        run.x = x.data();
        run.w = w.data();
        run.bias = bias.data();
        run.y = y.data();
        table_.run_few[outputs - 1](run);
        for (int64_t at = 0; at < std::ssize(y); ++at) {
          const int64_t o = at / run.y_block, place = at % run.y_block;
          if (place % y_pixel != 0 || place / y_pixel >= pixels) {
            ASSERT_EQ(y[at], kGuard) << "beside the pixels of output " << o;
            continue;
          }
          double sum = bias[o];
          for (int64_t b = 0; b < kBlocks; ++b)
            for (int64_t r = 0; r < kRows; ++r)
              for (int64_t c = 0; c < kCols; ++c)
                for (int64_t k = 0; k < (b + 1 < kBlocks ? 8 : kTail); ++k)
                  sum += static_cast<double>(x[b * run.x_block + r * run.x_row + (place / y_pixel + c) * 8 + k]) *
                         w[b * run.w_block + r * run.w_row + c * run.w_col + o * 8 + k];
          ASSERT_NEAR(y[at], std::clamp(sum, -1.5, 2.0), 2e-5) << "pixel " << place << " of output " << o;
        }
      }
    }
  }
}

// From plain channels; what lies behind the last tap of a row is read and does not count.
TEST_P(ConvTiles, FewOutputsOfPlainInputs) {
  constexpr int64_t kRows = 2, kCols = 3, kGap = 2, kChannels = 2;
  for (int outputs = 1; outputs <= kMostFewOutputs; ++outputs) {
    for (int64_t pixels = 1; pixels <= 150; ++pixels) {
      ConvRun run;
      run.x_col = kGap;
      run.x_row = pixels + kCols * kGap;
      run.x_block = kRows * run.x_row;
      run.rows = kRows;
      run.cols = kCols;
      run.blocks = kChannels;
      run.low = -1.5f;
      run.high = 2.0f;
      run.pixels = pixels;
      run.y_block = pixels + 3;
      std::vector<float> x = random_floats(random_, kChannels * run.x_block);
      x.resize(x.size() + kFewPlainBeyond, std::numeric_limits<float>::quiet_NaN());
      const auto w = random_floats(random_, kChannels * kRows * kCols * outputs),
                 bias = random_floats(random_, outputs);
      std::vector<float> y(outputs * run.y_block, kGuard);
      run.x = x.data();
      run.w = w.data();
      run.bias = bias.data();
      run.y = y.data();
      table_.run_few_plain[outputs - 1](run);
      for (int64_t at = 0; at < std::ssize(y); ++at) {
        const int64_t o = at / run.y_block, p = at % run.y_block;
        if (p >= pixels) {
          ASSERT_EQ(y[at], kGuard) << "behind the pixels of output " << o;
          continue;
        }
        double sum = bias[o];
        for (int64_t b = 0; b < kChannels; ++b)
          for (int64_t r = 0; r < kRows; ++r)
            for (int64_t c = 0; c < kCols; ++c)
              sum += static_cast<double>(x[b * run.x_block + r * run.x_row + c * kGap + p]) *
                     w[((b * kRows + r) * kCols + c) * outputs + o];
        ASSERT_NEAR(y[at], std::clamp(sum, -1.5, 2.0), 2e-5)
            << "pixel " << p << " of output " << o << " of " << outputs;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, ConvTiles, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
