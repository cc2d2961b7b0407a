// OrtApi's ValueInfo_* functions.
#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"
#include "ep/host/graph_view.h"

namespace tenon::abi {

OrtStatus* ort_api::GetValueInfoName(const OrtValueInfo* value_info, const char** name) noexcept {
  return get_from("value_info", value_info, "name", name, [](const OrtValueInfo& v) { return v.name.c_str(); });
}

// Null for a value of which no type is known, as in the reference.
OrtStatus* ort_api::GetValueInfoTypeInfo(const OrtValueInfo* value_info, const OrtTypeInfo** type_info) noexcept {
  return get_from("value_info", value_info, "type_info", type_info,
                  [](const OrtValueInfo& v) { return v.type.kind == ONNX_TYPE_UNKNOWN ? nullptr : &v.type; });
}

OrtStatus* ort_api::ValueInfo_GetValueProducer(const OrtValueInfo* value_info, const OrtNode** producer_node,
                                               size_t* producer_output_index) noexcept {
  clear(producer_output_index);
  if (OrtStatus* bad = get_from("value_info", value_info, "producer_node", producer_node,
                                [](const OrtValueInfo& v) { return v.producer; }))
    return bad;
  if (producer_output_index != nullptr) *producer_output_index = value_info->producer_output;
  return nullptr;
}

OrtStatus* ort_api::ValueInfo_GetValueNumConsumers(const OrtValueInfo* value_info, size_t* num_consumers) noexcept {
  return get_from("value_info", value_info, "num_consumers", num_consumers,
                  [](const OrtValueInfo& v) { return v.uses.size(); });
}

OrtStatus* ort_api::ValueInfo_GetValueConsumers(const OrtValueInfo* value_info, const OrtNode** nodes,
                                                int64_t* input_indices, size_t num_consumers) noexcept {
  if (value_info == nullptr) return null_argument("value_info");
  const auto& uses = value_info->uses;
  if (num_consumers < uses.size()) {
    return ort_error(ORT_INVALID_ARGUMENT,
                     "Not enough space for value consumers: expected buffer with at least {} elements, got {}",
                     uses.size(), num_consumers);
  }
  if (!uses.empty() && nodes == nullptr) return null_argument("nodes");
  if (!uses.empty() && input_indices == nullptr) return null_argument("input_indices");
  for (size_t i = 0; i < uses.size(); ++i) {
    nodes[i] = uses[i].node;
    input_indices[i] = uses[i].input;
  }
  return nullptr;
}

OrtStatus* ort_api::ValueInfo_GetInitializerValue(const OrtValueInfo* value_info,
                                                  const OrtValue** initializer_value) noexcept {
  return get_from("value_info", value_info, "initializer_value", initializer_value,
                  [](const OrtValueInfo& v) -> const OrtValue* { return v.initializer.get(); });
}

// Null and success for what is no initializer, or lies in the model's own file.
OrtStatus* ort_api::ValueInfo_GetExternalInitializerInfo(const OrtValueInfo* value_info,
                                                         OrtExternalInitializerInfo** info) noexcept {
  clear(info);
  if (value_info == nullptr) return null_argument("value_info");
  if (info == nullptr) return null_argument("info");
  const OrtGraph* const graph = value_info->graph;
  if (graph == nullptr || graph->core == nullptr || !graph->origin) return nullptr;
  const ConstantRef& constant = graph->core->value(value_info->core).constant;
  const ExternalTensor* const external = constant ? graph->origin->notes.find_external(constant) : nullptr;
  if (external == nullptr) return nullptr;
  return make_object(info, external->location, static_cast<int64_t>(external->offset_bytes), constant->size_bytes);
}

OrtStatus* ort_api::ValueInfo_IsRequiredGraphInput(const OrtValueInfo* value_info,
                                                   bool* is_required_graph_input) noexcept {
  return get_from("value_info", value_info, "is_required_graph_input", is_required_graph_input,
                  [](const OrtValueInfo& v) { return v.graph_input && !v.initializer; });
}

OrtStatus* ort_api::ValueInfo_IsOptionalGraphInput(const OrtValueInfo* value_info,
                                                   bool* is_optional_graph_input) noexcept {
  return get_from("value_info", value_info, "is_optional_graph_input", is_optional_graph_input,
                  [](const OrtValueInfo& v) { return v.graph_input && v.initializer; });
}

OrtStatus* ort_api::ValueInfo_IsGraphOutput(const OrtValueInfo* value_info, bool* is_graph_output) noexcept {
  return get_from("value_info", value_info, "is_graph_output", is_graph_output,
                  [](const OrtValueInfo& v) { return v.graph_output; });
}

OrtStatus* ort_api::ValueInfo_IsConstantInitializer(const OrtValueInfo* value_info,
                                                    bool* is_constant_initializer) noexcept {
  return get_from("value_info", value_info, "is_constant_initializer", is_constant_initializer,
                  [](const OrtValueInfo& v) { return v.initializer != nullptr; });
}

OrtStatus* ort_api::ValueInfo_IsFromOuterScope(const OrtValueInfo* value_info, bool* is_from_outer_scope) noexcept {
  return get_from("value_info", value_info, "is_from_outer_scope", is_from_outer_scope,
                  [](const OrtValueInfo& v) { return v.from_outer_scope; });
}

void ort_api::ReleaseValueInfo(OrtValueInfo* input) noexcept { delete input; }

}  // namespace tenon::abi
