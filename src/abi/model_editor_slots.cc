// OrtModelEditorApi: values, nodes, graphs and models that a program makes.
#include <algorithm>
#include <utility>

#include "abi/model_editor.h"
#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"

namespace tenon::abi {

namespace {

OrtStatus* read_names(const char* const* names, size_t count, const char* what, std::vector<std::string>& out) {
  if (count > 0 && names == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "The array of {} names is null.", what);
  for (size_t i = 0; i < count; ++i) {
    if (names[i] == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "The name of {} {} is null.", what, i);
    out.emplace_back(names[i]);
  }
  return nullptr;
}

// Takes the values over when all of them can be taken; those that were set before are released.
OrtStatus* set_boundary(OrtGraph* graph, OrtValueInfo** values, size_t count, const char* what,
                        std::vector<const OrtValueInfo*> OrtGraph::* list, bool OrtValueInfo::* mark) noexcept {
  if (graph == nullptr) return null_argument("graph");
  if (graph->core != nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "\"{}\" is a view of a model that is loaded.", graph->name);
  if (count > 0 && values == nullptr) return null_argument(what);
  return guarded([&]() -> OrtStatus* {
    for (size_t i = 0; i < count; ++i) {
      if (values[i] == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "{} {} is null.", what, i);
      if (values[i]->graph != nullptr)
        return ort_error(ORT_INVALID_ARGUMENT, "\"{}\" belongs to a graph already.", values[i]->name);
      if (std::find(values, values + i, values[i]) != values + i)
        return ort_error(ORT_INVALID_ARGUMENT, "\"{}\" is given twice.", values[i]->name);
    }
    graph->values.reserve(graph->values.size() + count);
    (graph->*list).reserve(count);
    std::erase_if(graph->values, [&](const std::unique_ptr<OrtValueInfo>& value) { return (*value).*mark; });
    (graph->*list).clear();
    for (size_t i = 0; i < count; ++i) {
      values[i]->graph = graph;
      values[i]->*mark = true;
      graph->values.emplace_back(values[i]);
      (graph->*list).push_back(values[i]);
    }
    return nullptr;
  });
}

}  // namespace

OrtStatus* model_editor_api::CreateValueInfo(const char* name, const OrtTypeInfo* type_info,
                                             OrtValueInfo** value_info) noexcept {
  clear(value_info);
  if (name == nullptr || *name == '\0') return ort_error(ORT_INVALID_ARGUMENT, "name cannot be null or empty string");
  if (type_info == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "type_info cannot be null");
  if (value_info == nullptr) return null_argument("value_info");
  return guarded([&]() -> OrtStatus* {
    auto made = std::make_unique<OrtValueInfo>();
    made->name = name;
    made->type = *type_info;
    *value_info = made.release();
    return nullptr;
  });
}

// The node takes the attributes over, as in the reference; a failed call leaves them the caller's.
OrtStatus* model_editor_api::CreateNode(const char* operator_name, const char* domain_name, const char* node_name,
                                        const char* const* input_names, size_t input_names_len,
                                        const char* const* output_names, size_t output_names_len,
                                        OrtOpAttr** attributes, size_t attribs_len, OrtNode** node) noexcept {
  clear(node);
  if (OrtStatus* bad = check_pointers(
          "CreateNode",
          {{"operator_name", operator_name}, {"domain_name", domain_name}, {"node_name", node_name}, {"node", node}}))
    return bad;
  if (attributes == nullptr) attribs_len = 0;  // as in the reference
  return guarded([&]() -> OrtStatus* {
    auto made = std::make_unique<OrtNode>();
    made->op_type = operator_name;
    made->domain = domain_name;
    made->name = node_name;
    if (OrtStatus* bad = read_names(input_names, input_names_len, "input", made->input_names)) return bad;
    if (OrtStatus* bad = read_names(output_names, output_names_len, "output", made->output_names)) return bad;
    made->inputs.resize(input_names_len);
    made->outputs.resize(output_names_len);
    for (size_t i = 0; i < attribs_len; ++i) {
      if (attributes[i] == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Attribute {} is null.", i);
      if (std::find(attributes, attributes + i, attributes[i]) != attributes + i)
        return ort_error(ORT_INVALID_ARGUMENT, "Attribute {} is there twice; each belongs to one place.", i);
      OrtOpAttr copy;
      copy.owned = std::make_unique<Attribute>(*attributes[i]->attribute);
      copy.attribute = copy.owned.get();
      made->attributes.push_back(std::move(copy));
    }
    for (size_t i = 0; i < attribs_len; ++i) delete attributes[i];
    *node = made.release();
    return nullptr;
  });
}

OrtStatus* model_editor_api::CreateGraph(OrtGraph** graph) noexcept {
  clear(graph);
  if (graph == nullptr) return null_argument("graph");
  return make_object(graph);
}

OrtStatus* model_editor_api::SetGraphInputs(OrtGraph* graph, OrtValueInfo** inputs, size_t inputs_len) noexcept {
  return set_boundary(graph, inputs, inputs_len, "inputs", &OrtGraph::inputs, &OrtValueInfo::graph_input);
}

OrtStatus* model_editor_api::SetGraphOutputs(OrtGraph* graph, OrtValueInfo** outputs, size_t outputs_len) noexcept {
  return set_boundary(graph, outputs, outputs_len, "outputs", &OrtGraph::outputs, &OrtValueInfo::graph_output);
}

// The graph takes the tensor over. `data_is_external` changes nothing here: no initializer is copied.
OrtStatus* model_editor_api::AddInitializerToGraph(OrtGraph* graph, const char* name, OrtValue* tensor,
                                                   bool data_is_external) noexcept {
  if (OrtStatus* bad = check_pointers("AddInitializerToGraph", {{"graph", graph}, {"name", name}, {"tensor", tensor}}))
    return bad;
  if (graph->core != nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "\"{}\" is a view of a model that is loaded.", graph->name);
  if (*name == '\0') return make_ort_status(ORT_INVALID_ARGUMENT, "name cannot be null or empty");
  if (!tensor->is_tensor()) return ort_error(ORT_INVALID_ARGUMENT, "The initializer \"{}\" is not a tensor.", name);
  for (const EditorInitializer& one : graph->editor_initializers)
    if (one.name == name)
      return make_ort_status(ORT_INVALID_ARGUMENT,
                             "An initializer with this name has already been added to the graph.");
  // The graph owns each of them.
  for (const EditorInitializer& one : graph->editor_initializers)
    if (one.value.get() == tensor)
      return make_ort_status(ORT_INVALID_ARGUMENT,
                             "This OrtValue pointer has already been added to the graph. Each OrtValue must only be "
                             "added once.");
  return guarded([&]() -> OrtStatus* {
    EditorInitializer made{name, nullptr, data_is_external};
    graph->editor_initializers.reserve(graph->editor_initializers.size() + 1);
    made.value.reset(tensor);
    graph->editor_initializers.push_back(std::move(made));
    return nullptr;
  });
}

OrtStatus* model_editor_api::AddNodeToGraph(OrtGraph* graph, OrtNode* node) noexcept {
  if (OrtStatus* bad = check_pointers("AddNodeToGraph", {{"graph", graph}, {"node", node}})) return bad;
  if (graph->core != nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "\"{}\" is a view of a model that is loaded.", graph->name);
  if (node->graph != nullptr || node->core.valid())
    return ort_error(ORT_INVALID_ARGUMENT, "Node \"{}\" belongs to a graph already.", node->name);
  return guarded([&]() -> OrtStatus* {
    graph->nodes.reserve(graph->nodes.size() + 1);
    node->id = graph->nodes.size();
    node->graph = graph;
    graph->nodes.emplace_back(node);
    return nullptr;
  });
}

OrtStatus* model_editor_api::CreateModel(const char* const* domain_names, const int* opset_versions,
                                         size_t opset_entries_len, OrtModel** model) noexcept {
  clear(model);
  if (model == nullptr) return null_argument("model");
  if (opset_entries_len > 0 && domain_names == nullptr) return null_argument("domain_names");
  if (opset_entries_len > 0 && opset_versions == nullptr) return null_argument("opset_versions");
  return guarded([&]() -> OrtStatus* {
    auto made = std::make_unique<OrtModel>();
    for (size_t i = 0; i < opset_entries_len; ++i) {
      if (domain_names[i] == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "The name of domain {} is null.", i);
      made->opsets.emplace_back(domain_names[i], opset_versions[i]);
    }
    *model = made.release();
    return nullptr;
  });
}

OrtStatus* model_editor_api::AddGraphToModel(OrtModel* model, OrtGraph* graph) noexcept {
  if (OrtStatus* bad = check_pointers("AddGraphToModel", {{"model", model}, {"graph", graph}})) return bad;
  if (graph->core != nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "\"{}\" is a view of a model that is loaded.", graph->name);
  if (model->graph != nullptr) return ort_error(ORT_INVALID_ARGUMENT, "The model has a graph already.");
  model->graph.reset(graph);
  return nullptr;
}

void ort_api::ReleaseModel(OrtModel* input) noexcept { delete input; }

}  // namespace tenon::abi
