// Pixels of two, three or four numbers between one row of pixels and a row for each number,
// matrices of bytes, blocks of 8 channels of bytes, and patterns. One task of one thread.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// Elements of T, by their bits, in pixels of `count` numbers.
template <typename T>
struct Pixels {
  // dst[c * dst_stride + i] = src[count * i + c], c < count, i < n.
  void (*apart)(const T* src, T* dst, int64_t dst_stride, int64_t n);
  // dst[count * i + c] = src[c * src_stride + i].
  void (*together)(const T* src, int64_t src_stride, T* dst, int64_t n);
};

inline constexpr int kLeastPixel = 2, kLargestPixel = 4, kPixelSizes = kLargestPixel - kLeastPixel + 1;

// By the numbers of a pixel, from kLeastPixel on.
struct InterleaveTable {
  Pixels<uint8_t> bytes[kPixelSizes];
  Pixels<uint16_t> halves[kPixelSizes];
  Pixels<uint32_t> words[kPixelSizes];
  // dst[j * dst_stride + i] = src[i * src_stride + j] for i < rows, j < columns.
  void (*transpose8)(const uint8_t* src, int64_t src_stride, uint8_t* dst, int64_t dst_stride, int64_t rows,
                     int64_t columns);
  // The same for `count` matrices of elements of 1, 2, 4, 8 or 16 bytes, one behind the other in src and in dst. False,
  // with nothing done, where they are too large for this, or too few.
  bool (*transpose_many)(int64_t element_bytes, const uint8_t* src, uint8_t* dst, int64_t rows, int64_t columns,
                         int64_t count);
  // y[i * 8 + c] = x[c * plane + i] for c < channels, 1 to 8 of them, and zero for the others; i < pixels.
  void (*to_blocks8)(const uint8_t* x, int64_t plane, int channels, uint8_t* y, int64_t pixels);
  // y[c * plane + i] = x[i * 8 + c] for c < channels.
  void (*from_blocks8)(const uint8_t* x, uint8_t* y, int64_t plane, int channels, int64_t pixels);
  // y[i] = x[i % bytes], i < count * bytes; 16 bytes at least.
  void (*repeat)(const uint8_t* x, int64_t bytes, uint8_t* y, int64_t count);
  // y[i] = pattern[i % 16], i < n.
  void (*fill)(const uint8_t* pattern, uint8_t* y, int64_t n);
};

const InterleaveTable& interleave_table();

}  // namespace tenon::cpu
