// Sums and products of two tensors of bytes with a scale and a zero point each, and weighted sums of four bytes. One
// task of one thread; the caller splits.
#pragma once

#include "ep/cpu/simd/quantize.h"

namespace tenon::cpu {

struct ByteBinary {
  ByteStep a, b, y;
};

// Strides are 0 or 1.
using ByteBinaryRun = void (*)(const uint8_t* a, int64_t a_stride, const uint8_t* b, int64_t b_stride,
                               const ByteBinary& steps, int64_t count, uint8_t* y);

// y[i] = the sum, cut off, of top[left[i]], top[right[i]], bottom[left[i]] and bottom[right[i]], in this order, each of
// which is multiplied by the product of its weights. Places and weights are those of the first of each 8 elements, the
// others of which lie beside it.
struct ByteMix {
  const uint8_t *top = nullptr, *bottom = nullptr;
  float top_weight = 0, bottom_weight = 0;
  const int32_t *left = nullptr, *right = nullptr;
  const float *left_weight = nullptr, *right_weight = nullptr;
  uint8_t flip = 0;   // as in ByteStep
  int64_t count = 0;  // a multiple of 8
  uint8_t* y = nullptr;
};

struct ByteBinaryTable {
  // A result half way between two integers may be rounded to either.
  ByteBinaryRun add, multiply;
  // As DequantizeLinear, Add or Mul, and QuantizeLinear of float32 give it. The scale of y lies in 1e-18 to 1e18.
  ByteBinaryRun add_exactly, multiply_exactly;
  void (*mix)(const ByteMix& mix);
};

const ByteBinaryTable& byte_binary_table();

}  // namespace tenon::cpu
