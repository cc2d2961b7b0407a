// The product of bytes behind MatMulInteger, QLinearMatMul and tenon.QuantizedMatMul: packing, zero points, scales,
// splitting over threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ep/api/kernel.h"
#include "ops/activation.h"
#include "ops/matmul.h"

namespace tenon::cpu::nn {

// Operands are inputs of the node, kNoInput where there is none. A, B and Y are uint8 or int8 each, or Y is int32
// (without scales) or float32. A's scale and zero point, and those of the middle and of Y, have one element; those of B
// have one, or one for each column. tenon.QuantizedMatMul says what is computed (docs/reference/internal-operators.md).
struct IntegerProduct {
  int64_t m = 0, n = 0, k = 0;
  // One entry a batch: which matrix of A and of B.
  std::vector<int64_t> a_index, b_index;
  int64_t b_matrices = 1;
  bool trans_b = false;
  size_t a = 0, b = 1;
  size_t a_scale = kNoInput, a_zero = kNoInput, b_scale = kNoInput, b_zero = kNoInput;
  size_t bias = kNoInput, residual = kNoInput;  // float32: [n], and the shape of Y
  size_t middle_scale = kNoInput, middle_zero = kNoInput, middle_bias = kNoInput;
  size_t y_scale = kNoInput, y_zero = kNoInput;
  size_t table = kNoInput;
  float factor = 1;  // of what the middle gives
  Epilogue epilogue;
};

// Packs B when it is constant. Errors: sizes that overflow.
Result<std::unique_ptr<Kernel>> make_integer_product(const KernelNode& node, IntegerProduct product);

// Which matrices are multiplied.
void fill_integer_batches(const MatMulDesc& desc, IntegerProduct& product);

// MatMulInteger, QLinearMatMul and tenon.QuantizedMatMul, with the parameters that IntegerProduct takes.
Status match_matmul_integer(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_matmul_integer(const KernelNode& node);

}  // namespace tenon::cpu::nn
