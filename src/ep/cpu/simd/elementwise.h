// Elementwise loops of one thread: f32 operators, casts, and 2-D transposes of elements of 4 and 8 bytes.
#pragma once

#include <cstdint>

#include "ops/activation.h"

namespace tenon::cpu {

enum class Binary : uint8_t { kAdd, kSub, kMul, kDiv, kMax, kMin, kPRelu };
inline constexpr int kBinaryCount = static_cast<int>(Binary::kPRelu) + 1;

struct EltwiseTable {
  // By number of Unary. y may be x.
  void (*unary[kVectorFunctionCount])(const float* x, float* y, int64_t n, float alpha, float beta);
  // One operand may be one value (stride 0), the other has stride 1. y may be an operand with stride 1.
  void (*binary[kBinaryCount])(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* y, int64_t n);
  // dst[j * dst_stride + i] = src[i * src_stride + j] for i < rows, j < columns.
  void (*transpose32)(const uint32_t* src, int64_t src_stride, uint32_t* dst, int64_t dst_stride, int64_t rows,
                      int64_t columns);
  void (*transpose64)(const uint64_t* src, int64_t src_stride, uint64_t* dst, int64_t dst_stride, int64_t rows,
                      int64_t columns);
  // From integers round to nearest; to integers truncates, and what does not fit becomes the lowest integer.
  void (*float_from_int64)(const int64_t* x, float* y, int64_t n);
  void (*float_from_int32)(const int32_t* x, float* y, int64_t n);
  void (*float_from_uint8)(const uint8_t* x, float* y, int64_t n);
  void (*int64_from_float)(const float* x, int64_t* y, int64_t n);
  void (*int32_from_float)(const float* x, int32_t* y, int64_t n);
};

const EltwiseTable& eltwise_table();

}  // namespace tenon::cpu
