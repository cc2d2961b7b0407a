// Loops of one thread that the compiler makes vectors of: int64 arithmetic and comparisons, and choices between
// elements of any type. On the set that every x86-64 has, 64-bit comparisons and products are long.
#pragma once

#include <cstdint>

namespace tenon::cpu {

enum class WideOp : uint8_t { kAdd, kSub, kMul, kMax, kMin, kEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual };
inline constexpr int kWideOpCount = static_cast<int>(WideOp::kGreaterOrEqual) + 1;
inline constexpr int kWideNumberOpCount = static_cast<int>(WideOp::kMin) + 1;  // those that are no comparisons

enum class RowFold : uint8_t { kSum, kMax, kMin };
inline constexpr int kRowFoldCount = static_cast<int>(RowFold::kMin) + 1;

struct IntegerTable {
  // One value for each row of n contiguous ones. Sums wrap around.
  void (*rows32[kRowFoldCount])(const int32_t* x, int32_t* y, int64_t rows, int64_t n);
  void (*rows64[kRowFoldCount])(const int64_t* x, int64_t* y, int64_t rows, int64_t n);
  // b has stride 0 or 1. y holds integers of the same size, or bytes of 0 and 1 for comparisons; it may be a or b.
  // Integers wrap around.
  void (*wide[kWideOpCount])(const int64_t* a, const int64_t* b, int64_t b_stride, void* y, int64_t n);
  void (*wide32[kWideNumberOpCount])(const int32_t* a, const int32_t* b, int64_t b_stride, void* y, int64_t n);
  // Comparisons of float32, from kEqual on, and And, Or, Xor of bytes that count as true unless they are 0. As above.
  void (*compare_float[kWideOpCount - kWideNumberOpCount])(const float* a, const float* b, int64_t b_stride, void* y,
                                                           int64_t n);
  void (*logic[3])(const uint8_t* a, const uint8_t* b, int64_t b_stride, void* y, int64_t n);
  // Quotients without their fractions; that of the lowest integer and -1 wraps to itself. False if some b is 0.
  bool (*divide32)(const int32_t* a, const int32_t* b, int64_t b_stride, int32_t* y, int64_t n);
  // a shifted by b to the left or to the right; a shift by the whole width or more leaves 0. y may be a or b.
  void (*shift8)(const uint8_t* a, const uint8_t* b, bool left, uint8_t* y, int64_t n);
  void (*shift16)(const uint16_t* a, const uint16_t* b, bool left, uint16_t* y, int64_t n);
  void (*shift32)(const uint32_t* a, const uint32_t* b, bool left, uint32_t* y, int64_t n);
  void (*shift64)(const uint64_t* a, const uint64_t* b, bool left, uint64_t* y, int64_t n);
  // The lowest integer has no magnitude or opposite but itself. y may be x.
  void (*abs8)(const int8_t* x, int8_t* y, int64_t n);
  void (*abs16)(const int16_t* x, int16_t* y, int64_t n);
  void (*abs32)(const int32_t* x, int32_t* y, int64_t n);
  void (*abs64)(const int64_t* x, int64_t* y, int64_t n);
  void (*neg8)(const int8_t* x, int8_t* y, int64_t n);
  void (*neg16)(const int16_t* x, int16_t* y, int64_t n);
  void (*neg32)(const int32_t* x, int32_t* y, int64_t n);
  void (*neg64)(const int64_t* x, int64_t* y, int64_t n);
  void (*sign8)(const int8_t* x, int8_t* y, int64_t n);
  void (*sign16)(const int16_t* x, int16_t* y, int64_t n);
  void (*sign32)(const int32_t* x, int32_t* y, int64_t n);
  void (*sign64)(const int64_t* x, int64_t* y, int64_t n);
  // 1 where x is 0, and 1 where it is not; the opposite of each bit. y may be x.
  void (*not8)(const uint8_t* x, uint8_t* y, int64_t n);
  void (*truth8)(const uint8_t* x, uint8_t* y, int64_t n);
  void (*complement8)(const uint8_t* x, uint8_t* y, int64_t n);
  // 1 where x is not 0.
  void (*bool_from_float)(const float* x, uint8_t* y, int64_t n);
  // The low bits of x cut off to an int32, whose lowest value takes the place of NaN and what does not fit.
  void (*int8_from_float)(const float* x, uint8_t* y, int64_t n);
  void (*int16_from_float)(const float* x, uint16_t* y, int64_t n);
  // Float32 that rounds to float16 and bfloat16 as x does.
  void (*float_from_int32)(const int32_t* x, float* y, int64_t n);
  // Low bits.
  void (*int8_from_int16)(const uint16_t* x, uint8_t* y, int64_t n);
  void (*int8_from_int32)(const uint32_t* x, uint8_t* y, int64_t n);
  void (*int16_from_int32)(const uint32_t* x, uint16_t* y, int64_t n);
  void (*int8_from_int64)(const uint64_t* x, uint8_t* y, int64_t n);
  void (*int16_from_int64)(const uint64_t* x, uint16_t* y, int64_t n);
  void (*int32_from_int64)(const uint64_t* x, uint32_t* y, int64_t n);
  // 1 where those bits of x that are in `mask` are a number of [low, low + span].
  void (*in_range16)(const uint16_t* x, uint16_t mask, uint16_t low, uint16_t span, uint8_t* y, int64_t n);
  void (*in_range32)(const uint32_t* x, uint32_t mask, uint32_t low, uint32_t span, uint8_t* y, int64_t n);
  void (*in_range64)(const uint64_t* x, uint64_t mask, uint64_t low, uint64_t span, uint8_t* y, int64_t n);
  // Ten rounds of Philox 4x32 on blocks of four words: words[k * blocks + b] is word k of block b.
  void (*philox)(uint32_t key0, uint32_t key1, uint32_t* words, int64_t blocks);
  // y[i] = first + i * step.
  void (*count64)(int64_t first, int64_t step, int64_t* y, int64_t n);
  // offsets[i] = the index times `stride`, plus i * step; indices below 0 count from the end of an axis. False where
  // one of them is outside of it. `offsets` may be `indices`.
  bool (*place)(const int64_t* indices, int64_t n, int64_t length, int64_t stride, int64_t step, int64_t* offsets);
  // Whether each is one more than the one before it.
  bool (*is_run)(const int64_t* x, int64_t n);
  // Whether all are the same.
  bool (*is_one_value)(const int64_t* x, int64_t n);
  // y = condition ? a : b; strides 0 or 1. y may be an operand of stride 1 whose elements have its size.
  void (*where8)(const uint8_t* condition, int64_t c_stride, const uint8_t* a, int64_t a_stride, const uint8_t* b,
                 int64_t b_stride, uint8_t* y, int64_t n);
  void (*where16)(const uint8_t* condition, int64_t c_stride, const uint16_t* a, int64_t a_stride, const uint16_t* b,
                  int64_t b_stride, uint16_t* y, int64_t n);
  void (*where32)(const uint8_t* condition, int64_t c_stride, const uint32_t* a, int64_t a_stride, const uint32_t* b,
                  int64_t b_stride, uint32_t* y, int64_t n);
  void (*where64)(const uint8_t* condition, int64_t c_stride, const uint64_t* a, int64_t a_stride, const uint64_t* b,
                  int64_t b_stride, uint64_t* y, int64_t n);
};

const IntegerTable& integer_table();

}  // namespace tenon::cpu
