// Winograd convolution: the transforms around the products. On maps F(4x4, 3x3) and F(2x2, 3x3): a tile is 4x4 outputs
// made from 6x6 inputs, with 36 products, or 2x2 from 4x4 with 16. On lines F(9 - taps, taps) for 3 to 5 taps: 9 - taps
// outputs from 8 inputs, with 8 products.
#pragma once

#include <cstdint>

namespace tenon::cpu {

inline constexpr int kWinogradLinePositions = 8;

struct WinogradInput {
  const float* x = nullptr;  // one block of 8 channels, [height][width][8]
  int64_t height = 0, width = 0;
  int64_t pad_top = 0, pad_left = 0;
  int64_t tiles_x = 0;       // tiles in a row of tiles
  int64_t tile_outputs = 4;  // along each axis
  int64_t first = 0, count = 0;
  float* v = nullptr;  // tile t of position p goes to v + p * v_step + (t - first) * 8
  int64_t v_step = 0;
};

struct WinogradOutput {
  const float* m = nullptr;  // as v
  int64_t m_step = 0;
  const float* bias = nullptr;      // 8 floats
  const float* residual = nullptr;  // laid out as y; null: none
  float low = 0, high = 0;          // the result is clamped to [low, high]
  bool residual_after = false;      // added after the clamp, else before it
  float* y = nullptr;               // one block of 8 channels, [height][width][8]
  int64_t height = 0, width = 0;
  int64_t tiles_x = 0;
  int64_t tile_outputs = 4;
  int64_t first = 0, count = 0;
};

struct WinogradTable {
  void (*input)(const WinogradInput&);
  void (*output)(const WinogradOutput&);
  // One input channel and up to 8 output channels (`w` of the first, `w_out` floats between them): position p goes to
  // u + p * u_step; lanes without a channel become zero.
  void (*weights)(const float* w, int64_t w_out, int64_t tile_outputs, int channels, float* u, int64_t u_step);
  // The same for lines: height, pad_top and tiles_x are not used.
  void (*line_input)(const WinogradInput&);
  void (*line_output)(const WinogradOutput&);
  void (*line_weights)(const float* w, int64_t w_out, int taps, int channels, float* u, int64_t u_step);
};
const WinogradTable& winograd_table();

}  // namespace tenon::cpu
