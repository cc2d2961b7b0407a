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

}  // namespace tenon::cuda
