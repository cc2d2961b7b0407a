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
};

struct WindowTable {
  void (*depthwise)(const WindowRun&);
  void (*maximum)(const WindowRun&);
  void (*average)(const WindowRun&);
};
const WindowTable& window_table();

}  // namespace tenon::cpu
