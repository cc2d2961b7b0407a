#include "ep/cuda/compute/region.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>

#include "base/format.h"
#include "ep/cuda/compute/parallel.h"
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

// A constant of its own memory, which `fill` gets with room for `count` elements. Not make_constant(), which would fill
// that memory once more: for the weights of a network it is a part of a second.
Result<ConstantRef> filled_constant(const Constant& like, DataType type, size_t size_bytes,
                                    const std::function<void(std::byte*)>& fill) try {
  std::shared_ptr<std::byte[]> memory(new std::byte[size_bytes]);
  fill(memory.get());
  auto made = std::make_shared<Constant>();
  made->type = type;
  made->shape = like.shape;
  made->size_bytes = size_bytes;
  made->data = memory.get();
  made->owner = std::shared_ptr<const void>(memory, memory.get());
  return ConstantRef(std::move(made));
} catch (const std::bad_alloc&) {
  return resource_exhausted("The host has no memory for {} bytes of weights.", size_bytes);
}

Result<ConstantRef> as_float(const Constant& constant) {
  const size_t count = constant.size_bytes / data_type_size(constant.type);
  return filled_constant(constant, DataType::kFloat, count * sizeof(float), [&](std::byte* data) {
    const std::span<float> values(reinterpret_cast<float*>(data), count);
    widen_floats(constant, values);
    if (count == 1) values[0] = meant(values[0], constant.type);
  });
}

// Every value and attribute of type `half` becomes one of float32.
Status call_floats(Graph& graph, DataType half) {
  std::vector<Value*> constants;
  for (Value& value : graph.values) {
    if (value.type != half) continue;
    value.type = DataType::kFloat;
    if (value.constant != nullptr) constants.push_back(&value);
  }
  std::vector<Status> failures(constants.size());
  run_parallel(constants.size(), [&](size_t i) {
    if (Result<ConstantRef> wide = as_float(*constants[i]->constant); wide.ok()) {
      constants[i]->constant = *std::move(wide);
    } else {
      failures[i] = std::move(wide).status();
    }
  });
  for (Status& failure : failures) TENON_TRY(std::move(failure));
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

Status Region::own_constants() {
  // Values may share a constant, and go on doing so: packed weights are found by it.
  std::map<const Constant*, Result<ConstantRef>> owned;
  std::vector<std::pair<const Constant*, Result<ConstantRef>*>> work;
  for (const Value& value : graph_.values) {
    const Constant* const constant = value.constant.get();
    if (constant == nullptr || constant->owner != nullptr || constant->size_bytes == 0 || !constant->strings.empty())
      continue;
    const auto [at, added] = owned.emplace(constant, value.constant);
    if (added) work.emplace_back(constant, &at->second);
  }
  run_parallel(work.size(), [&](size_t i) {
    const Constant& from = *work[i].first;
    *work[i].second = filled_constant(from, from.type, from.size_bytes,
                                      [&](std::byte* data) { std::memcpy(data, from.data, from.size_bytes); });
  });
  for (Value& value : graph_.values) {
    const auto found = owned.find(value.constant.get());
    if (found == owned.end()) continue;
    TENON_TRY(found->second.status());
    value.constant = *found->second;
  }
  return Status();
}

void Region::drop_constants() {
  for (Value& value : graph_.values) value.constant = nullptr;
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

Result<Program> Region::lower_at(std::span<const Shape> inputs, bool tf32, size_t workspace_bytes) const {
  TENON_TRY_ASSIGN(const Graph graph, at(inputs));
  return lower(graph, {.half = half_, .tf32 = tf32, .workspace_bytes = workspace_bytes});
}

}  // namespace tenon::cuda
