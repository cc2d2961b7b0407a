// The shapes of a kernel's inputs, for the readers of src/ops.
#pragma once

#include "ep/api/kernel.h"
#include "ops/input_shapes.h"

namespace tenon {

inline InputShapes input_shapes(const KernelNode& node) {
  InputShapes shapes;
  for (const TensorSpec& spec : node.inputs)
    shapes.push_back(spec.present() ? std::optional(spec.shape) : std::nullopt);
  return shapes;
}

}  // namespace tenon
