// Exact convolutions of bytes over blocks of eight channels: sums in int32, which become bytes or floats of blocks of
// eight channels. Pixels are words of A, weights are panels of B of Int8Table. One task of one thread; the caller
// splits.
#pragma once

#include <cstdint>

#include "ep/cpu/simd/int8.h"

namespace tenon::cpu {

// The copy of X that pixels are read from: elements of ConvBytesTable::element_bytes, in units of a few channels that
// lie side by side. An int8 counts as it is plus 128 there (see Int8Task). Where elements are bytes, uint8 blocks
// without padding are such a copy as they lie.
//
// sum[p,j] = terms[j] + sum over words s and their elements e of x[place(p) + offsets[s] + e] * B[s * word + e, j],
// where p counts outputs, and place(p) = slice(p) * x_slice + row(p) * x_row + column(p) * x_column. The sums wrap as
// int32 does. Then v = sum * scales[j] + bias[j], and kFloat stores v, limited to [low, high]; bytes are round(v) +
// zero, limited to [low, high], of an int8 plus 128.
struct ConvBytesRun {
  const void* x = nullptr;
  int64_t x_slice = 0, x_row = 0, x_column = 0;  // elements
  int64_t rows = 1, columns = 1;                 // of a slice of Y
  int64_t first = 0, count = 0;                  // pixels of Y

  const int64_t* offsets = nullptr;  // of each word, in elements
  int64_t words = 0;

  const uint8_t* w = nullptr;  // the first panel
  int64_t panel_stride = 0;    // bytes
  int64_t outputs = 0;         // channels that are stored: all of the panels' or whole blocks of 8 of them
  // One for each of 16 * panels columns.
  const int32_t* terms = nullptr;
  const float* scales = nullptr;
  const float* bias = nullptr;

  Int8Output output = Int8Output::kUint8;  // not kInt32
  int32_t zero = 0;                        // of an int8 plus 128
  float low = 0, high = 255;
  void* y = nullptr;    // of pixel 0 of the first block
  int64_t y_block = 0;  // elements
};

// How taps of a row of a depthwise window are multiplied together.
struct DepthwiseTaps {
  int count = 0;                               // of a group, at most four; 0: not at all
  alignas(64) unsigned char places[128] = {};  // the table's own
};

// Depthwise over one block of eight channels whose taps are bytes that count as A's. Taps of a row of the window are
// multiplied in groups.
//
// sum[r,p,c] = terms[c] + sum over groups g and taps t of x[r * x_row + 8 * (p * stride + t * dilation) + offsets[g] +
// c] * weights[g][c][t]; v and the bytes stored are those of ConvBytesRun. Up to 64 bytes behind the last tap are read.
struct DepthwiseBlockRun {
  const uint8_t* x = nullptr;
  int64_t x_row = 0;  // bytes
  int64_t stride = 1;
  const DepthwiseTaps* taps = nullptr;  // of this stride
  const int64_t* offsets = nullptr;     // bytes
  const int8_t* weights = nullptr;      // [groups][8][4], 0 for taps that a group does not have
  int64_t groups = 0;                   // at most kMostTapGroups
  // One for each of the eight channels.
  const int32_t* terms = nullptr;
  const float* scales = nullptr;
  const float* bias = nullptr;
  bool is_signed = false;  // Y
  int32_t zero = 0;        // of an int8 plus 128, as the bounds
  float low = 0, high = 255;
  int64_t rows = 0, columns = 0;
  uint8_t* y = nullptr;  // rows follow each other
};
inline constexpr int64_t kMostTapGroups = 32;

struct ConvBytesTable {
  const char* name;  // that of the Int8Table whose panels it takes
  int64_t element_bytes;
  int64_t word;  // elements that are multiplied at once
  void (*run)(const ConvBytesRun& run);
  void (*run_depthwise)(const DepthwiseBlockRun& run);
  void (*set_taps)(int64_t stride, int64_t dilation, DepthwiseTaps& taps);
  // to[i] = from[i] ^ flip
  void (*flip)(const uint8_t* from, uint8_t flip, int64_t count, uint8_t* to);
  // `count` bytes, an even number, become elements, with their bits flipped by `flip`.
  void (*stage)(const uint8_t* from, uint8_t flip, int64_t count, void* to);
  // Up to four planes of channels become units of four of `count` pixels. Channels that are missing are zeros.
  void (*stage_planes)(const uint8_t* from, int64_t plane, int channels, uint8_t flip, int64_t count, void* to);
  // `count` elements from `value`.
  void (*fill)(uint8_t value, int64_t count, void* to);
};

const ConvBytesTable& conv_bytes_table();

}  // namespace tenon::cpu
