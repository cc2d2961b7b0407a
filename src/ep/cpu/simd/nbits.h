// Products with weights of 2, 4 or 8 bits that have a scale, and perhaps a zero point, for each block along K: they are
// widened in registers. One task of one thread; the caller splits.
//
// B[k,n] is packed in panels of 16 columns, a panel in blocks after each other. A block is 16 scales (float32), 16 zero
// points (uint8) where there are any, then the elements: 16 bytes hold those of 8 / bits neighbours along K, the first
// in the lowest bits. K is filled up to whole blocks.
#pragma once

#include <cstdint>

namespace tenon::cpu {

inline constexpr int64_t kNBitsPanel = 16;
// Rows from which on it is faster to widen B once and multiply floats.
inline constexpr int64_t kNBitsManyRows = 12;

struct NBitsFormat {
  int64_t bits = 4;         // 2, 4 or 8
  int64_t block_size = 32;  // a multiple of 8 / bits
  int64_t blocks = 1;
  bool zero_points = false;  // else each is 2^(bits - 1)

  int64_t element_bytes() const { return block_size * bits / 8 * kNBitsPanel; }  // of a block
  int64_t head_bytes() const { return kNBitsPanel * (zero_points ? 5 : 4); }
  int64_t block_bytes() const { return head_bytes() + element_bytes(); }
  int64_t panel_bytes() const { return blocks * block_bytes(); }
};

// C[m,n] = A * B + bias. A's rows are filled up to whole blocks with zeros.
struct NBitsTask {
  NBitsFormat format;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* sums = nullptr;  // of A's elements, for each row and block
  const uint8_t* b = nullptr;   // the first panel
  const float* bias = nullptr;  // [n] or null
  float* c = nullptr;
  int64_t ldc = 0;
  int64_t m = 0, n = 0;
};

struct NBitsTable {
  void (*run)(const NBitsTask& task);
  // Sums of each block of one row of A.
  void (*sum_blocks)(const float* a, int64_t block_size, int64_t blocks, float* sums);
  // Blocks [first, last) of one panel as floats, 16 for each k: a panel of simd/gemm.h.
  void (*widen)(const NBitsFormat& format, const uint8_t* panel, int64_t first, int64_t last, float* floats);
};

const NBitsTable& nbits_table();

}  // namespace tenon::cpu
