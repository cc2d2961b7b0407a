// Products of a few rows with weights, with what stands around them in the same kernel (few_rows.cuh, row_tiles.cuh):
// the normalisation of the rows, products of the same rows, a gate, bias, residual and activation.
#pragma once

#include <optional>
#include <vector>

#include "ep/cuda/compute/lowering.h"
#include "ops/activation.h"

namespace tenon::cuda {

struct RowProduct {
  // One matrix; several are beside each other, and make a result each.
  struct Matrix {
    TensorId w = kNoTensor;       // [columns][depth], or its bytes where weights have few bits
    TensorId scales = kNoTensor;  // of those: [columns][blocks]
    TensorId zeros = kNoTensor;   // and their zero points, packed as the weights are; none: the middle
    TensorId bias = kNoTensor;    // float32
    TensorId y = kNoTensor;
    int64_t columns = 0;
  };
  DataType type = DataType::kUndefined;
  int64_t rows = 0, depth = 0;
  TensorId x = kNoTensor;
  TensorId norm_scale = kNoTensor;  // float32 [depth]: x is divided by the root of its mean square before
  float epsilon = 0;
  std::vector<Matrix> matrices;
  bool gated = false;  // act(first product) * second product, in the first one's y
  float scale = 1;
  Epilogue epilogue;
  TensorId residual = kNoTensor;
  int bits = 0;  // 4 or 8: of the weights; 0: they are of `type`
  int64_t block_size = 0;
};

// Whether a kernel takes products of these sizes. `bits`: of the weights, 0: they are of `type`. Products of more rows
// are ConvOp's, for which weights of few bits have to become numbers.
bool takes_few_rows(DataType type, int64_t rows, int64_t depth, int64_t columns, int bits = 0);
Status add_few_rows(Lowering& to, const Node& node, const RowProduct& product);
// The bytes of a constant with its numbers of few bits as a matrix [columns][depth] of `type` in memory of the run.
Result<TensorId> add_widened(Lowering& to, const Node& node, const RowProduct& product);

// A node that the kernel computes, and its operands.
struct RowCandidate {
  ValueId x = kNoValue, w = kNoValue, scales = kNoValue, zeros = kNoValue, bias = kNoValue, residual = kNoValue;
  bool transposed = false;  // weights are [columns, depth] as they are
  float scale = 1;
  Epilogue epilogue;
  int64_t rows = 0, depth = 0, columns = 0;
  int bits = 0;
  int64_t block_size = 0;
};
// Nullopt where it does not.
std::optional<RowCandidate> row_candidate(Lowering& to, const Node& node);

}  // namespace tenon::cuda
