// Writes a Graph as an ONNX model, for models that Tenon makes (a compiled one with EPContext nodes).
#pragma once

#include <string>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// The serialised ModelProto (IR 10). Values without a name get one. Constants that nothing reads are left out; shapes
// that are known travel as value_info.
// Errors: kInvalidArgument for a body that captures values of the graph around it; kUnsupported for inputs that are no
// tensors, attributes that the reader could not keep, internal operators, and a model of 2 GiB or more, which protobuf
// cannot hold.
Result<std::string> write_model(const Graph& graph);

}  // namespace tenon
