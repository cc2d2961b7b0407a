// Sums and products of two tensors of bytes with a scale and a zero point each. One task of one thread; the caller
// splits.
#pragma once

#include "ep/cpu/simd/quantize.h"

namespace tenon::cpu {

struct ByteBinary {
  ByteStep a, b, y;
};

struct ByteBinaryTable {
  // Strides are 0 or 1.
  void (*add)(const uint8_t* a, int64_t a_stride, const uint8_t* b, int64_t b_stride, const ByteBinary& steps,
              int64_t count, uint8_t* y);
  void (*multiply)(const uint8_t* a, int64_t a_stride, const uint8_t* b, int64_t b_stride, const ByteBinary& steps,
                   int64_t count, uint8_t* y);
};

const ByteBinaryTable& byte_binary_table();

}  // namespace tenon::cpu
