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

// Positions of a GridSample in an image of two axes, whose coordinates in [-1, 1] stand in pairs, the column's first.
struct GridPositions {
  const float* positions = nullptr;
  int64_t count = 0;
  int32_t height = 1, width = 1;
  bool align_corners = false;
  bool border = false;  // elements beyond a border are those at it; else there are none
};

struct SampleTable {
  // The four taps of each position and their weights, rows first. Both have room for a multiple of 16.
  void (*linear_taps)(const GridPositions& grid, int32_t* const* offset, float* const* weight);
  // y[i] = sum over k of weight[k][i] * x[offset[k][i]]
  void (*weighted)(const float* x, const SampleTaps& taps, float* y, int64_t count);
};

const SampleTable& sample_table();

}  // namespace tenon::cpu
