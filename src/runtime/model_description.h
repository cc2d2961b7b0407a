// The description of a session's model: inputs, outputs, initializers that may be overridden, metadata.
#pragma once

#include <span>
#include <vector>

#include <tenon/session.h>

#include "graph/graph.h"
#include "graph/reader.h"

namespace tenon {

struct ModelDescription {
  std::vector<ValueInfo> inputs, outputs, overridable;
  std::vector<Tensor> overridable_defaults;  // by overridable initializer; undefined for strings
  ModelMetadata metadata;
};

// The outputs as the model has them, before shape inference.
std::vector<Value> declared_outputs(const Graph& graph);
// After shape inference. Errors: an output whose node gives another element type than is declared.
Status check_output_types(const Graph& graph, std::span<const Value> declared);
// After shape inference, while the graph still has its constants.
ModelDescription describe_model(const Model& model, std::span<const Value> declared);

}  // namespace tenon
