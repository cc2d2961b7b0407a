// Sums and products of two tensors of bytes with a scale and a zero point each. One task of one thread; the caller
// splits.
#pragma once

#include "ep/cpu/simd/quantize.h"

namespace tenon::cpu {

struct ByteBinary {
  ByteStep a, b, y;
};

// Strides are 0 or 1.
using ByteBinaryRun = void (*)(const uint8_t* a, int64_t a_stride, const uint8_t* b, int64_t b_stride,
                               const ByteBinary& steps, int64_t count, uint8_t* y);

struct ByteBinaryTable {
  // A result half way between two integers may be rounded to either.
  ByteBinaryRun add, multiply;
  // As DequantizeLinear, Add or Mul, and QuantizeLinear of float32 give it. The scale of y lies in 1e-18 to 1e18.
  ByteBinaryRun add_exactly, multiply_exactly;
};

const ByteBinaryTable& byte_binary_table();

}  // namespace tenon::cpu
