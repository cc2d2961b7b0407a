#include "ep/cuda/compute/region.h"

#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/rewrites.h"
#include "graph/shape_inference.h"
#include "plan/bind_shapes.h"
#include "plan/pass_table.h"

namespace tenon::cuda {

namespace {

bool is_float(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type == DataType::kDouble;
}

// The one 16-bit type of all the graph's floats; kUndefined when there is another float, or none.
DataType uniform_half(const Graph& graph) {
  DataType half = DataType::kUndefined;
  for (const Node& node : graph.nodes)
    for (const auto& ids : {node.inputs, node.outputs})
      for (ValueId id : ids) {
        if (id == kNoValue || !is_float(graph.value(id).type)) continue;
        const DataType type = graph.value(id).type;
        if (data_type_size(type) != 2 || (half != DataType::kUndefined && type != half)) return DataType::kUndefined;
        half = type;
      }
  return half;
}

// Numbers that activations are recognised by, which 16 bits round too far for that: where one stands rounded, it is
// meant.
float meant(float value, DataType half) {
  for (const float number : {1.41421356F, 0.70710678F, 0.79788456F, 0.044715F, 0.16666667F}) {
    uint16_t bits = 0;
    Constant rounded{.type = half, .data = reinterpret_cast<const std::byte*>(&bits), .size_bytes = sizeof(bits)};
    store_floats({&number, 1}, half, reinterpret_cast<std::byte*>(&bits));
    if (floats_of(rounded)[0] == value) return number;
  }
  return value;
}

Result<ConstantRef> as_float(const Constant& constant) {
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef wide, make_constant(DataType::kFloat, constant.shape, &data));
  convert_floats(constant, DataType::kFloat, data);
  auto* const number = reinterpret_cast<float*>(data);
  if (wide->size_bytes == sizeof(float)) *number = meant(*number, constant.type);
  return wide;
}

// Every value and attribute of type `half` becomes one of float32.
Status call_floats(Graph& graph, DataType half) {
  for (Value& value : graph.values) {
    if (value.type != half) continue;
    value.type = DataType::kFloat;
    if (value.constant != nullptr) {
      TENON_TRY_ASSIGN(value.constant, as_float(*value.constant));
    }
  }
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes) {
      if (attribute.tensor != nullptr && attribute.tensor->type == half) {
        TENON_TRY_ASSIGN(attribute.tensor, as_float(*attribute.tensor));
      }
      if ((attribute.name == "to" || attribute.name == "dtype") && attribute.i == static_cast<int64_t>(half))
        attribute.i = static_cast<int64_t>(DataType::kFloat);
    }
  return Status();
}

PassOptions pass_options() { return {.evaluate = &evaluate_on_host, .skip = {}, .observe = {}}; }

}  // namespace

Result<Region> Region::prepare(Graph graph) {
  const DataType half = uniform_half(graph);
  if (half != DataType::kUndefined) TENON_TRY(call_floats(graph, half));
  TENON_TRY(infer_shapes(graph));
  TENON_TRY(run_rewrites(graph));
  TENON_TRY(infer_shapes(graph));
  TENON_TRY(run_passes(graph, PassPhase::kLoad, pass_options()));
  return Region(std::move(graph), half);
}

Result<Graph> Region::at(std::span<const Shape> inputs) const {
  Graph graph = graph_;
  TENON_INVALID_IF(inputs.size() != graph.inputs.size(), "The region has {} inputs; {} shapes are given.",
                   graph.inputs.size(), inputs.size());
  TENON_TRY(check_input_shapes(graph, inputs));
  set_input_shapes(graph, inputs);
  TENON_TRY(infer_shapes(graph));
  TENON_TRY(run_rewrites(graph));
  TENON_TRY(infer_shapes(graph));
  TENON_TRY(run_passes(graph, PassPhase::kPlan, pass_options()));
  for (ValueId id : graph.outputs)
    TENON_UNSUPPORTED_IF(!graph.value(id).fully_known(), "The shape of output \"{}\" is only known at run time.",
                         graph.value(id).name);
  return graph;
}

Result<Program> Region::lower_at(std::span<const Shape> inputs, bool tf32) const {
  TENON_TRY_ASSIGN(const Graph graph, at(inputs));
  return lower(graph, {.half = half_, .tf32 = tf32});
}

namespace {

// A graph of this node alone, its run-time inputs as inputs.
Graph alone(const Graph& graph, const Node& node) {
  Graph single;
  single.opsets = graph.opsets;
  Node copy = node;
  std::vector<std::pair<ValueId, ValueId>> made;
  const auto map = [&](ValueId id) {
    if (id == kNoValue) return id;
    for (const auto& [from, to] : made)
      if (from == id) return to;
    const ValueId to = single.add_value(graph.value(id));
    made.emplace_back(id, to);
    return to;
  };
  for (ValueId& id : copy.inputs) {
    const bool known = id == kNoValue || graph.value(id).constant != nullptr ||
                       std::any_of(made.begin(), made.end(), [&](const auto& pair) { return pair.first == id; });
    id = map(id);
    if (!known) single.inputs.push_back(id);
  }
  for (ValueId& id : copy.outputs) {
    id = map(id);
    if (id != kNoValue) single.outputs.push_back(id);
  }
  single.nodes.push_back(std::move(copy));
  return single;
}

// Lowers the node by itself where its shapes are known: what is refused then is refused in a region too.
Status try_alone(const Graph& graph, const Node& node) {
  for (const auto& ids : {node.inputs, node.outputs})
    for (ValueId id : ids)
      if (id != kNoValue && !graph.value(id).fully_known()) return can_lower(graph, node);
  Graph single = alone(graph, node);
  TENON_TRY(run_rewrites(single));
  TENON_TRY(infer_shapes(single));
  for (const Node& part : single.nodes) TENON_TRY(can_lower(single, part));
  return lower(single, {}).status();
}

bool is_whole(DataType type) { return type == DataType::kInt64 || type == DataType::kInt32 || type == DataType::kBool; }

}  // namespace

std::vector<bool> claim_nodes(const Graph& graph) {
  // Values that follow from shapes alone: numbers once the shapes are.
  std::vector<bool> from_shapes(graph.values.size(), false);
  for (size_t v = 0; v < graph.values.size(); ++v) from_shapes[v] = graph.values[v].constant != nullptr;
  std::vector<bool> shape_node(graph.nodes.size(), false), claimed(graph.nodes.size(), false);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.domain.empty() || node.outputs.size() != 1) continue;
    const bool whole = is_whole(graph.value(node.outputs[0]).type);
    const bool follows = node.op_type == "Shape" || node.op_type == "Size" ||
                         std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
                           return id == kNoValue || from_shapes[static_cast<size_t>(id)];
                         });
    static constexpr std::string_view kShapeOps[] = {
        "Shape", "Size",  "Gather",   "Concat",   "Unsqueeze", "Squeeze", "Add",       "Sub",
        "Mul",   "Div",   "Cast",     "Slice",    "Range",     "Reshape", "Expand",    "ConstantOfShape",
        "Equal", "Where", "Identity", "Constant", "Min",       "Max",     "ReduceProd"};
    const bool known_op = std::find(std::begin(kShapeOps), std::end(kShapeOps), node.op_type) != std::end(kShapeOps);
    if (!follows || !known_op ||
        !(whole || node.op_type == "ConstantOfShape" || node.op_type == "Expand" || node.op_type == "Cast" ||
          node.op_type == "Constant"))
      continue;
    shape_node[n] = true;
    from_shapes[static_cast<size_t>(node.outputs[0])] = true;
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (shape_node[n]) {
      claimed[n] = true;
      continue;
    }
    bool sizes_known = true;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] != kNoValue && shape_depends_on_value(node, i))
        sizes_known = sizes_known && from_shapes[static_cast<size_t>(node.inputs[i])];
    claimed[n] = sizes_known && try_alone(graph, node).ok();
  }
  // A size that somebody else reads is better computed where it is read.
  const std::vector<bool> shape_nodes = shape_node;
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<bool> read_outside(graph.values.size(), false);
    for (ValueId id : graph.outputs) read_outside[static_cast<size_t>(id)] = true;
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      if (!claimed[n])
        for (ValueId id : graph.nodes[n].inputs)
          if (id != kNoValue) read_outside[static_cast<size_t>(id)] = true;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (!claimed[n] || !shape_nodes[n] || !read_outside[static_cast<size_t>(graph.nodes[n].outputs[0])]) continue;
      claimed[n] = false;
      changed = true;
    }
    // What needs a size that is not the region's own cannot be planned.
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (!claimed[n]) continue;
      const Node& node = graph.nodes[n];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId id = node.inputs[i];
        if (id == kNoValue || graph.value(id).constant != nullptr || !shape_depends_on_value(node, i)) continue;
        for (size_t p = 0; p < graph.nodes.size(); ++p)
          if (!claimed[p] && std::find(graph.nodes[p].outputs.begin(), graph.nodes[p].outputs.end(), id) !=
                                 graph.nodes[p].outputs.end()) {
            claimed[n] = false;
            changed = true;
          }
      }
    }
  }
  return claimed;
}

}  // namespace tenon::cuda
