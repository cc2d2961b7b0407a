// Reads the host's graphs, nodes and values.
//
// Ownership: everything is borrowed from the host and valid as long as the graph (one call of GetCapability or
// Compile), except the tensors, which copy.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ep/sdk/plugin_host.h"
#include "graph/graph.h"

namespace tenon::plugin {

struct GraphValue {
  std::string name;                      // "" for an absent optional input or output
  DataType type = DataType::kUndefined;  // kUndefined: no tensor, or unknown
  std::optional<Shape> shape;            // absent when unknown or too large a rank; -1 where a dimension is unknown
  bool constant = false;                 // an initializer that no input overrides
  const OrtValueInfo* info = nullptr;
};

struct GraphNode {
  const OrtNode* node = nullptr;
  size_t id = 0;
  std::string name;
  std::string op_type;
  std::string domain;  // "" for ONNX's own, however the host spells it
  int since = 0;
  std::vector<GraphValue> inputs;
  std::vector<GraphValue> outputs;
  size_t subgraphs = 0;

  // "Relu \"act_3\""
  std::string label() const;
};

Result<std::vector<GraphNode>> graph_nodes(const HostApi& host, const OrtGraph* graph);
Result<std::vector<GraphValue>> graph_inputs(const HostApi& host, const OrtGraph* graph);
Result<std::vector<GraphValue>> graph_outputs(const HostApi& host, const OrtGraph* graph);
Result<GraphNode> graph_node(const HostApi& host, const OrtNode* node);

// Sets the attribute of `from` in `to`; nothing where it is left out. `kind` is kInt, kFloat, kString or kInts. Errors:
// kInvalidArgument when the attribute is of another kind.
Status copy_attribute(const HostApi& host, const GraphNode& from, const char* name, AttributeKind kind, Node& to);

// Of operators that are not ONNX's own, such as EPContext, whose defaults no schema of ours has.
Result<int64_t> int_attribute(const HostApi& host, const GraphNode& node, const char* name, int64_t fallback);
Result<std::string> text_attribute(const HostApi& host, const GraphNode& node, const char* name,
                                   const std::string& fallback);

struct ConstantTensor {
  DataType type = DataType::kUndefined;
  Shape shape;
  std::vector<std::byte> bytes;
};
// The bytes of an initializer.
Result<ConstantTensor> constant_tensor(const HostApi& host, const GraphValue& value);

}  // namespace tenon::plugin
