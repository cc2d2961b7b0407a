#include "runtime/node_observer.h"

#include <utility>

#include "base/format.h"
#include "base/trace.h"

namespace tenon {

namespace {

// As ONNX Runtime's profiles name element types.
std::string_view type_name(DataType type) {
  if (type == DataType::kFloat) return "float";
  if (type == DataType::kDouble) return "double";
  return data_type_name(type);
}

size_t bytes_of(const NodeRun::Tensor& tensor) {
  const Result<size_t> bytes = tensor_size_bytes(tensor.type, tensor.shape);
  return bytes.ok() ? *bytes : 0;
}

// [{"float":[2,4]},...]
std::string shapes_json(std::span<const NodeRun::Tensor> tensors) {
  std::string out;
  for (const NodeRun::Tensor& tensor : tensors) {
    std::string dims;
    for (int64_t d = 0; d < tensor.shape.rank(); ++d) dims += format("{}{}", d > 0 ? "," : "", tensor.shape[d]);
    out += format("{}{{\"{}\":[{}]}}", out.empty() ? "" : ",", type_name(tensor.type), dims);
  }
  return "[" + out + "]";
}

thread_local constinit NodeObserver* observer_of_thread = nullptr;
thread_local constinit bool run_by_plugin = false;

}  // namespace

std::string node_arguments(const NodeRun& node) {
  size_t parameters = 0, activations = 0, outputs = 0;
  for (const NodeRun::Tensor& tensor : node.inputs) (tensor.is_constant ? parameters : activations) += bytes_of(tensor);
  for (const NodeRun::Tensor& tensor : node.outputs) outputs += bytes_of(tensor);
  TraceArgs args;
  args.add("op_name", node.op_type)
      .add("provider", node.ep)
      .add("node_index", std::to_string(node.index))
      .add("parameter_size", std::to_string(parameters))
      .add("activation_size", std::to_string(activations))
      .add("output_size", std::to_string(outputs))
      .add_json("input_type_shape", shapes_json(node.inputs))
      .add_json("output_type_shape", shapes_json(node.outputs))
      .add("node", node.name)
      .add("kernel", node.kernel)
      .add("step", node.step)
      .add("stream", node.stream);
  if (!node.model_nodes.empty()) args.add("model_nodes", node.model_nodes);
  return args.members();
}

NodeObserver* NodeObserver::current() { return observer_of_thread; }
void NodeObserver::set_by_plugin(bool by_plugin) { run_by_plugin = by_plugin; }
bool NodeObserver::by_plugin() { return run_by_plugin; }

NodeObserver::Scope::Scope(NodeObserver* observer) : before_(std::exchange(observer_of_thread, observer)) {}
NodeObserver::Scope::~Scope() { observer_of_thread = before_; }

}  // namespace tenon
