// QuantizeLinear 10 and DequantizeLinear 10: which scale and zero point an element has. DynamicQuantizeLinear 11 has no
// attributes; this file infers its shapes.
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

}  // namespace tenon
