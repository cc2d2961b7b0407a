#include "runtime/model_description.h"

#include "base/log.h"
#include "runtime/model_summary.h"

namespace tenon {

namespace {

// The output that programs see: ONNX Runtime merges what the model declares with what its operators give. A declaration
// adds to what is unknown; one that contradicts leaves the dimension, or the rank, open.
Value merged(const Value& declared, const Value& inferred) {
  Value out = inferred;
  if (!declared.has_rank) return out;
  if (!inferred.has_rank) {
    out.has_rank = true;
    out.dims = declared.dims;
    return out;
  }
  bool agree = declared.dims.size() == inferred.dims.size();
  out.has_rank = agree;
  for (size_t i = 0; i < inferred.dims.size() && out.has_rank; ++i) {
    const Dim &said = declared.dims[i], &found = inferred.dims[i];
    if (!found.known() && (said.known() || !said.symbol.empty())) out.dims[i] = said;
    if (!found.known() || !said.known() || found.value == said.value) continue;
    out.dims[i] = Dim{};
    agree = false;
  }
  if (!agree)
    log_warning("load", "The model declares output \"{}\" as {}, and its operators give {}; what they give counts.",
                inferred.name, declared.type_text(), inferred.type_text());
  return out;
}

// A view of an initializer; undefined for strings.
Tensor default_of(const Value& value) {
  if (value.constant == nullptr || value.constant->type == DataType::kString) return {};
  const Constant& constant = *value.constant;
  Result<Tensor> view = Tensor::view(constant.type, constant.shape, const_cast<std::byte*>(constant.data.bytes()),
                                     constant.size_bytes, constant.owner);
  return view.ok() ? view->as_read_only() : Tensor();
}

}  // namespace

std::vector<Value> declared_outputs(const Graph& graph) {
  std::vector<Value> declared;
  declared.reserve(graph.outputs.size());
  for (ValueId id : graph.outputs) declared.push_back(graph.value(id));
  return declared;
}

Status check_output_types(const Graph& graph, std::span<const Value> declared) {
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Value &said = declared[i], &made = graph.value(graph.outputs[i]);
    if (!said.is_tensor || !made.is_tensor) continue;
    if (said.type == DataType::kUndefined || made.type == DataType::kUndefined) continue;
    TENON_INVALID_IF(said.type != made.type,
                     "Output \"{}\" as it is declared and as it is made differ in type: {} and {}.", made.name,
                     data_type_name(said.type), data_type_name(made.type));
  }
  return Status();
}

ModelDescription describe_model(const Model& model, std::span<const Value> declared) {
  ModelDescription described;
  const Graph& graph = model.graph;
  for (ValueId id : graph.inputs) described.inputs.push_back(info_of(graph.value(id)));
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    described.outputs.push_back(info_of(merged(declared[i], graph.value(graph.outputs[i]))));
  // Before IR 4 every initializer had to be listed, so that says nothing there.
  if (model.info.ir_version >= 4) {
    for (ValueId id : model.notes.overridable) {
      const Value& value = graph.value(id);
      described.overridable.push_back(info_of(value));
      described.overridable_defaults.push_back(default_of(value));
    }
  }
  described.metadata = metadata_of(model);
  return described;
}

}  // namespace tenon
