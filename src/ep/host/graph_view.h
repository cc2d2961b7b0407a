// OrtGraph, OrtNode, OrtValueInfo and OrtOpAttr: a model as plugins and programs see it through the C ABI.
//
// The same structs serve views of the core's Graph (what GetCapability and Compile get) and what a program builds with
// the model editor (abi/model_editor.h); `core` tells them apart.
//
// Ownership: an OrtGraph owns its nodes, values and subgraphs; everything that a getter hands out is borrowed from it.
// Lifetime: a view borrows the core's Graph, so it must not outlive it, and ids of that Graph must not change
// meanwhile. Threads: const access from any thread.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "abi/objects/type_info.h"
#include "abi/objects/value.h"
#include "graph/graph.h"
#include "graph/reader.h"

// An attribute of a node, or one that CreateOpAttr made.
struct OrtOpAttr {
  std::unique_ptr<tenon::Attribute> owned;      // null: borrowed from a node of the core
  const tenon::Attribute* attribute = nullptr;  // never null
};

struct OrtValueInfo {
  struct Use {
    const OrtNode* node = nullptr;
    int64_t input = -1;  // -1: an implicit input, read by a subgraph of the node
  };

  std::string name;
  OrtTypeInfo type;
  const OrtGraph* graph = nullptr;  // null: made by CreateValueInfo
  tenon::ValueId core = tenon::kNoValue;
  const OrtNode* producer = nullptr;
  size_t producer_output = 0;
  std::vector<Use> uses;
  bool graph_input = false;
  bool graph_output = false;
  bool from_outer_scope = false;
  // Set for constants: a view of the model's own memory.
  std::unique_ptr<OrtValue> initializer;
};

struct OrtNode {
  struct Subgraph {
    std::string attribute;
    std::unique_ptr<OrtGraph> graph;
  };

  ~OrtNode();

  size_t id = 0;  // stays the same in views of parts of a graph
  std::string name;
  std::string op_type;
  std::string domain;
  int since_version = 0;
  std::string ep_name;  // empty until the node belongs to an EP
  // Null where an optional input or output is absent.
  std::vector<const OrtValueInfo*> inputs;
  std::vector<const OrtValueInfo*> outputs;
  std::vector<const OrtValueInfo*> implicit_inputs;
  std::vector<OrtOpAttr> attributes;
  std::vector<Subgraph> subgraphs;
  const OrtGraph* graph = nullptr;  // null: made by CreateNode and not added to a graph
  // Of the core graph; none for nodes of the model editor and for the nodes that stand for a region.
  tenon::NodeId core;
  // Nodes of the model editor only: values by name.
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
};

namespace tenon::abi {

// The data of the model around a view's graph.
struct GraphOrigin {
  std::string model_path;  // "" for a model from memory
  std::string graph_name;  // of the model's graph
  ModelInfo info;
  GraphNotes notes;
};

// Initializers of the model editor, by name in the order in which they were added.
struct EditorInitializer {
  std::string name;
  std::unique_ptr<OrtValue> value;
  bool external = false;
};

}  // namespace tenon::abi

struct OrtGraph {
  std::string name;
  const tenon::Graph* core = nullptr;  // null: a graph of the model editor
  std::shared_ptr<const tenon::abi::GraphOrigin> origin;
  std::vector<std::pair<std::string, int64_t>> opsets;  // by domain
  std::vector<std::unique_ptr<OrtValueInfo>> values;
  std::vector<std::unique_ptr<OrtNode>> nodes;
  std::vector<const OrtValueInfo*> inputs;
  std::vector<const OrtValueInfo*> outputs;
  std::vector<const OrtValueInfo*> initializers;
  const OrtNode* parent = nullptr;  // subgraphs: the node that has it as an attribute
  // By the core's ids.
  std::unordered_map<tenon::ValueId, OrtValueInfo*> by_id;
  std::vector<tenon::abi::EditorInitializer> editor_initializers;
};

struct OrtModel {
  std::vector<std::pair<std::string, int64_t>> opsets;
  std::unique_ptr<OrtGraph> graph;
};

struct OrtExternalInitializerInfo {
  std::string path;
  int64_t offset = 0;
  size_t size_bytes = 0;
};

namespace tenon::abi {

// A view of a whole graph, for GetCapability. `ep_names[n]` is the EP that node n belongs to by now ("" for none); it
// may be empty.
Result<std::unique_ptr<OrtGraph>> make_graph_view(const Graph& graph, std::shared_ptr<const GraphOrigin> origin,
                                                  IdSpan<NodeId, const std::string> ep_names = {});

// A view of some nodes of a graph (ascending indices), as Graph_GetGraphView makes it: inputs are the values that the
// nodes read and others make, outputs those that others read. Ids are those of the whole graph.
Result<std::unique_ptr<OrtGraph>> make_part_view(const Graph& graph, std::span<const NodeId> nodes,
                                                 std::shared_ptr<const GraphOrigin> origin);

// A view of a region's body, for Compile. Inputs and outputs are the body's: constants that the region hands over are
// among the inputs, and count as optional ones. `node_ids[n]` is the id that node n of the
// body had in the graph that GetCapability saw; empty: its index.
Result<std::unique_ptr<OrtGraph>> make_region_view(const Graph& body, std::string name,
                                                   std::shared_ptr<const GraphOrigin> origin,
                                                   IdSpan<NodeId, const NodeId> node_ids = {});

// The node that stands for a region, for Compile: its inputs and outputs are those of `view`, its operator has the
// view's name, in the domain `ep_name`. Lives as long as `view`.
std::unique_ptr<OrtNode> make_region_node(const OrtGraph& view, std::string name, std::string ep_name, size_t id);

// A model's type for a value of the core.
OrtTypeInfo type_info_of(const Value& value);
// A tensor value that views a constant. Strings are copied.
Result<std::unique_ptr<OrtValue>> value_of(const ConstantRef& constant);
OrtOpAttrType attribute_type(AttributeKind kind) noexcept;

}  // namespace tenon::abi
