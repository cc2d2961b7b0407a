// Weighted sums of Resize on f32, for one thread.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// Elements [0, pixels) of a row, each the sum of `width` source elements of `inner` floats. Tables are by tap first:
// tap k of pixel j is at k * pixels + j.
struct ResizeRow {
  const int32_t* index = nullptr;  // in floats
  const float* weight = nullptr;
  int64_t width = 0;
  int64_t pixels = 0;
  int64_t inner = 1;
};

struct ResizeTable {
  // y[i] = sum over k of weights[k] * rows[k][i], i < n.
  void (*mix_rows)(const float* const* rows, const float* weights, int64_t count, float* y, int64_t n);
  // x holds the whole source row; y the pixels one after the other.
  void (*mix_pixels)(const ResizeRow& row, const float* x, float* y);
};

const ResizeTable& resize_table();

}  // namespace tenon::cpu
