// Loops over quantised numbers of one byte, and of two. One task of one thread; the caller splits.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// The bytes of float numbers: round(x / scale) + zero, rounded to even, between 0 and 255; NaN becomes 0. An int8 is
// such a byte less 128: its zero point counts 128 more, and `flip` is 0x80.
struct ByteStep {
  float scale = 1, zero = 0;
  uint8_t flip = 0;
};

// The same between 0 and 65535. An int16 is such a number less 32768, and `flip` is 0x8000.
struct WordStep {
  float scale = 1, zero = 0;
  uint16_t flip = 0;
};

struct QuantizeTable {
  void (*quantize)(const float* x, const ByteStep& step, int64_t count, uint8_t* y);
  void (*quantize_words)(const float* x, const WordStep& step, int64_t count, uint16_t* y);
  void (*dequantize)(const uint8_t* x, const ByteStep& step, int64_t count, float* y);
  // The least and the largest of `count` numbers and what `low` and `high` hold before; NaN where there is one.
  void (*extremes)(const float* x, int64_t count, float* low, float* high);
  // y[i] = table[x[i]] of 256 bytes. y may be x.
  void (*lookup)(const uint8_t* x, const uint8_t* table, int64_t count, uint8_t* y);
  // The sum of x[i] ^ flip.
  uint64_t (*sum)(const uint8_t* x, uint8_t flip, int64_t count);
};

const QuantizeTable& quantize_table();

}  // namespace tenon::cpu
