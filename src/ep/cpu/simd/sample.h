// Weighted elements at computed positions: the loop of GridSample and DeformConv.
#pragma once

#include <cstdint>

namespace tenon::cpu {

inline constexpr int kMostSampleTaps = 16;

// The elements that `count` results read: tap k of result i is element offset[k][i], or none where that is below 0.
struct SampleTaps {
  int taps = 0;
  const int32_t* offset[kMostSampleTaps] = {};
  const float* weight[kMostSampleTaps] = {};
};

struct SampleTable {
  // y[i] = sum over k of weight[k][i] * x[offset[k][i]]
  void (*weighted)(const float* x, const SampleTaps& taps, float* y, int64_t count);
};

const SampleTable& sample_table();

}  // namespace tenon::cpu
