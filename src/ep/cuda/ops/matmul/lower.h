// Shared by the lowerings of products.
#pragma once

#include <optional>

#include "ep/cuda/ops/matmul/few_rows.h"

namespace tenon::cuda {

// Constant weights as a matrix [columns][depth] of `type`; `transposed`: they are one already. `round`: to TF32.
Result<TensorId> matrix_of_weights(Lowering& to, ValueId weights, DataType type, bool transposed, bool round);
// The operand with the whole batch of `y`, the product's shape, in memory.
Result<TensorId> spread_batch(Lowering& to, const Node& node, TensorId operand, const Shape& y);
// row_candidate() of MatMul and Gemm, and of MatMulNBits.
std::optional<RowCandidate> matmul_candidate(Lowering& to, const Node& node);
std::optional<RowCandidate> nbits_candidate(Lowering& to, const Node& node);

}  // namespace tenon::cuda
