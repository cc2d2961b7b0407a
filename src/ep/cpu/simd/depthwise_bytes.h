// Depthwise convolutions of bytes: one channel's outputs at neighbouring columns. One task of one thread.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// Outputs are read and made in steps of so many columns: x and y have room for whole steps.
inline constexpr int64_t kDepthwiseStep = 32;

// y[j] = bytes of clamp(scale * (term + sum over t of weights[t] * x[offsets[t] + j]) + bias, low, high), rounded to
// even, plus `zero`, between 0 and 255. Bytes of x and y are those numbers after the exclusive or with a flip, which is
// 0x80 for int8. The number of taps is even: the last weight may be 0.
// If `in_pairs`, outputs read every second byte and taps are pairs of neighbours: the sum is that of weights[t] *
// x[offsets[t / 2] + t % 2 + 2 * j].
struct DepthwiseBytesTask {
  const uint8_t* x = nullptr;
  bool in_pairs = false;
  uint8_t x_flip = 0;
  const int64_t* offsets = nullptr;
  const int16_t* weights = nullptr;  // of at most 9 bits
  int64_t taps = 0;
  int32_t term = 0;
  float scale = 1, bias = 0;
  float low = -1024, high = 1024;  // not beyond these
  int32_t zero = 0;
  uint8_t y_flip = 0;
  int64_t count = 0;
  uint8_t* y = nullptr;
};

struct DepthwiseBytesTable {
  void (*run)(const DepthwiseBytesTask& task);
};

const DepthwiseBytesTable& depthwise_bytes_table();

}  // namespace tenon::cpu
