// Operators of com.microsoft on weights whose elements have few bits, and a scale for each block of them: MatMulNBits,
// MatMulBnb4 and GatherBlockQuantized.
#pragma once

#include "ops/axes.h"
#include "ops/input_shapes.h"

namespace tenon {

// Y = A * dequantised B, transposed, + bias. A is [..., K]; B has N columns of `blocks` blocks, each in `block_bytes`
// bytes of its own, the first element in the lowest bits: (q - zero_point) * scale. The zero points are packed like
// elements, a column beginning with a byte of its own, or numbers of the type of A; without them each is
// 2^(bits - 1). Scales and zero points are [N, blocks]. The block of an element is that of its place, or what the input
// group_index says.
struct NBitsDesc {
  enum Input : size_t { kA, kB, kScales, kZeroPoints, kGroupIndex, kBias };
  int64_t bits = 4, block_size = 32;
  int64_t m = 1, n = 1, k = 1;
  int64_t blocks = 1, block_bytes = 16;
  bool rounds_a = false;  // accuracy_level 4: A may be rounded to int8
  Shape y;

  int64_t zero_point_bytes() const { return (blocks * bits + 7) / 8; }  // of a column
};
// Errors: bits other than 2, 4 and 8; sizes below 1, or that do not fit the operands.
Result<NBitsDesc> read_matmul_nbits(const Node& node, const InputShapes& shapes);

// Y = A * B transposed, or with `transB` of 0 A * B. B [rows,columns] holds elements of 4 bits in one row, the first in
// the highest bits of a byte; each stands for table()[q] times the `absmax` of its block of the row.
struct Bnb4Desc {
  bool normal_floats = true;  // NF4; else FP4
  int64_t block_size = 64;
  int64_t m = 1, n = 1, k = 1;                // of the product
  int64_t column_step = 1, element_step = 1;  // in B, from one column of the product to the next, and along k
  Shape y;

  std::span<const float> table() const;  // 16 numbers
};
// Errors: an unknown quant_type; sizes below 1, or that do not fit the operands.
Result<Bnb4Desc> read_matmul_bnb4(const Node& node, const InputShapes& shapes);

// Rows of a quantised table, as Gather takes them, dequantised with a scale for each block along an axis. Data of uint8
// with 4 bits hold two elements a byte, the first in the lowest bits.
struct GatherBlocksDesc {
  int64_t bits = 4, block_size = 128;
  bool bytes_of_pairs = false;
  int quantize_axis = 0;
  AxisSpan gather;     // of the logical data
  Shape data, scales;  // logical shapes
  int64_t count = 0;   // of the indices
  Shape output;
};
// Errors: axes out of range, a block size below 1, scales or zero points that do not fit.
Result<GatherBlocksDesc> read_gather_blocks(const Node& node, DataType data_type, const InputShapes& shapes);

}  // namespace tenon
