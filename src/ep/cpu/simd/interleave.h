// Pixels of three numbers between one row of pixels and a row for each number. One task of one thread.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// Elements of T, by their bits.
template <typename T>
struct Threes {
  // dst[c * dst_stride + i] = src[3 * i + c], c < 3, i < n.
  void (*apart)(const T* src, T* dst, int64_t dst_stride, int64_t n);
  // dst[3 * i + c] = src[c * src_stride + i].
  void (*together)(const T* src, int64_t src_stride, T* dst, int64_t n);
};

struct InterleaveTable {
  Threes<uint8_t> bytes;
  Threes<uint16_t> halves;
  Threes<uint32_t> words;
};

const InterleaveTable& interleave_table();

}  // namespace tenon::cpu
