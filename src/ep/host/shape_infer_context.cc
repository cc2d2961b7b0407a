#include "ep/host/shape_infer_context.h"

#include <string_view>

#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"

OrtShapeInferContext::OrtShapeInferContext(const tenon::Graph& graph, const tenon::Node& node)
    : outputs(node.outputs.size()) {
  for (tenon::ValueId id : node.inputs) {
    inputs.emplace_back();
    if (id != tenon::kNoValue) inputs.back() = tenon::abi::type_info_of(graph.value(id)).tensor;
  }
  for (const tenon::Attribute& attribute : node.attributes) attributes.push_back({nullptr, &attribute});
}

namespace tenon::abi {

OrtStatus* ort_api::ShapeInferContext_GetInputCount(const OrtShapeInferContext* context, size_t* out) noexcept {
  return get_from("context", context, "out", out, [](const OrtShapeInferContext& c) { return c.inputs.size(); });
}

OrtStatus* ort_api::ShapeInferContext_GetInputTypeShape(const OrtShapeInferContext* context, size_t index,
                                                        OrtTensorTypeAndShapeInfo** info) noexcept {
  clear(info);
  if (context == nullptr) return null_argument("context");
  if (info == nullptr) return null_argument("info");
  if (index >= context->inputs.size() || !context->inputs[index])
    return ort_error(index >= context->inputs.size() ? ORT_RUNTIME_EXCEPTION : ORT_INVALID_ARGUMENT,
                     "Failed to fetch type shape info for the index.");
  // The reference gives a pointer that the caller may not change or release.
  *info = const_cast<OrtTensorTypeAndShapeInfo*>(&*context->inputs[index]);
  return nullptr;
}

OrtStatus* ort_api::ShapeInferContext_GetAttribute(const OrtShapeInferContext* context, const char* attr_name,
                                                   const OrtOpAttr** attr) noexcept {
  clear(attr);
  if (context == nullptr) return null_argument("context");
  if (attr_name == nullptr) return null_argument("attr_name");
  if (attr == nullptr) return null_argument("attr");
  for (const OrtOpAttr& one : context->attributes) {
    if (one.attribute->name != attr_name) continue;
    *attr = &one;
    return nullptr;
  }
  return ort_error(ORT_INVALID_ARGUMENT, "Attribute does not exist.");
}

OrtStatus* ort_api::ShapeInferContext_SetOutputTypeShape(const OrtShapeInferContext* context, size_t index,
                                                         const OrtTensorTypeAndShapeInfo* info) noexcept {
  if (context == nullptr) return null_argument("context");
  if (info == nullptr) return null_argument("info");
  if (index >= context->outputs.size())
    return ort_error(ORT_RUNTIME_EXCEPTION, "The node has {} outputs, and no output {}.", context->outputs.size(),
                     index);
  // Const in the ABI; what it points to is the host's own.
  return guarded([&]() -> OrtStatus* {
    const_cast<OrtShapeInferContext*>(context)->outputs[index] = *info;
    return nullptr;
  });
}

}  // namespace tenon::abi
