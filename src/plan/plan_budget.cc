#include "plan/plan_budget.h"

#include <string>

#include "plan/plan.h"

namespace tenon {

namespace {

constexpr int64_t kBlock = 16;     // what malloc adds
constexpr int64_t kKernel = 1280;  // an object with a few tables, as measured over speech models

int64_t text_bytes(const std::string& text) {
  static const size_t inside = std::string().capacity();
  return text.capacity() > inside ? static_cast<int64_t>(text.capacity()) + kBlock : 0;
}

template <typename T>
int64_t list_bytes(const std::vector<T>& list) {
  return list.capacity() > 0 ? static_cast<int64_t>(list.capacity() * sizeof(T)) + kBlock : 0;
}

int64_t graph_bytes(const Graph& graph) {
  int64_t bytes = list_bytes(graph.values.elements()) + list_bytes(graph.nodes.elements());
  for (const Value& value : graph.values) {
    bytes += text_bytes(value.name) + list_bytes(value.dims);
    // A constant of the model has another owner, the model.
    if (value.constant.use_count() == 1)
      bytes += static_cast<int64_t>(sizeof(Constant) + value.constant->size_bytes) + 2 * kBlock;
  }
  for (const Node& node : graph.nodes)
    bytes += text_bytes(node.name) + text_bytes(node.op_type) + list_bytes(node.inputs) + list_bytes(node.outputs);
  return bytes;
}

}  // namespace

int64_t held_bytes(const Plan& plan) {
  int64_t bytes = static_cast<int64_t>(sizeof(Plan)) + graph_bytes(plan.graph) + list_bytes(plan.steps.elements());
  for (const PlanStep& step : plan.steps) {
    bytes += list_bytes(step.inputs) + list_bytes(step.outputs) + list_bytes(step.dynamic_outputs);
    if (step.kernel != nullptr) bytes += kKernel;
  }
  if (plan.cut != nullptr) bytes += graph_bytes(plan.cut->rest);
  return bytes;
}

}  // namespace tenon
