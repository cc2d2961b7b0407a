// QuantizeLinear 10 and DequantizeLinear 10, also of com.microsoft: which scale and zero point an element has.
// DynamicQuantizeLinear 11: its scale and zero point. MatMulInteger 10 and QLinearMatMul 10: those of rows and columns.
// tenon.LookupBytes: which table an element has.
#pragma once

#include "ops/input_shapes.h"

namespace tenon {

// How the elements of a scale or a zero point belong to those of X.
struct QuantizationDesc {
  enum class Granularity : uint8_t { kTensor, kAxis, kBlock };
  Granularity granularity = Granularity::kTensor;
  int axis = -1;           // in [0, rank of X); -1 for kTensor
  int64_t block_size = 0;  // kBlock: neighbours along the axis that share a parameter, at each index of the other axes
  int64_t inner = 1;       // elements of X from one index of the axis to the next
  int64_t length = 1;      // of the axis

  // The element of the parameter that belongs to element `element` of X.
  int64_t parameter_of(int64_t element) const;
};

// `parameter` is the shape of the scale or of the zero point. Errors: it does not fit X, the axis or the block size.
Result<QuantizationDesc> read_quantization(const Node& node, const Shape& x, const Shape& parameter);

// DynamicQuantizeLinear of numbers whose least and largest are these, 0 counted in. Of zeros alone the scale is 1, as
// in ONNX Runtime; NaN and infinity become a scale that makes each quotient NaN or 0.
struct DynamicQuantization {
  float scale = 1;
  uint8_t zero_point = 0;
};
DynamicQuantization dynamic_quantization(float low, float high);

// tenon.LookupBytes: element `e` of X has table e / inner % tables.
struct LookupDesc {
  int64_t inner = 1;  // elements of X from one index of axis 1 to the next
  int64_t tables = 1;
};
// Errors: `table` is neither [256] nor [C, 256] for X [N, C, ...].
Result<LookupDesc> read_lookup(const Shape& x, const Shape& table);

// How the elements of a scale or a zero point belong to the lines of a matrix operand: the rows of A and Y, the columns
// of B.
struct LineParameters {
  int64_t lines = 0;   // elements of a matrix; 0 if one element serves all lines
  bool shared = true;  // the same for each matrix of the batch

  bool single() const { return lines == 0; }
  int64_t at(int64_t matrix, int64_t line) const { return single() ? 0 : shared ? line : matrix * lines + line; }
};
// `operand` is the shape of the matrix operand, `rows` says which lines count. A parameter has one element, one for
// each line, or the shape of the operand with 1 in place of the other dimension. Errors: another shape.
Result<LineParameters> read_line_parameters(const Shape& parameter, const Shape& operand, bool rows);

}  // namespace tenon
