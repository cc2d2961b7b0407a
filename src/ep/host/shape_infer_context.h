// OrtShapeInferContext: the inputs of a node for OrtCustomOp::InferOutputShapeFn, and the output shapes that it sets.
//
// Lifetime: of one call. Threads: the calling thread.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <optional>
#include <vector>

#include "abi/objects/type_info.h"
#include "ep/host/graph_view.h"

struct OrtShapeInferContext {
  OrtShapeInferContext(const tenon::Graph& graph, const tenon::Node& node);

  // Null for an input that is absent.
  std::vector<std::optional<OrtTensorTypeAndShapeInfo>> inputs;
  std::vector<OrtOpAttr> attributes;
  std::vector<std::optional<OrtTensorTypeAndShapeInfo>> outputs;  // what the operator has set
};
