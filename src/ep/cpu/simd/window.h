// Windows on one block of 8 channels: depthwise convolution and pooling. As in conv.h, the callers pass runs of pixels
// whose taps all exist.
#pragma once

#include <cstdint>

namespace tenon::cpu {

struct WindowRun {
  const float* x = nullptr;  // the first tap of the first pixel
  int64_t x_pixel = 8, x_col = 0, x_row = 0;
  int64_t rows = 1, cols = 1;
  float* y = nullptr;
  int64_t y_pixel = 8;
  int64_t pixels = 0;
  // Depthwise only: 8 floats a tap, w_row floats from one row of taps to the next.
  const float* w = nullptr;
  int64_t w_row = 0;
  const float* bias = nullptr;
  // Laid out as y; null: none. The first is added with the bias, the second after the clamp to [low, high].
  const float* residual_before = nullptr;
  const float* residual_after = nullptr;
  float low = 0, high = 0;
  float scale = 1;  // average only: the sum is multiplied by it
  // depthwise_lines() only: rows of `pixels` outputs, each x_line and y_line floats behind the one before.
  int64_t lines = 1, x_line = 0, y_line = 0;
};

// depthwise_lines() takes the taps of a row by sevens, fives and threes: the least of these that holds all, after
// sevens.
inline constexpr int64_t taken_columns(int64_t columns) {
  const int64_t sevens = columns / 7 * 7, left = columns - sevens;
  return sevens + (left == 0 ? 0 : left <= 3 ? 3 : left <= 5 ? 5 : 7);
}

struct WindowTable {
  void (*depthwise)(const WindowRun&);
  // Pixels and taps are neighbours (x_pixel, x_col and y_pixel are 8). Rows of weights have taken_columns(cols) taps,
  // of which those behind the last are 0, and x as many pixels behind each line's last one, and one more where their
  // number is odd, which may hold any finite numbers. Some outputs are stored twice: no residual may lie in y.
  void (*depthwise_lines)(const WindowRun&);
  void (*maximum)(const WindowRun&);
  void (*average)(const WindowRun&);
};
const WindowTable& window_table();

}  // namespace tenon::cpu
