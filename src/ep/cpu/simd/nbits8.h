// Products with weights of 4 bits, and A rounded to int8 with a scale for each block along K: dot products of four
// bytes. One task of one thread; the caller splits. Only for instruction sets with VNNI.
//
// B[k,n] is packed as in nbits.h, but for the order of the elements of a block: 64 bytes hold those of 8 neighbours
// along K. Byte 4 * column + i has element i in its lower bits, element 4 + i in its upper ones.
#pragma once

#include "ep/cpu/simd/nbits.h"

namespace tenon::cpu {

struct NBits8Task {
  NBitsFormat format;  // 4 bits, blocks of a multiple of 8
  const int8_t* a = nullptr;
  int64_t lda = 0;
  const float* scales = nullptr;  // of A, for each row and block
  const float* sums = nullptr;    // of A's int8 numbers, for each row and block
  const uint8_t* b = nullptr;     // the first panel
  const float* bias = nullptr;    // [n] or null
  float* c = nullptr;
  int64_t ldc = 0;
  int64_t m = 0, n = 0;
};

// Null functions where the instruction set has no VNNI.
struct NBits8Table {
  void (*run)(const NBits8Task& task);
  // One row of A: scale = the largest magnitude of a block / 127.
  void (*quantize)(const float* a, int64_t block_size, int64_t blocks, int8_t* bytes, float* scales, float* sums);
};

const NBits8Table& nbits8_table();

}  // namespace tenon::cpu
