// Loops of one thread between float32 and the floats of 16 bits, whose bits are in uint16_t, and moves of those.
#pragma once

#include <cstdint>

namespace tenon::cpu {

struct ConvertTable {
  // Exact.
  void (*float_from_float16)(const uint16_t* x, float* y, int64_t n);
  void (*float_from_bfloat16)(const uint16_t* x, float* y, int64_t n);
  // Round to nearest, ties to even; infinity past the largest number, and NaN stays NaN.
  void (*float16_from_float)(const float* x, uint16_t* y, int64_t n);
  void (*bfloat16_from_float)(const float* x, uint16_t* y, int64_t n);
  // dst[j * dst_stride + i] = src[i * src_stride + j] for i < rows, j < columns.
  void (*transpose16)(const uint16_t* src, int64_t src_stride, uint16_t* dst, int64_t dst_stride, int64_t rows,
                      int64_t columns);
};

const ConvertTable& convert_table();

}  // namespace tenon::cpu
