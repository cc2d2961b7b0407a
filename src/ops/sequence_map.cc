// SequenceMap as a Loop.
#include <memory>
#include <utility>

#include "graph/schema.h"
#include "ops/sequence.h"

namespace tenon {

namespace {

Node make_node(std::string_view op_type, int opset, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  Node node;
  node.op_type = op_type;
  const std::optional<Schema> schema = find_schema("", op_type, opset);
  node.since_version = schema ? schema->since_version : 1;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return node;
}

Value tensor_value(std::string name, DataType type) {
  Value value;
  value.name = std::move(name);
  value.type = type;
  value.set_shape({});
  return value;
}

Value object_value(std::string name, const ObjectTypeRef& type) {
  Value value;
  value.name = std::move(name);
  value.set_object(type);
  return value;
}

// The Loop of one SequenceMap, and what comes before it.
class Expansion {
 public:
  Expansion(Graph& graph, const Node& node) : graph_(graph), node_(node), name_(node.label(graph)) {}

  // The nodes in the place of the SequenceMap.
  Status run(PerNode<Node>& nodes) {
    const Attribute* attribute = node_.find("body");
    TENON_INVALID_IF(attribute == nullptr || attribute->graph == nullptr, "Node {} has no subgraph \"body\".", name_);
    auto body = std::make_shared<Graph>(*attribute->graph);
    TENON_INVALID_IF(
        node_.inputs.empty() || body->inputs.size() != node_.inputs.size() ||
            body->outputs.size() != node_.outputs.size(),
        "The body of node {} has {} inputs and {} outputs, and the node {} and {}; they have to be as many.", name_,
        body->inputs.size(), body->outputs.size(), node_.inputs.size(), node_.outputs.size());
    opset_ = graph_.opset("") != 0 ? graph_.opset("") : newest_opset("");
    const ValueId count = graph_.add_value(tensor_value(name_ + "/count", DataType::kInt64));
    nodes.push_back(make_node("SequenceLength", opset_, {node_.inputs[0]}, {count}));
    Node loop = make_node("Loop", opset_, {count, kNoValue}, {});
    loop.name = node_.name;
    TENON_TRY(read_elements(*body));
    TENON_TRY(append_results(*body, nodes, loop));
    Attribute made;
    made.name = "body";
    made.kind = AttributeKind::kGraph;
    made.graph = std::move(body);
    loop.attributes.edit().push_back(std::move(made));
    nodes.push_back(std::move(loop));
    return {};
  }

 private:
  // The inputs of the model's body become elements of the captured sequences, or the captured tensors themselves.
  Status read_elements(Graph& body) {
    iteration_ = body.add_value(tensor_value(name_ + "/iteration", DataType::kInt64));
    condition_ = body.add_value(tensor_value(name_ + "/condition", DataType::kBool));
    PerNode<Node> first;
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      const ValueId outer = node_.inputs[i];
      TENON_INVALID_IF(outer == kNoValue, "Input {} of node {} is absent.", i, name_);
      const Value& value = graph_.value(outer);
      if (value.is_tensor && value.object == nullptr) {
        if (value.constant != nullptr) {
          Value& inner = body.value(body.inputs[i]);
          inner.type = value.constant->type;
          inner.set_shape(value.constant->shape);
          inner.constant = value.constant;
        } else {
          body.captures.emplace_back(outer, body.inputs[i]);
        }
        continue;
      }
      const ValueId sequence = body.add_value(object_value(value.name, value.object));
      body.captures.emplace_back(outer, sequence);
      first.push_back(make_node("SequenceAt", opset_, {sequence, iteration_}, {body.inputs[i]}));
    }
    for (Node& node : body.nodes) first.push_back(std::move(node));
    body.nodes = std::move(first);
    body.inputs = {iteration_, condition_};
    return {};
  }

  // Each output of the model's body is appended to a sequence that the loop carries.
  Status append_results(Graph& body, PerNode<Node>& nodes, Node& loop) {
    const ValueId next = body.add_value(tensor_value(name_ + "/next", DataType::kBool));
    body.nodes.push_back(make_node("Identity", opset_, {condition_}, {next}));
    std::vector<ValueId> outputs = {next};
    for (size_t i = 0; i < node_.outputs.size(); ++i) {
      const ValueId made = body.outputs[i];
      const DataType type = body.value(made).type;
      TENON_UNSUPPORTED_IF(!body.value(made).is_tensor || type == DataType::kUndefined,
                           "Output \"{}\" of the body of node {} has no element type.", body.value(made).name, name_);
      const ObjectTypeRef sequence = ObjectType::sequence(ObjectType::tensor(type));
      const ValueId empty = graph_.add_value(object_value(format("{}/empty_{}", name_, i), sequence));
      nodes.push_back(make_node("SequenceEmpty", opset_, {}, {empty}));
      nodes.back().set_int("dtype", static_cast<int64_t>(type));
      loop.inputs.push_back(empty);
      loop.outputs.push_back(node_.outputs[i]);
      if (node_.outputs[i] != kNoValue) graph_.value(node_.outputs[i]).set_object(sequence);
      const ValueId before = body.add_value(object_value(format("{}/before_{}", name_, i), sequence));
      const ValueId after = body.add_value(object_value(format("{}/after_{}", name_, i), sequence));
      body.inputs.push_back(before);
      body.nodes.push_back(make_node("SequenceInsert", opset_, {before, made}, {after}));
      outputs.push_back(after);
    }
    body.outputs = std::move(outputs);
    return {};
  }

  Graph& graph_;
  const Node& node_;
  const std::string name_;
  int opset_ = 0;
  ValueId iteration_, condition_;
};

bool is_sequence_map(const Node& node) { return node.domain.empty() && node.op_type == "SequenceMap"; }

}  // namespace

Result<bool> expand_sequence_maps(Graph& graph) {
  bool here = false, any = false;
  for (Node& node : graph.nodes) {
    here = here || is_sequence_map(node);
    for (Attribute& attribute : node.attributes.edit_bodies()) {
      if (!attribute.graph) continue;
      if (attribute.graph.use_count() > 1) attribute.graph = std::make_shared<Graph>(*attribute.graph);
      TENON_TRY_ASSIGN(const bool inside, expand_sequence_maps(*attribute.graph));
      any = any || inside;
    }
  }
  if (!here) return any;
  PerNode<Node> nodes;
  for (Node& node : graph.nodes) {
    if (is_sequence_map(node)) {
      TENON_TRY(Expansion(graph, node).run(nodes));
    } else {
      nodes.push_back(std::move(node));
    }
  }
  graph.nodes = std::move(nodes);
  return true;
}

}  // namespace tenon
