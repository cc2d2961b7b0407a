#include <tenon/object_type.h>

#include <utility>

#include "base/format.h"

namespace tenon {

namespace {

// ONNX's names of types, which differ from numpy's for two of them.
std::string_view onnx_name(DataType type) {
  if (type == DataType::kFloat) return "float";
  if (type == DataType::kDouble) return "double";
  return data_type_name(type);
}

std::string text_of(const ObjectTypeRef& type) { return type == nullptr ? "undefined" : type->to_string(); }

ObjectTypeRef make(ObjectKind kind, DataType type, ObjectTypeRef element) {
  auto made = std::make_shared<ObjectType>();
  made->kind = kind;
  made->type = type;
  made->element = std::move(element);
  return made;
}

}  // namespace

ObjectTypeRef ObjectType::tensor(DataType type) { return make(ObjectKind::kTensor, type, nullptr); }
ObjectTypeRef ObjectType::sequence(ObjectTypeRef element) {
  return make(ObjectKind::kSequence, DataType::kUndefined, std::move(element));
}
ObjectTypeRef ObjectType::optional(ObjectTypeRef content) {
  return make(ObjectKind::kOptional, DataType::kUndefined, std::move(content));
}
ObjectTypeRef ObjectType::map(DataType key, ObjectTypeRef value) {
  return make(ObjectKind::kMap, key, std::move(value));
}

std::string ObjectType::to_string() const {
  switch (kind) {
    case ObjectKind::kTensor:
      return format("tensor({})", onnx_name(type));
    case ObjectKind::kSequence:
      return format("seq({})", text_of(element));
    case ObjectKind::kOptional:
      return format("optional({})", text_of(element));
    case ObjectKind::kMap:
      // The value of a key is one element; ONNX leaves out that it is a tensor.
      if (element != nullptr && element->kind == ObjectKind::kTensor)
        return format("map({}, {})", onnx_name(type), onnx_name(element->type));
      return format("map({}, {})", onnx_name(type), text_of(element));
  }
  return "undefined";
}

bool same_type(const ObjectTypeRef& a, const ObjectTypeRef& b) {
  if (a == b) return true;
  return a != nullptr && b != nullptr && a->kind == b->kind && a->type == b->type && same_type(a->element, b->element);
}

}  // namespace tenon
