#include "abi/objects/value_tensor.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace tenon::abi {

namespace {

// What a bound tensor of strings owns: the program's strings, and the address of each.
struct BoundTexts {
  std::shared_ptr<const std::vector<std::string>> texts;
  std::vector<const std::string*> addresses;
};

Result<Tensor> string_view_of(const OrtValue& value) {
  auto bound = std::make_shared<BoundTexts>();
  bound->texts = value.strings;
  bound->addresses.reserve(value.strings->size() + 1);
  for (const std::string& text : *value.strings) bound->addresses.push_back(&text);
  bound->addresses.push_back(nullptr);  // an address even without elements
  void* data = bound->addresses.data();
  const size_t bytes = value.strings->size() * sizeof(const std::string*);
  return Tensor::view(DataType::kString, value.shape, data, bytes, std::move(bound));
}

Result<Tensor> plain_tensor(const OrtValue& value) {
  if (value.is_string_tensor()) return string_view_of(value);
  TENON_INVALID_IF(!value.is_tensor() || !value.tensor.defined(), "A value (kind {}) has no tensor.",
                   static_cast<int>(value.kind));
  return value.tensor;
}

Result<ObjectRef> to_object(const OrtValue& value) {
  if (value.is_tensor()) {
    TENON_TRY_ASSIGN(Tensor tensor, plain_tensor(value));
    return Object::tensor(std::move(tensor));
  }
  if (value.kind == ONNX_TYPE_MAP && value.elements.size() == 2) {
    TENON_TRY_ASSIGN(Tensor keys, plain_tensor(*value.elements[0]));
    TENON_TRY_ASSIGN(Tensor values, plain_tensor(*value.elements[1]));
    return Object::map(std::move(keys), std::move(values));
  }
  TENON_INVALID_IF(value.kind != ONNX_TYPE_SEQUENCE, "A value (kind {}) is no tensor, sequence or map.",
                   static_cast<int>(value.kind));
  std::vector<ObjectRef> elements;
  for (const auto& element : value.elements) {
    TENON_TRY_ASSIGN(ObjectRef object, to_object(*element));
    elements.push_back(std::move(object));
  }
  return Object::sequence(std::move(elements));
}

OrtValue value_of(const Object& object) {
  if (object.kind() == ObjectKind::kTensor) return make_value(object.as_tensor());
  OrtValue value;
  value.kind = object.kind() == ObjectKind::kMap ? ONNX_TYPE_MAP : ONNX_TYPE_SEQUENCE;
  for (const ObjectRef& element : object.elements())
    value.elements.push_back(std::make_shared<const OrtValue>(value_of(*element)));
  return value;
}

}  // namespace

Result<Tensor> to_tensor(const OrtValue& value, bool as_object) {
  if (value.is_tensor() && !as_object) return plain_tensor(value);
  if (value.kind == ONNX_TYPE_UNKNOWN) return object_tensor(nullptr);
  TENON_TRY_ASSIGN(ObjectRef object, to_object(value));
  return object_tensor(std::move(object));
}

bool fits(const OrtValue& value, const ObjectTypeRef& type) {
  if (type == nullptr) return false;
  switch (type->kind) {
    case ObjectKind::kTensor:
      return value.is_tensor() &&
             (type->type == DataType::kUndefined || from_element_type(value.element_type) == type->type);
    case ObjectKind::kSequence:
      return value.kind == ONNX_TYPE_SEQUENCE &&
             std::all_of(value.elements.begin(), value.elements.end(),
                         [&](const auto& element) { return fits(*element, type->element); });
    case ObjectKind::kMap:
      return value.kind == ONNX_TYPE_MAP && value.elements.size() == 2 &&
             from_element_type(value.elements[0]->element_type) == type->type &&
             fits(*value.elements[1], type->element);
    case ObjectKind::kOptional:
      return value.kind == ONNX_TYPE_UNKNOWN || fits(value, type->element);
  }
  return false;
}

OrtValue make_string_value(const Tensor& tensor) {
  OrtValue value;
  value.kind = ONNX_TYPE_TENSOR;
  value.shape = tensor.shape();
  value.element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
  value.memory = to_memory_info(tensor.space());
  const int64_t count = tensor.shape().element_count();
  value.strings = std::make_shared<std::vector<std::string>>();
  value.strings->reserve(count);
  for (int64_t i = 0; i < count; ++i) value.strings->emplace_back(text_at(tensor, i));
  return value;
}

OrtValue make_object_value(const Tensor& tensor) {
  const ObjectRef object = object_of(tensor);
  return object == nullptr ? OrtValue() : value_of(*object);
}

}  // namespace tenon::abi
