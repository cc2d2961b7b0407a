// Writes a Graph as an ONNX model, for models that Tenon makes (a compiled one with EPContext nodes).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "graph/graph.h"
#include "graph/reader.h"

namespace tenon {

// Where the bytes of an initializer lie when they are not in the model itself.
struct ExternalPlace {
  std::string location;  // relative to the model's folder
  size_t offset_bytes = 0;
  size_t size_bytes = 0;
};
// Empty: in the model.
using InitializerPlacer = std::function<Result<std::optional<ExternalPlace>>(const std::string&, const ConstantRef&)>;

struct WriterOptions {
  const ModelInfo* info = nullptr;    // what the model says of itself; null: written by Tenon, IR 10
  const GraphNotes* notes = nullptr;  // the texts of graph and tensors, and initializers that are listed as inputs too
  InitializerPlacer place;            // null: all initializers are in the model
  bool by_name = false;               // initializers in the order of their names instead of the graph's
};

// The serialised ModelProto. Values without a name get one. Constants that nothing reads are left out; shapes that are
// known travel as value_info. Strings are always in the model. Nodes and tensors keep their documentation and metadata,
// and nodes attributes of any kind, if the graph was read for that (ReaderReplacements::for_writing); a Constant node
// is an initializer, that has the node's notes. Errors: kInvalidArgument for a body that
// captures values of the graph around it; kUnsupported for inputs that are no tensors, attributes that the reader did
// not keep (without for_writing lists of tensors and of graphs, with it lists of graphs that read values of the graph
// around them), internal operators, and a model of 2 GiB or more, which protobuf cannot hold; those of `options.place`.
Result<std::string> write_model(const Graph& graph, const WriterOptions& options = {});

// Adds an entry to the metadata of a serialised model.
void append_metadata(std::string& model, const std::string& key, const std::string& value);

}  // namespace tenon
