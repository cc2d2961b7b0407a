// Elementwise work, reductions and reorders on the blocked layout: runs of pixels of one block of 8 channels.
#pragma once

#include <cstdint>

#include "ops/activation.h"

namespace tenon::cpu {

enum class BinaryKind : uint8_t { kAdd, kSub, kMul, kDiv, kMin, kMax, kPRelu };

struct BlockedTable {
  // y = act(x) (+ residual), whatever the epilogue's residual_after says; `lanes` of each 8 are kept, the others become
  // zero. x may be y.
  void (*activate)(const Epilogue& epilogue, const float* x, const float* residual, float* y, int64_t pixels,
                   int lanes);
  // y = act(a op b); a_step and b_step are 8, or 0 to use the same 8 values for every pixel. y may be a or b.
  void (*binary)(BinaryKind kind, const Epilogue& epilogue, const float* a, int64_t a_step, const float* b,
                 int64_t b_step, float* y, int64_t pixels, int lanes);
  // Plain planes (`plane` floats apart, 1..8 `channels`) to one block and back.
  void (*to_blocked)(const float* x, int64_t plane, int channels, float* y, int64_t pixels);
  void (*to_plain)(const float* x, float* y, int64_t plane, int channels, int64_t pixels);
  // The same with the channels of a pixel beside each other, `stride` floats from one pixel to the next.
  void (*from_channels_last)(const float* x, int64_t stride, int channels, float* y, int64_t pixels);
  void (*to_channels_last)(const float* x, float* y, int64_t stride, int channels, int64_t pixels);
  // Sum and maximum of each of the 8 channels over the pixels.
  void (*sum)(const float* x, int64_t pixels, float* y);
  void (*maximum)(const float* x, int64_t pixels, float* y);
  // The sum of (x - mean)^2 likewise, with a mean for each channel.
  void (*squares)(const float* x, int64_t pixels, const float* mean, float* y);
  // y = (x - mean) * factor + offset, each of which has a number for each channel. y may be x.
  void (*standardise)(const float* x, int64_t pixels, const float* mean, const float* factor, const float* offset,
                      float* y);
};
const BlockedTable& blocked_table();

}  // namespace tenon::cpu
