#include "plan/expand.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/name_index.h"
#include "graph/schema.h"
#include "ops/shape_inference.h"
#include "plan/node_origins.h"
#include "plan/regions.h"

namespace tenon {

namespace expand {

int Expansion::rank(ValueId id) const {
  return id != kNoValue && value(id).has_rank ? static_cast<int>(value(id).dims.size()) : -1;
}

int64_t Expansion::known_size(ValueId id, int axis) const {
  const int count = rank(id);
  if (count < 0) return -1;
  const int at = axis < 0 ? axis + count : axis;
  if (at < 0 || at >= count) return -1;
  const Dim& dim = value(id).dims[static_cast<size_t>(at)];
  return dim.known() ? dim.value : -1;
}

void Expansion::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

ValueId Expansion::new_value() {
  Value value;
  value.name = node_.label(graph_) + ":" + std::to_string(made_++);
  return graph_.add_value(std::move(value));
}

void Expansion::put(Node node) {
  if (!status_.ok()) return;
  node.name = node_.name;
  fail(infer_node(graph_, node));
  take_origins(node, node_);
  nodes_.push_back(std::move(node));
}

void Expansion::add_node(std::string_view domain, std::string_view op_type, std::vector<ValueId> inputs,
                         const SetAttributes& attributes, std::vector<ValueId> outputs) {
  Node node;
  node.domain = domain;
  node.op_type = op_type;
  const std::optional<Schema> schema = find_schema(domain, op_type, newest_opset(domain));
  node.since_version = schema ? schema->since_version : 1;
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  for (const SetAttribute& one : attributes) {
    if (one.integer) node.set_int(one.name, *one.integer);
    if (one.number) node.set_float(one.name, *one.number);
    if (one.text) node.set_string(one.name, *one.text);
    if (one.integers) node.set_ints(one.name, *one.integers);
  }
  put(std::move(node));
}

ValueId Expansion::add(std::string_view op_type, std::vector<ValueId> inputs, const SetAttributes& attributes,
                       ValueId to) {
  if (to == kNoValue) to = new_value();
  add_node("", op_type, std::move(inputs), attributes, {to});
  return to;
}

std::vector<ValueId> Expansion::add_body(const Graph& body, const std::vector<ValueId>& inputs) {
  if (body.inputs.size() != inputs.size()) {
    fail(invalid_argument("A subgraph of {} has {} inputs, not {}.", node_.op_type, body.inputs.size(), inputs.size()));
    return {};
  }
  PerValue<ValueId> outer(body.values.size(), kNoValue);
  for (size_t i = 0; i < inputs.size(); ++i) outer[body.inputs[i]] = inputs[i];
  for (const auto& [outer_id, inner_id] : body.captures) outer[inner_id] = outer_id;
  for (ValueId id : body.values.ids())
    if (outer[id] == kNoValue) outer[id] = graph_.add_value(body.value(id));
  const auto mapped = [&](ValueId id) { return id == kNoValue ? kNoValue : outer[id]; };
  for (Node copy : body.nodes) {
    for (ValueId& id : copy.inputs) id = mapped(id);
    for (ValueId& id : copy.outputs) id = mapped(id);
    for (Attribute& attribute : copy.attributes.edit_bodies()) {
      if (!attribute.graph) continue;
      attribute.graph = std::make_shared<Graph>(*attribute.graph);
      for (auto& capture : attribute.graph->captures) capture.first = mapped(capture.first);
    }
    put(std::move(copy));
  }
  std::vector<ValueId> outputs;
  outputs.reserve(body.outputs.size());
  for (ValueId id : body.outputs) outputs.push_back(mapped(id));
  return outputs;
}

std::vector<ValueId> Expansion::add_loop(Graph body, std::vector<ValueId> inputs) {
  Node node;
  node.op_type = "Loop";
  node.since_version = find_schema("", "Loop", newest_opset(""))->since_version;
  node.inputs = std::move(inputs);
  for (size_t i = 1; i < body.outputs.size(); ++i) node.outputs.push_back(new_value());
  Attribute& attribute = node.attributes.edit().emplace_back();
  attribute.name = "body";
  attribute.kind = AttributeKind::kGraph;
  attribute.graph = std::make_shared<Graph>(std::move(body));
  std::vector<ValueId> outputs = node.outputs;
  put(std::move(node));
  return outputs;
}

ValueId Expansion::add_constant(ConstantRef constant) {
  return graph_.add_constant(node_.label(graph_) + ":" + std::to_string(made_++), std::move(constant));
}

ValueId Expansion::constant(std::span<const int64_t> values, bool is_scalar) {
  return add_constant(make_int64_constant(values, is_scalar));
}

ValueId Expansion::scalar(double value, DataType type) {
  std::byte* data = nullptr;
  Result<ConstantRef> made = make_constant(DataType::kFloat, Shape{}, &data);
  if (!made.ok()) {
    fail(made.status());
    return new_value();
  }
  *reinterpret_cast<float*>(data) = static_cast<float>(value);
  const ValueId number = add_constant(*std::move(made));
  return type == DataType::kFloat ? number : cast(number, type);
}

ValueId Expansion::numbers(std::span<const float> values) {
  std::byte* data = nullptr;
  Result<ConstantRef> made = make_constant(DataType::kFloat, Shape{std::ssize(values)}, &data);
  if (!made.ok()) {
    fail(made.status());
    return new_value();
  }
  std::copy(values.begin(), values.end(), reinterpret_cast<float*>(data));
  return add_constant(*std::move(made));
}

ValueId Expansion::sizes(ValueId id, int64_t begin, int64_t end) {
  return add("Shape", {id}, {integer("start", begin), integer("end", end)});
}

ValueId Expansion::cast(ValueId id, DataType type, ValueId to) {
  return add("Cast", {id}, {integer("to", static_cast<int64_t>(type))}, to);
}

ValueId Expansion::reshape(ValueId id, std::initializer_list<int64_t> shape, ValueId to) {
  return add("Reshape", {id, constant(shape)}, {}, to);
}

ValueId Expansion::transpose(ValueId id, std::vector<int64_t> perm, ValueId to) {
  return add("Transpose", {id}, {integers("perm", std::move(perm))}, to);
}

namespace {

struct Table {
  Table() : index(64) {
    const auto add = [&](std::span<const Row> all) {
      for (const Row& row : all) {
        index.add(row.op_type);
        rows.push_back(&row);
      }
    };
#define TENON_ADD_(function) add(function());
    TENON_EXPAND_FAMILIES(TENON_ADD_)
#undef TENON_ADD_
  }

  NameIndex index;
  std::vector<const Row*> rows;
};

// Null where a node of that operator stays as it is.
Expand find_expansion(const Node& node) {
  static const Table kTable;
  for (int32_t row = kTable.index.first(node.op_type); row != NameIndex::kNone; row = kTable.index.next(row))
    if (kTable.rows[static_cast<size_t>(row)]->domain == node.domain)
      return kTable.rows[static_cast<size_t>(row)]->expand;
  return nullptr;
}

bool may_change(const Node& node) {
  return find_expansion(node) != nullptr || std::any_of(node.attributes.begin(), node.attributes.end(),
                                                        [](const Attribute& one) { return one.graph != nullptr; });
}

// An expansion reads the inputs that the schema requires. A node without a schema has an operator that its opset lacks:
// it stays, and is refused by that name.
Status check_inputs(const Node& node, const Schema& schema) {
  for (size_t i = 0; i < node.inputs.size() && !schema.inputs.empty(); ++i) {
    constexpr int8_t kSingle = 0;
    const SchemaParameter input = schema.inputs[std::min(i, schema.inputs.size() - 1)];
    TENON_INVALID_IF(node.inputs[i] == kNoValue && input.option == kSingle, "Input {} ({}) of {} is absent.", i,
                     input.name, node.op_type);
  }
  return {};
}

// Attributes decide whether some operators have an output at all.
Status check_outputs(Expansion& to) {
  const std::vector<ValueId>& outputs = to.node().outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool made = outputs[i] == kNoValue || std::ranges::any_of(to.nodes(), [&](const Node& one) {
                        return std::ranges::find(one.outputs, outputs[i]) != one.outputs.end();
                      });
    TENON_INVALID_IF(!made, "{} has no output {} with these attributes and inputs.", to.node().op_type, i);
  }
  return {};
}

}  // namespace

}  // namespace expand

Status expand_operators(Graph& graph) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), &expand::may_change)) return {};
  PerNode<Node> nodes;
  nodes.reserve(graph.nodes.size());
  const PerValue<int32_t> uses = graph.use_counts();
  bool changed = false;
  for (Node& node : graph.nodes) {
    // What comes after an expanded node has types and shapes only now.
    if (changed) TENON_TRY(infer_node(graph, node));
    if (!is_region(node)) {
      for (Attribute& attribute : node.attributes.edit_bodies()) {
        if (!attribute.graph) continue;
        if (attribute.graph.use_count() > 1) attribute.graph = std::make_shared<Graph>(*attribute.graph);
        TENON_TRY_CONTEXT(expand_operators(*attribute.graph), "in attribute \"{}\" of {}", attribute.name,
                          node.label(graph));
      }
    }
    const expand::Expand expansion = expand::find_expansion(node);
    const std::optional<Schema> schema =
        expansion != nullptr ? find_schema(node.domain, node.op_type, node.since_version) : std::nullopt;
    if (schema) {
      TENON_TRY_CONTEXT(expand::check_inputs(node, *schema), "while expanding {}", node.label(graph));
      Node asked = node;
      for (ValueId& id : asked.outputs)
        if (id != kNoValue && uses[id] == 0) id = kNoValue;
      expand::Expansion to(graph, std::move(asked));
      expansion(to);
      TENON_TRY_CONTEXT(to.status(), "while expanding {}", node.label(graph));
      if (!to.nodes().empty()) {
        TENON_TRY_CONTEXT(expand::check_outputs(to), "while expanding {}", node.label(graph));
        for (Node& one : to.nodes()) nodes.push_back(std::move(one));
        changed = true;
        continue;
      }
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  return {};
}

}  // namespace tenon
