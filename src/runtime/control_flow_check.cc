// Checks If, Loop and Scan when their model is loaded.
#include <algorithm>

#include "ops/attributes.h"
#include "ops/control_flow.h"
#include "plan/control_flow.h"
#include "runtime/control_flow.h"

namespace tenon {

namespace {

struct Question {
  const Graph& graph;
  const Node& node;
  std::string label;
};

Status check_tensor(const Question& asked, const Graph& graph, ValueId id) {
  if (id == kNoValue) return {};
  const Value& value = graph.value(id);
  TENON_UNSUPPORTED_IF(!value.is_tensor && value.object == nullptr,
                       "Node {} uses value \"{}\", which is no tensor, sequence, optional or map.", asked.label,
                       value.name);
  TENON_UNSUPPORTED_IF(value.type != DataType::kUndefined && data_type_bits(value.type) == 0,
                       "Node {} uses value \"{}\" of type {}, which If, Loop and Scan do not carry.", asked.label,
                       value.name, data_type_name(value.type));
  return {};
}

Status check_same_type(const Question& asked, const Value& outer, const Value& inner, const char* what) {
  if (outer.type == DataType::kUndefined || inner.type == DataType::kUndefined || outer.type == inner.type) return {};
  return invalid_argument("Node {}: {} \"{}\" is {}, but \"{}\" is {}.", asked.label, what, outer.name,
                          data_type_name(outer.type), inner.name, data_type_name(inner.type));
}

Status check_body(const Question& asked, const char* name, size_t inputs, size_t outputs, bool more_outputs,
                  const ExecutionProvider& cpu) {
  const Graph* const graph = Attributes(asked.node).graph(name);
  TENON_INVALID_IF(graph == nullptr, "Node {} has no subgraph \"{}\".", asked.label, name);
  const Graph& body = *graph;
  TENON_INVALID_IF(body.inputs.size() != inputs, "The subgraph \"{}\" of node {} has {} inputs, not {}.", name,
                   asked.label, body.inputs.size(), inputs);
  TENON_INVALID_IF(body.outputs.size() < outputs || (!more_outputs && body.outputs.size() != outputs),
                   "The subgraph \"{}\" of node {} has {} outputs, not {}.", name, asked.label, body.outputs.size(),
                   outputs);
  for (ValueId id : body.inputs) TENON_TRY(check_tensor(asked, body, id));
  for (ValueId id : body.outputs) TENON_TRY(check_tensor(asked, body, id));
  for (const auto& [outer, inner] : body.captures) {
    if (body.value(inner).is_tensor && asked.graph.value(outer).is_tensor) continue;
    TENON_TRY(check_tensor(asked, asked.graph, outer));
  }
  for (const Node& node : body.nodes) {
    Status status = is_control_flow(node) ? check_control_flow(body, node, cpu) : cpu.can_run(body, node);
    if (!status.ok()) {
      return std::move(status).with_context(format("in the subgraph \"{}\" of node {}", name, asked.label));
    }
  }
  return {};
}

Status check_if(const Question& asked, const ExecutionProvider& cpu) {
  TENON_INVALID_IF(asked.node.inputs.size() != 1 || asked.node.inputs[0] == kNoValue,
                   "Node {} has {} inputs; an If has its condition.", asked.label, asked.node.inputs.size());
  for (const char* name : {"then_branch", "else_branch"}) {
    TENON_TRY(check_body(asked, name, 0, asked.node.outputs.size(), false, cpu));
    const Graph& body = *Attributes(asked.node).graph(name);
    for (size_t i = 0; i < asked.node.outputs.size(); ++i) {
      if (asked.node.outputs[i] == kNoValue) continue;
      TENON_TRY(
          check_same_type(asked, asked.graph.value(asked.node.outputs[i]), body.value(body.outputs[i]), "the output"));
    }
  }
  return {};
}

Status check_carried(const Question& asked, size_t first, size_t first_in, size_t first_out, size_t count) {
  const Graph& body = *Attributes(asked.node).graph("body");
  for (size_t i = 0; i < count; ++i) {
    const ValueId initial = asked.node.input(first + i);
    TENON_INVALID_IF(initial == kNoValue, "Input {} of node {} is absent.", first + i, asked.label);
    const Value& in = body.value(body.inputs[first_in + i]);
    TENON_TRY(check_same_type(asked, asked.graph.value(initial), in, "the input"));
    TENON_TRY(check_same_type(asked, in, body.value(body.outputs[first_out + i]), "the carried value"));
  }
  return {};
}

Status check_loop(const Question& asked, const ExecutionProvider& cpu) {
  TENON_INVALID_IF(asked.node.inputs.size() < 2, "Node {} has {} inputs; a Loop has at least 2.", asked.label,
                   asked.node.inputs.size());
  const size_t carried = asked.node.inputs.size() - 2;
  TENON_TRY(check_body(asked, "body", carried + 2, 1 + std::max(carried, asked.node.outputs.size()), true, cpu));
  return check_carried(asked, 2, 2, 1, carried);
}

Status check_scan(const Question& asked, const ExecutionProvider& cpu) {
  const size_t inputs = asked.node.inputs.size();
  Result<ScanDesc> scan = read_scan(asked.node, inputs);
  if (!scan.ok()) return std::move(scan).status().with_context(format("in node {}", asked.label));
  TENON_TRY(check_body(asked, "body", inputs - scan->first_state, std::max(scan->states, asked.node.outputs.size()),
                       true, cpu));
  return check_carried(asked, scan->first_state, 0, 0, scan->states);
}

}  // namespace

Status check_control_flow(const Graph& graph, const Node& node, const ExecutionProvider& cpu) {
  const Question asked{graph, node, node.label(graph)};
  for (ValueId id : node.inputs) TENON_TRY(check_tensor(asked, graph, id));
  for (ValueId id : node.outputs) TENON_TRY(check_tensor(asked, graph, id));
  if (node.op_type == "If") return check_if(asked, cpu);
  return node.op_type == "Loop" ? check_loop(asked, cpu) : check_scan(asked, cpu);
}

}  // namespace tenon
