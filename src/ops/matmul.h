// Matrix products: MatMul 1, Gemm 1, MatMulInteger 10 and QLinearMatMul 10 of ai.onnx, tenon.MatMul and
// tenon.QuantizedMatMul (docs/reference/internal-operators.md). Y = activation(alpha * op(A) op(B) + beta * addend),
// with the residual before or after the activation; op() transposes or not. QLinearMatMul and MatMulInteger subtract
// zero points from A and B first.
#pragma once

#include "ops/input_shapes.h"

namespace tenon {

// The attributes of a product, and which input of the node is which operand. Holds for all shapes.
struct MatMulForm {
  size_t a = 0, b = 1;
  size_t addend = kNoInput;    // C of Gemm, unless beta is 0; the bias of tenon's
  size_t residual = kNoInput;  // tenon's
  size_t a_scale = kNoInput, a_zero_point = kNoInput, b_scale = kNoInput, b_zero_point = kNoInput;
  size_t y_scale = kNoInput, y_zero_point = kNoInput;
  bool trans_a = false;  // Gemm: A is [K,M]
  bool trans_b = false;  // Gemm and tenon.MatMul: B is [...,N,K]
  float alpha = 1, beta = 1;
  bool activated = false;  // tenon.MatMul: has an activation

  // Y is alpha * A op(B) and nothing more.
  bool is_bare() const { return addend == kNoInput && residual == kNoInput && !activated && !trans_a; }
};

// `node` is one of the operators above.
MatMulForm read_matmul_form(const Node& node);
// States trans_b and alpha of `form` in `node`, a tenon.MatMul, where they differ from those that it has.
void write_matmul_form(const MatMulForm& form, Node& node);

// A product of matrices of known sizes.
struct MatMulDesc : MatMulForm {
  int64_t m = 1, n = 1, k = 1;    // of one matrix product
  Shape a_batch, b_batch, batch;  // the dimensions before the last two; `batch` is what both broadcast to
  Shape y;                        // without a dimension for an operand of rank 1
  // Elements of the addend from one row of Y to the next, and from one column to the next; 0 where it repeats.
  int64_t addend_row = 0, addend_column = 0;

  // Elements of an operand from one row of op(operand) to the next, and from one column to the next.
  int64_t a_row() const { return trans_a ? 1 : k; }
  int64_t a_column() const { return trans_a ? m : 1; }
  int64_t b_row() const { return trans_b ? 1 : n; }
  int64_t b_column() const { return trans_b ? k : 1; }
};

// Errors: an operand is absent or a scalar, ranks that the operator does not take, inner dimensions that differ, batch
// dimensions that do not broadcast, an addend or a residual that does not fit; the message has the shapes.
Result<MatMulDesc> read_matmul(const Node& node, const InputShapes& shapes);

// Which of the matrices of an operand with the batch dimensions `operand` belongs to product `index` of `batch`.
int64_t operand_matrix(const Shape& batch, const Shape& operand, int64_t index);

}  // namespace tenon
