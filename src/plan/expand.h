// Operators that are others put together become those, before kernels are asked for: most of com.microsoft, and
// functions of ai.onnx that need no kernel of their own.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/attributes.h"

namespace tenon {

// Replaces the nodes of `graph` and of its subgraphs that the table of expansions has, and infers what they make. The
// new nodes stand for the one that they replace (node_origins.h). Nodes of regions stay. Errors: attributes or shapes
// that no expansion takes; the message has the node.
Status expand_operators(Graph& graph);

namespace expand {

struct SetAttribute {
  std::string_view name;
  std::optional<int64_t> integer;
  std::optional<float> number;
  std::optional<std::string> text;
  std::optional<std::vector<int64_t>> integers;
};
inline SetAttribute integer(std::string_view name, int64_t value) { return {.name = name, .integer = value}; }
inline SetAttribute number(std::string_view name, float value) { return {.name = name, .number = value}; }
inline SetAttribute text(std::string_view name, std::string value) { return {.name = name, .text = std::move(value)}; }
inline SetAttribute integers(std::string_view name, std::vector<int64_t> value) {
  return {.name = name, .integers = std::move(value)};
}
using SetAttributes = std::vector<SetAttribute>;

// One node and what takes its place. Functions that add nodes give the id of the first output; after an error they do
// nothing, and status() is the first one. Threads: one.
class Expansion {
 public:
  Expansion(Graph& graph, Node node) : graph_(graph), node_(std::move(node)) {}

  const Node& node() const { return node_; }
  Attributes attributes() const { return Attributes(node_); }
  bool has(size_t input) const { return node_.input(input) != kNoValue; }
  ValueId in(size_t input) const { return node_.input(input); }
  // Null where the node leaves it out, or the model does not read it.
  ValueId out(size_t output) const { return output < node_.outputs.size() ? node_.outputs[output] : kNoValue; }
  const Value& value(ValueId id) const { return graph_.value(id); }
  // The graph around the node; nodes that are replaced are still there.
  const Graph& graph() const { return graph_; }
  DataType type(ValueId id) const { return id == kNoValue ? DataType::kUndefined : graph_.value(id).type; }
  // -1 where it is not known.
  int rank(ValueId id) const;
  // The number of elements along `axis`, which counts from the end if negative; -1 where it is not known.
  int64_t known_size(ValueId id, int axis) const;

  // A node of the newest version of ai.onnx; it makes `to`, or a new value.
  ValueId add(std::string_view op_type, std::vector<ValueId> inputs, const SetAttributes& attributes = {},
              ValueId to = kNoValue);
  // A node of any domain with several outputs; those that are kNoValue stay absent.
  void add_node(std::string_view domain, std::string_view op_type, std::vector<ValueId> inputs,
                const SetAttributes& attributes, std::vector<ValueId> outputs);
  // The nodes of a subgraph of the node, over `inputs`; the values that it puts out.
  std::vector<ValueId> add_body(const Graph& body, const std::vector<ValueId>& inputs);
  // A Loop over `body`, whose first inputs are the iteration and the condition. `inputs` begin with the trip count.
  std::vector<ValueId> add_loop(Graph body, std::vector<ValueId> inputs);
  // A value that a node will make.
  ValueId new_value();

  ValueId add_constant(ConstantRef constant);
  // Constants: a number of type `type`, numbers as float32, integers as int64.
  ValueId scalar(double value, DataType type);
  ValueId numbers(std::span<const float> values);
  ValueId constant(std::span<const int64_t> values, bool is_scalar = false);
  ValueId constant(std::initializer_list<int64_t> values) { return constant(std::span(values.begin(), values.size())); }
  // The sizes of dimensions [begin, end) of a value, as int64 of one dimension.
  ValueId sizes(ValueId id, int64_t begin, int64_t end);
  ValueId cast(ValueId id, DataType type, ValueId to = kNoValue);
  ValueId reshape(ValueId id, std::initializer_list<int64_t> shape, ValueId to = kNoValue);
  ValueId transpose(ValueId id, std::vector<int64_t> perm, ValueId to = kNoValue);

  // A node as it is, but for its name.
  void put(Node node);
  void fail(Status status);
  const Status& status() const { return status_; }
  std::vector<Node>& nodes() { return nodes_; }

 private:
  Graph& graph_;
  Node node_;
  std::vector<Node> nodes_;
  Status status_;
  int made_ = 0;
};

// An activation by the name that fused operators give it; `parameters` are its own.
void activate(Expansion& to, ValueId x, std::string_view name, const std::vector<float>& parameters, ValueId result);
// The attributes that a window has in ai.onnx, as the node states them.
SetAttributes window_attributes(const Expansion& to, std::initializer_list<std::string_view> names);

// Puts nodes in, or leaves the node as it is by putting none.
using Expand = void (*)(Expansion& to);
struct Row {
  std::string_view domain;
  std::string_view op_type;
  Expand expand;
};

// The rows of each family, beside their functions.
#define TENON_EXPAND_FAMILIES(X) \
  X(activation_rows)             \
  X(attention_rows)              \
  X(blocked_rows)                \
  X(experimental_rows)           \
  X(gate_rows)                   \
  X(matmul_rows)                 \
  X(move_rows)                   \
  X(norm_rows)                   \
  X(position_rows)               \
  X(search_rows)                 \
  X(state_rows)
#define TENON_DECLARE_(function) std::span<const Row> function();
TENON_EXPAND_FAMILIES(TENON_DECLARE_)
#undef TENON_DECLARE_

}  // namespace expand
}  // namespace tenon
