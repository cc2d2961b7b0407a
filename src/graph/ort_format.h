// ONNX Runtime's own model format (.ort): a flatbuffer with the same contents as an ONNX model.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"

namespace tenon {

// By the identifier that the format has at byte 4.
bool is_ort_format(std::span<const std::byte> bytes);

// The model as ONNX protobuf. Every offset is checked against `bytes`; the result is bounded by their number. What
// ONNX Runtime has recorded for its own optimisers is left out.
// Errors: kInvalidArgument for bytes that are no such flatbuffer; kUnsupported for what Tenon does not read
// (weights in a file beside the model, nodes that an EP has compiled).
Result<std::string> ort_format_to_onnx(std::span<const std::byte> bytes);

}  // namespace tenon
