// Elementwise operators with attributes that are no function of one number (those: unary.h).
#pragma once

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// Whether the node is a function of the elements that stand at the same place of all inputs, after broadcasting them to
// one shape by numpy's rule: Add, Where, Max and others of ONNX.
bool broadcasts_inputs(const Node& node);

// Clip of ONNX: the bounds that apply where no input gives one. Up to version 6 they are the attributes, later the
// lowest and the largest float32 (other element types have their own).
struct ClipDesc {
  float low = 0, high = 0;
  bool bounds_are_inputs = false;  // from version 11 on
};
ClipDesc read_clip(const Node& node);

// Mod of ONNX 10: truncated has the sign of the dividend (`fmod`), else the result has the sign of the divisor.
struct ModDesc {
  bool truncated = false;
};
ModDesc read_mod(const Node& node);

// BitShift of ONNX 11.
struct BitShiftDesc {
  bool left = false;
};
// Errors: invalid_argument for a direction other than LEFT and RIGHT.
Result<BitShiftDesc> read_bit_shift(const Node& node);

// IsInf of ONNX 10: the infinities that count.
struct IsInfDesc {
  bool negative = true, positive = true;
};
IsInfDesc read_is_inf(const Node& node);

// The element type that Cast and BitCast make (`to`).
// Errors: invalid_argument for a number that is no element type.
Result<DataType> read_cast_type(const Node& node);

// How Cast and CastLike make 8-bit floats. saturate: what lies outside the range becomes the nearest finite number,
// else NaN (or an infinity where there is one). mode: of float8e8m0 alone; other types take the nearest value, ties to
// even.
struct CastRounding {
  enum class Mode : uint8_t { kUp, kDown, kNearest };
  bool saturate = true;
  Mode mode = Mode::kUp;
};
// Errors: invalid_argument for a round_mode other than up, down and nearest.
Result<CastRounding> read_cast_rounding(const Node& node);

}  // namespace tenon
