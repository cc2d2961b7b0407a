// Finds and replaces patterns of nodes for passes. Keeps producers and use counts current.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/reduce.h"

namespace tenon {

// A pattern ends in one node; that node is replaced where it stands, so every value it needs comes before it. What the
// pattern leaves unread disappears at once, and use counts show it.
// Lifetime: node references and pointers stay valid (nodes are neither added nor moved) until finish().
// Most passes find no node that their pattern could end in: who makes and who reads each value is looked up only when
// the first question about it comes.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph);

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  IdRange<NodeId> ids() const { return graph_.nodes.ids(); }
  const Node& node(NodeId id) const { return graph_.nodes[id]; }
  bool erased(NodeId id) const { return erased_[id]; }

  const Value& value(ValueId id) const { return graph_.value(id); }
  // The node that makes `id`; null for inputs and constants.
  const Node* producer(ValueId id) const;
  NodeId producer_id(ValueId id) const { return links().producer[id]; }
  // The producer if it is `op_type` of `domain` and `id` its first output.
  const Node* made_by(ValueId id, std::string_view op_type, std::string_view domain = "") const;
  int32_t uses(ValueId id) const { return id == kNoValue ? 0 : links().uses[id]; }
  // Read exactly once, and not as an output of the graph: the value may disappear in a fusion.
  bool read_once(ValueId id) const;
  bool is_output(ValueId id) const { return id != kNoValue && links().is_output[id]; }

  const ConstantRef& constant(ValueId id) const;  // null when not constant or absent
  bool is_float(ValueId id) const;                // a float32 tensor
  // The number in a float32 constant of one element; scalar_beside only if it cannot raise the rank of `other`.
  std::optional<float> scalar(ValueId id) const;
  std::optional<float> scalar_beside(ValueId id, ValueId other) const;
  // The same type and, for certain, the same dimensions.
  bool same_shape(ValueId a, ValueId b) const;

  // `replacement` takes the place of node `id`. Values that nobody reads any more take their producers with them.
  void replace(NodeId id, Node replacement);
  // Node `id` goes although its outputs are still read: another node makes them now.
  void erase(NodeId id);
  // False once the pass would have made more new constants than 64 MiB and the size of those that the graph had: a
  // small file must not make large memory by sharing one weight between many nodes. Counts `bytes` when true.
  bool may_make(size_t bytes);
  ValueId add_constant(std::string name, ConstantRef constant);
  ValueId add_value(Value value);
  // A new node right before node `id` once the pass is finished; until then its outputs have no producer.
  void insert_before(NodeId id, Node node);

  // Drops erased nodes and places inserted ones. Call once, last. Each node then has the origins of those that it
  // stands for (node_origins.h).
  void finish();

 private:
  struct Links {
    PerValue<NodeId> producer;
    PerValue<int32_t> uses;
    PerValue<bool> is_output;
  };
  Links& links() const { return links_ ? *links_ : find_links(); }
  Links& find_links() const;
  void add_links();  // of a value that comes now

  void count(const Node& node, int32_t change);
  void release(ValueId id);
  // The origins of nodes that go now, one of which made `made`: whatever makes it at the end stands for them.
  void begin_origins(const Node& node);
  void end_origins(const Node& last);
  void add_origins();

  Graph& graph_;
  mutable std::optional<Links> links_;
  PerNode<bool> erased_;
  std::optional<size_t> budget_bytes_;    // once a pass has asked
  std::multimap<NodeId, Node> inserted_;  // by the node that they stand before, in the order they came
  std::vector<int64_t> going_;
  std::map<ValueId, std::vector<int64_t>> origins_;  // by the value that the last of them made
  ConstantRef names_;                                // of all origins
};

// A binary node's two inputs in the order {one for which `accept` holds, other}; nullopt when neither fits.
template <typename Accept>
std::optional<std::pair<ValueId, ValueId>> split_operands(const Node& node, Accept&& accept) {
  if (node.inputs.size() != 2 || node.inputs[0] == kNoValue || node.inputs[1] == kNoValue) return std::nullopt;
  if (accept(node.inputs[0], node.inputs[1])) return std::pair(node.inputs[0], node.inputs[1]);
  if (accept(node.inputs[1], node.inputs[0])) return std::pair(node.inputs[1], node.inputs[0]);
  return std::nullopt;
}

// A Reduce operator whose axes are known; nullopt where they are not.
std::optional<ReduceDesc> constant_reduce(const Rewriter& rewriter, const Node& node);

// A node of ai.onnx, in the version of its operator that began with opset `since`.
Node make_node(std::string op_type, int since, std::string name, std::vector<ValueId> inputs,
               std::vector<ValueId> outputs);
// A node of domain "tenon" that makes `outputs`.
Node make_internal(std::string op_type, std::string name, std::vector<ValueId> inputs, std::vector<ValueId> outputs);

}  // namespace tenon
