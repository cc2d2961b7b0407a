// numpy's matmul on dimensions, which ONNX operators and internal ones share.
#pragma once

#include "ops/shape_inference_context.h"

namespace tenon::infer {

// Errors: inner dimensions that differ, batch dimensions that do not broadcast; the message has both shapes.
Result<Dims> matmul_dims(const Dims& a, const Dims& b);

}  // namespace tenon::infer
