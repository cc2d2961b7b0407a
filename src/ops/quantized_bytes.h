// Operators of com.microsoft on uint8 and int8 tensors that have a scale and a zero point each: QLinearAdd, QLinearMul,
// QLinearSigmoid, QLinearLeakyRelu, QLinearSoftmax, QLinearWhere, QLinearConcat, QLinearReduceMean, QLinearAveragePool
// and QLinearGlobalAveragePool; and MulInteger and ReduceSumInteger, whose results are int32.
#pragma once

#include "ops/input_shapes.h"
#include "ops/pool.h"
#include "ops/softmax.h"

namespace tenon {

// The inputs of a node that make up one quantised tensor.
struct ByteInputs {
  size_t data = kNoInput, scale = kNoInput, zero_point = kNoInput;
};

// Where the operands of a node are; y has no data. Nodes of QLinearConcat have an x for each part.
struct QuantizedForm {
  std::vector<ByteInputs> x;
  ByteInputs y;
  // QLinearAdd and QLinearMul that stand for DequantizeLinear, Add or Mul, and QuantizeLinear: rounded as those are. An
  // attribute that passes alone write.
  bool exact = false;
};
// Errors: QLinearConcat whose inputs are not triples behind the first two.
Result<QuantizedForm> read_quantized_form(const Node& node);

void write_exact(Node& node);

// X as [outer, length, inner]; groups along one axis since opset 13, before that all elements from the axis on.
Result<SoftmaxDesc> read_quantized_softmax(const Node& node, const Shape& x);

// A pool over X [batch, channels, in...], whose elements may lie as [batch, in..., channels].
struct QuantizedPoolDesc {
  PoolDesc pool;
  bool channels_last = false;
  Shape output;
};
Result<QuantizedPoolDesc> read_quantized_pool(const Node& node, const Shape& x);

}  // namespace tenon
