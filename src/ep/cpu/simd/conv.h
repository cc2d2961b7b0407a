// Dense convolution micro-kernels on the blocked layout [C/8][H][W][8]. The callers (ops/conv) cut an output
// into runs of pixels whose taps all exist, so that these know nothing of padding.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// A run of output pixels in one or more blocks of 8 output channels. All strides count floats.
struct ConvRun {
  const float* x = nullptr;  // the first tap of the first pixel, first block of input channels
  int64_t x_pixel = 8;       // from the taps of one output pixel to those of the next
  int64_t x_col = 0, x_row = 0, x_block = 0;
  // Weights of the first tap, packed [block][row][col][8 input channels][width * 8 output channels].
  const float* w = nullptr;
  int64_t w_col = 0, w_row = 0, w_block = 0;
  // Memory that later runs read, `ahead_pixel` floats for each pixel: fetched evenly while this run computes, because
  // weights of a run with few pixels would otherwise take as long to arrive as their products.
  const float* ahead = nullptr;
  int64_t ahead_pixel = 0;
  int64_t rows = 1, cols = 1;   // taps
  int64_t blocks = 0;           // full blocks of 8 input channels
  int64_t tail = 0;             // 0..7 input channels in one more block
  int64_t block_channels = 8;   // set by the tables alone
  const float* bias = nullptr;  // null: add to what `y` holds
  // Laid out as y; null: none. The first is added with the bias, the second after the clamp.
  const float* residual_before = nullptr;
  const float* residual_after = nullptr;
  float low = 0, high = 0;  // the result is clamped to [low, high]
  float* y = nullptr;
  int64_t y_pixel = 8, y_block = 0;
  int64_t pixels = 0;
};

// The same with input in plain NCHW: taps are read one channel after the other. Weights are packed
// [channel][row][col][width * 8]; x_block and w_block step one channel, `blocks` counts channels, `tail` is 0.

// Few outputs: `y` is plain, y_block floats from one output to the next, weights are packed [block][row][col][output][8
// input channels], and `bias` has one number an output. No residuals, nothing fetched ahead. With plain input too,
// weights are [channel][row][col][output], `blocks` counts channels, pixels and y_pixel are 1 apart, and up to
// kFewPlainBeyond floats are read beyond each row's last tap.

inline constexpr int kMostConvWidth = 6;
inline constexpr int kMostFewOutputs = 3;
inline constexpr int64_t kFewPlainBeyond = 63;

struct ConvTable {
  int widths;            // a run computes 1 to `widths` blocks of output channels at once
  int64_t panel_bytes;   // of weights at most, for full speed
  int64_t far_products;  // vectors of eight multiplied while one of weights arrives from beyond L2
  void (*run[kMostConvWidth])(const ConvRun&);             // [width - 1]
  void (*run_plain[kMostConvWidth])(const ConvRun&);       // [width - 1]
  int few;                                                 // outputs at once, of few
  void (*run_few[kMostFewOutputs])(const ConvRun&);        // [outputs - 1]
  void (*run_few_plain[kMostFewOutputs])(const ConvRun&);  // [outputs - 1], of kMostFewOutputs
};
const ConvTable& conv_table();

}  // namespace tenon::cpu
