#include "interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ep/cpu/cpu_provider.h"
#include "ops/shape_inference.h"
#include "plan/evaluate.h"

namespace tenon {

EvaluateNode cpu_evaluate() {
  static const std::unique_ptr<ExecutionProvider> provider = cpu::make_cpu_provider();
  static const std::shared_ptr<ThreadPool> pool = ThreadPool::create({.threads = 1}).value();
  return [](const Graph& graph, const Node& node) {
    return evaluate_node(graph, node, *provider, *pool, size_t{1} << 30);
  };
}

std::vector<ConstantRef> make_inputs(const Graph& graph, int64_t symbol) {
  std::vector<ConstantRef> inputs;
  uint32_t state = 12345;
  for (ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    Shape shape;
    for (const Dim& dim : value.dims) shape.push_back(dim.known() ? dim.value : symbol);
    std::byte* data = nullptr;
    inputs.push_back(make_constant(value.type, shape, &data).value());
    for (size_t i = 0; i < static_cast<size_t>(shape.element_count()); ++i) {
      state = state * 1664525u + 1013904223u;
      const float uniform = static_cast<float>(state >> 8) / 16777216.0f;
      switch (value.type) {
        case DataType::kFloat:
          reinterpret_cast<float*>(data)[i] = uniform * 4 - 2;
          break;
        case DataType::kInt64:
          reinterpret_cast<int64_t*>(data)[i] = static_cast<int64_t>(uniform * 9);
          break;
        case DataType::kInt32:
          reinterpret_cast<int32_t*>(data)[i] = static_cast<int32_t>(uniform * 9);
          break;
        default:
          data[i] = static_cast<std::byte>(uniform < 0.5f);
      }
    }
  }
  return inputs;
}

Graph with_shapes(Graph graph, const std::vector<ConstantRef>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) graph.value(graph.inputs[i]).set_shape(inputs[i]->shape);
  return graph;
}

Result<std::vector<ConstantRef>> interpret(Graph graph, const std::vector<ConstantRef>& inputs) {
  graph = with_shapes(std::move(graph), inputs);
  for (size_t i = 0; i < inputs.size(); ++i) graph.value(graph.inputs[i]).constant = inputs[i];
  EvaluateNode evaluate = cpu_evaluate();
  for (Node& node : graph.nodes) {
    TENON_TRY(infer_node(graph, node));
    TENON_TRY_ASSIGN(std::vector<ConstantRef> results, evaluate(graph, node));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      Value& out = graph.value(node.outputs[i]);
      out.constant = results[i];
      out.type = results[i]->type;
      out.set_shape(results[i]->shape);
    }
  }
  std::vector<ConstantRef> outputs;
  for (ValueId id : graph.outputs) {
    TENON_INVALID_IF(!graph.value(id).constant, "Output \"{}\" has no value.", graph.value(id).name);
    outputs.push_back(graph.value(id).constant);
  }
  return outputs;
}

Status run_named(Graph& graph, PassPhase phase, const std::vector<std::string>& names) {
  TENON_TRY(infer_shapes(graph));
  PassOptions options;
  options.evaluate = cpu_evaluate();
  if (!names.empty()) {
    for (const Pass& pass : pass_table())
      if (std::find(names.begin(), names.end(), pass.name) == names.end()) options.skip.emplace_back(pass.name);
  }
  TENON_TRY(run_passes(graph, phase, options));
  return infer_shapes(graph);
}

double relative_difference(const Constant& a, const Constant& b) {
  if (a.type != b.type || !(a.shape == b.shape)) return std::numeric_limits<double>::infinity();
  if (a.type != DataType::kFloat)
    return a.size_bytes == 0 || std::memcmp(a.data, b.data, a.size_bytes) == 0
               ? 0
               : std::numeric_limits<double>::infinity();
  double worst = 0, largest = 0;
  for (size_t i = 0; i < a.as<float>().size(); ++i) {
    const double x = a.as<float>()[i], y = b.as<float>()[i];
    if (std::isnan(x) != std::isnan(y)) return std::numeric_limits<double>::infinity();
    if (std::isnan(x)) continue;
    worst = std::max(worst, std::fabs(x - y));
    largest = std::max(largest, std::fabs(x));
  }
  return largest > 0 ? worst / largest : worst;
}

std::string operators_after(GraphMaker& maker, int64_t symbol) {
  Graph graph = maker.graph();
  const std::vector<ConstantRef> inputs = make_inputs(graph, symbol);
  Result<std::vector<ConstantRef>> before = interpret(graph, inputs);
  if (!before.ok()) return std::string(before.status().message());
  if (Status status = run_named(graph, PassPhase::kLoad, {}); !status.ok()) return std::string(status.message());
  graph = with_shapes(graph, inputs);
  if (Status status = run_named(graph, PassPhase::kPlan, {}); !status.ok()) return std::string(status.message());
  Result<std::vector<ConstantRef>> after = interpret(graph, inputs);
  if (!after.ok()) return std::string(after.status().message());
  for (size_t i = 0; i < before->size(); ++i)
    if (relative_difference(*(*before)[i], *(*after)[i]) > 2e-5) return "the results differ:\n" + graph.to_text();
  std::string text;
  for (const Node& node : graph.nodes) {
    text += (text.empty() ? "" : " ") + (node.domain.empty() ? "" : node.domain + ".") + node.op_type;
    if (const Attribute* kind = node.find("activation")) text += ":" + kind->s;
    if ((node.op_type == "Conv" || node.op_type == "MatMul") && node.input(3) != kNoValue) text += "+residual";
  }
  return text;
}

}  // namespace tenon
