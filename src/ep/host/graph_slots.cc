// OrtApi's Graph_* and ExternalInitializerInfo_* functions.
#include <algorithm>

#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"
#include "ep/host/graph_view.h"

namespace tenon::abi {

namespace {
constexpr int64_t kNewestIrVersion = 14;  // of a graph that is being built with the model editor
}  // namespace

OrtStatus* ort_api::Graph_GetName(const OrtGraph* graph, const char** graph_name) noexcept {
  // A graph of the model editor has no name of its own.
  return get_from("graph", graph, "graph_name", graph_name,
                  [](const OrtGraph& g) { return g.origin || !g.name.empty() ? g.name.c_str() : "ModelEditorGraph"; });
}

OrtStatus* ort_api::Graph_GetModelPath(const OrtGraph* graph, const ORTCHAR_T** model_path) noexcept {
  return get_from("graph", graph, "model_path", model_path,
                  [](const OrtGraph& g) { return g.origin ? g.origin->model_path.c_str() : ""; });
}

OrtStatus* ort_api::Graph_GetOnnxIRVersion(const OrtGraph* graph, int64_t* onnx_ir_version) noexcept {
  return get_from("graph", graph, "onnx_ir_version", onnx_ir_version,
                  [](const OrtGraph& g) { return g.origin ? g.origin->info.ir_version : kNewestIrVersion; });
}

OrtStatus* ort_api::Graph_GetNumOperatorSets(const OrtGraph* graph, size_t* num_operator_sets) noexcept {
  return get_from("graph", graph, "num_operator_sets", num_operator_sets,
                  [](const OrtGraph& g) { return g.opsets.size(); });
}

OrtStatus* ort_api::Graph_GetOperatorSets(const OrtGraph* graph, const char** domains, int64_t* opset_versions,
                                          size_t num_operator_sets) noexcept {
  if (graph == nullptr) return null_argument("graph");
  const auto& opsets = graph->opsets;
  if (OrtStatus* bad = fill_array("operator set domains", opsets.size(), domains, num_operator_sets,
                                  [&](size_t i) { return opsets[i].first.c_str(); }))
    return bad;
  return fill_array("operator set versions", opsets.size(), opset_versions, num_operator_sets,
                    [&](size_t i) { return opsets[i].second; });
}

OrtStatus* ort_api::Graph_GetNumInputs(const OrtGraph* graph, size_t* num_inputs) noexcept {
  return get_from("graph", graph, "num_inputs", num_inputs, [](const OrtGraph& g) { return g.inputs.size(); });
}

OrtStatus* ort_api::Graph_GetInputs(const OrtGraph* graph, const OrtValueInfo** inputs, size_t num_inputs) noexcept {
  if (graph == nullptr) return null_argument("graph");
  return copy_pointers("graph inputs", graph->inputs, inputs, num_inputs);
}

OrtStatus* ort_api::Graph_GetNumOutputs(const OrtGraph* graph, size_t* num_outputs) noexcept {
  return get_from("graph", graph, "num_outputs", num_outputs, [](const OrtGraph& g) { return g.outputs.size(); });
}

OrtStatus* ort_api::Graph_GetOutputs(const OrtGraph* graph, const OrtValueInfo** outputs, size_t num_outputs) noexcept {
  if (graph == nullptr) return null_argument("graph");
  return copy_pointers("graph outputs", graph->outputs, outputs, num_outputs);
}

OrtStatus* ort_api::Graph_GetNumInitializers(const OrtGraph* graph, size_t* num_initializers) noexcept {
  return get_from("graph", graph, "num_initializers", num_initializers,
                  [](const OrtGraph& g) { return g.initializers.size(); });
}

OrtStatus* ort_api::Graph_GetInitializers(const OrtGraph* graph, const OrtValueInfo** initializers,
                                          size_t num_initializers) noexcept {
  if (graph == nullptr) return null_argument("graph");
  return copy_pointers("graph initializers", graph->initializers, initializers, num_initializers);
}

OrtStatus* ort_api::Graph_GetNumNodes(const OrtGraph* graph, size_t* num_nodes) noexcept {
  return get_from("graph", graph, "num_nodes", num_nodes, [](const OrtGraph& g) { return g.nodes.size(); });
}

OrtStatus* ort_api::Graph_GetNodes(const OrtGraph* graph, const OrtNode** nodes, size_t num_nodes) noexcept {
  if (graph == nullptr) return null_argument("graph");
  return fill_array("graph nodes", graph->nodes.size(), nodes, num_nodes,
                    [&](size_t i) { return static_cast<const OrtNode*>(graph->nodes[i].get()); });
}

OrtStatus* ort_api::Graph_GetParentNode(const OrtGraph* graph, const OrtNode** node) noexcept {
  return get_from("graph", graph, "node", node, [](const OrtGraph& g) { return g.parent; });
}

OrtStatus* ort_api::Graph_GetGraphView(const OrtGraph* src_graph, const OrtNode** nodes, size_t num_nodes,
                                       OrtGraph** dst_graph) noexcept {
  clear(dst_graph);
  if (src_graph == nullptr) return null_argument("src_graph");
  if (num_nodes == 0) return ort_error(ORT_INVALID_ARGUMENT, "'num_nodes' argument should be > 0");
  if (nodes == nullptr) return null_argument("nodes");
  if (dst_graph == nullptr) return null_argument("dst_graph");
  if (src_graph->core == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "A graph that is being built with the model editor has no views.");
  return guarded([&]() -> OrtStatus* {
    std::vector<NodeId> indices;
    for (size_t i = 0; i < num_nodes; ++i) {
      const OrtNode* node = nodes[i];
      if (node == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Node {} of {} is null.", i, num_nodes);
      if (node->graph == nullptr || node->graph->core != src_graph->core || !node->core.valid())
        return ort_error(ORT_INVALID_ARGUMENT, "Node \"{}\" is not of the graph \"{}\".", node->name, src_graph->name);
      indices.push_back(node->core);
    }
    std::sort(indices.begin(), indices.end());
    indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
    auto view = make_part_view(*src_graph->core, indices, src_graph->origin);
    if (!view.ok()) return to_ort(view.status());
    *dst_graph = view->release();
    return nullptr;
  });
}

void ort_api::ReleaseGraph(OrtGraph* input) noexcept { delete input; }

OrtStatus* ort_api::CreateExternalInitializerInfo(const ORTCHAR_T* filepath, int64_t file_offset, size_t byte_size,
                                                  OrtExternalInitializerInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateExternalInitializerInfo", {{"filepath", filepath}, {"out", out}}))
    return bad;
  return make_object(out, filepath, file_offset, byte_size);
}

void ort_api::ReleaseExternalInitializerInfo(OrtExternalInitializerInfo* input) noexcept { delete input; }

const ORTCHAR_T* ort_api::ExternalInitializerInfo_GetFilePath(const OrtExternalInitializerInfo* info) noexcept {
  return info != nullptr ? info->path.c_str() : "";
}

int64_t ort_api::ExternalInitializerInfo_GetFileOffset(const OrtExternalInitializerInfo* info) noexcept {
  return info != nullptr ? info->offset : 0;
}

size_t ort_api::ExternalInitializerInfo_GetByteSize(const OrtExternalInitializerInfo* info) noexcept {
  return info != nullptr ? info->size_bytes : 0;
}

}  // namespace tenon::abi
