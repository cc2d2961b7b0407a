// OrtApi's Node_* functions.
#include <algorithm>
#include <string_view>

#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"
#include "ep/host/graph_view.h"

namespace tenon::abi {

OrtStatus* ort_api::Node_GetId(const OrtNode* node, size_t* node_id) noexcept {
  return get_from("node", node, "node_id", node_id, [](const OrtNode& n) { return n.id; });
}

OrtStatus* ort_api::Node_GetName(const OrtNode* node, const char** node_name) noexcept {
  return get_from("node", node, "node_name", node_name, [](const OrtNode& n) { return n.name.c_str(); });
}

OrtStatus* ort_api::Node_GetOperatorType(const OrtNode* node, const char** operator_type) noexcept {
  return get_from("node", node, "operator_type", operator_type, [](const OrtNode& n) { return n.op_type.c_str(); });
}

OrtStatus* ort_api::Node_GetDomain(const OrtNode* node, const char** domain_name) noexcept {
  return get_from("node", node, "domain_name", domain_name, [](const OrtNode& n) { return n.domain.c_str(); });
}

OrtStatus* ort_api::Node_GetSinceVersion(const OrtNode* node, int* since_version) noexcept {
  return get_from("node", node, "since_version", since_version, [](const OrtNode& n) { return n.since_version; });
}

OrtStatus* ort_api::Node_GetEpName(const OrtNode* node, const char** out) noexcept {
  return get_from("node", node, "out", out, [](const OrtNode& n) { return n.ep_name.c_str(); });
}

OrtStatus* ort_api::Node_GetGraph(const OrtNode* node, const OrtGraph** graph) noexcept {
  return get_from("node", node, "graph", graph, [](const OrtNode& n) { return n.graph; });
}

OrtStatus* ort_api::Node_GetNumInputs(const OrtNode* node, size_t* num_inputs) noexcept {
  return get_from("node", node, "num_inputs", num_inputs, [](const OrtNode& n) { return n.inputs.size(); });
}

OrtStatus* ort_api::Node_GetInputs(const OrtNode* node, const OrtValueInfo** inputs, size_t num_inputs) noexcept {
  if (node == nullptr) return null_argument("node");
  return copy_pointers("node inputs", node->inputs, inputs, num_inputs);
}

OrtStatus* ort_api::Node_GetNumOutputs(const OrtNode* node, size_t* num_outputs) noexcept {
  return get_from("node", node, "num_outputs", num_outputs, [](const OrtNode& n) { return n.outputs.size(); });
}

OrtStatus* ort_api::Node_GetOutputs(const OrtNode* node, const OrtValueInfo** outputs, size_t num_outputs) noexcept {
  if (node == nullptr) return null_argument("node");
  return copy_pointers("node outputs", node->outputs, outputs, num_outputs);
}

OrtStatus* ort_api::Node_GetNumImplicitInputs(const OrtNode* node, size_t* num_implicit_inputs) noexcept {
  return get_from("node", node, "num_implicit_inputs", num_implicit_inputs,
                  [](const OrtNode& n) { return n.implicit_inputs.size(); });
}

OrtStatus* ort_api::Node_GetImplicitInputs(const OrtNode* node, const OrtValueInfo** implicit_inputs,
                                           size_t num_implicit_inputs) noexcept {
  if (node == nullptr) return null_argument("node");
  return copy_pointers("node implicit inputs", node->implicit_inputs, implicit_inputs, num_implicit_inputs);
}

OrtStatus* ort_api::Node_GetNumAttributes(const OrtNode* node, size_t* num_attributes) noexcept {
  return get_from("node", node, "num_attributes", num_attributes, [](const OrtNode& n) { return n.attributes.size(); });
}

OrtStatus* ort_api::Node_GetAttributes(const OrtNode* node, const OrtOpAttr** attributes,
                                       size_t num_attributes) noexcept {
  if (node == nullptr) return null_argument("node");
  return fill_array("node attributes", node->attributes.size(), attributes, num_attributes,
                    [&](size_t i) { return &node->attributes[i]; });
}

OrtStatus* ort_api::Node_GetAttributeByName(const OrtNode* node, const char* attribute_name,
                                            const OrtOpAttr** attribute) noexcept {
  clear(attribute);
  if (node == nullptr) return null_argument("node");
  if (attribute_name == nullptr) return null_argument("attribute_name");
  if (attribute == nullptr) return null_argument("attribute");
  for (const OrtOpAttr& candidate : node->attributes) {
    if (candidate.attribute->name != attribute_name) continue;
    *attribute = &candidate;
    return nullptr;
  }
  return ort_error(ORT_NOT_FOUND, "Node attribute does not exist: {}", attribute_name);
}

OrtStatus* ort_api::Node_GetNumSubgraphs(const OrtNode* node, size_t* num_subgraphs) noexcept {
  return get_from("node", node, "num_subgraphs", num_subgraphs, [](const OrtNode& n) { return n.subgraphs.size(); });
}

OrtStatus* ort_api::Node_GetSubgraphs(const OrtNode* node, const OrtGraph** subgraphs, size_t num_subgraphs,
                                      const char** attribute_names) noexcept {
  if (node == nullptr) return null_argument("node");
  if (OrtStatus* bad = fill_array("node subgraphs", node->subgraphs.size(), subgraphs, num_subgraphs, [&](size_t i) {
        return static_cast<const OrtGraph*>(node->subgraphs[i].graph.get());
      }))
    return bad;
  if (attribute_names == nullptr) return nullptr;
  return fill_array("subgraph attribute names", node->subgraphs.size(), attribute_names, num_subgraphs,
                    [&](size_t i) { return node->subgraphs[i].attribute.c_str(); });
}

void ort_api::ReleaseNode(OrtNode* input) noexcept { delete input; }

}  // namespace tenon::abi
