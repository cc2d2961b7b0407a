#include "abi/objects/value.h"

#include <utility>

#include "abi/objects/allocator.h"
#include "abi/objects/mappings.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/objects/value_tensor.h"
#include "base/checked.h"
#include "base/format.h"
#include "base/status.h"

namespace tenon::abi {

namespace {

// The codes are the reference's, which finds the kind out in two ways.
OrtStatus* not_a_tensor(const OrtValue& value, const char* function) {
  return ort_error(value.kind == ONNX_TYPE_MAP ? ORT_FAIL : ORT_RUNTIME_EXCEPTION,
                   "Argument \"value\" of {} is not a tensor (kind {}).", function, static_cast<int>(value.kind));
}

// The types that the reference makes tensors of.
bool is_supported(ONNXTensorElementDataType type) {
  return type > ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED && type <= ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0 &&
         type != ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64 && type != ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128;
}

// Checks type and shape and computes the bytes; the codes and texts are the reference's where it has some.
struct Layout {
  DataType type = DataType::kUndefined;
  Shape shape;
  size_t size_bytes = 0;
};
OrtStatus* check_layout(const int64_t* dims, size_t rank, ONNXTensorElementDataType type, Layout* out) {
  if (!is_supported(type))
    return ort_error(ORT_NOT_IMPLEMENTED, "tensor type {} is not supported", static_cast<int>(type));
  const Result<Shape> shape = to_shape(dims, rank);
  if (!shape.ok()) return to_ort(shape.status());
  out->type = from_element_type(type);
  out->shape = *shape;
  const auto count = shape->checked_element_count();
  if (!count.ok()) return to_ort(count.status(), ORT_FAIL);
  if (out->type == DataType::kString) {
    if (checked_mul(static_cast<size_t>(*count), sizeof(std::string))) return nullptr;
    return make_ort_status(ORT_FAIL, "Calculation for Tensor storage size overflowed");
  }
  const Result<size_t> size_bytes = tensor_size_bytes(out->type, *shape);
  if (!size_bytes.ok()) return make_ort_status(ORT_FAIL, "Calculation for Tensor storage size overflowed");
  out->size_bytes = *size_bytes;
  return nullptr;
}

OrtStatus* make_tensor_value(const Layout& layout, void* data, size_t size_bytes, std::shared_ptr<const void> owner,
                             const OrtMemoryInfo& memory, OrtValue** out) {
  Result<Tensor> tensor =
      Tensor::view(layout.type, layout.shape, data, size_bytes, std::move(owner), to_memory_space(memory));
  if (!tensor.ok()) return to_ort(tensor.status());
  *out = new OrtValue(make_value(*std::move(tensor), memory));
  return nullptr;
}

// The owner of a block that goes back to its allocator with the last tensor.
std::shared_ptr<const void> own_block(OrtAllocator* allocator, void* block) {
  return std::shared_ptr<const void>(
      block, [allocator](const void* pointer) { free_block(allocator, const_cast<void*>(pointer)); });
}

OrtStatus* new_string_value(const Layout& layout, const OrtMemoryInfo& memory, OrtValue** out) {
  auto value = std::make_unique<OrtValue>();
  value->kind = ONNX_TYPE_TENSOR;
  value->shape = layout.shape;
  value->element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
  value->memory = memory;
  value->strings = std::make_shared<std::vector<std::string>>(layout.shape.element_count());
  *out = value.release();
  return nullptr;
}

OrtStatus* address_of(const OrtValue& value, const char* function, void** out) {
  if (!value.is_tensor()) return not_a_tensor(value, function);
  *out = value.is_string_tensor() ? value.strings->data() : value.tensor.data();
  return nullptr;
}

OrtStatus* refuse_mutable(const OrtValue& value, const char* function) {
  return guarded([&] {
    Status refused = check_writable(value, "be written");
    return to_ort(
        std::move(refused).with_context(format("in {}; GetTensorData gives a pointer for reading", function)));
  });
}

Status location_offset(const OrtValue& value, const int64_t* location, size_t count, size_t* out) {
  const Shape& shape = value.shape;
  if (count != shape.dims().size())
    return Status(StatusCode::kInvalidArgument, "location dimensions do not match shape size");
  size_t index = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t dim = shape[static_cast<int>(i)];
    if (location[i] < 0 || location[i] >= dim) return Status(StatusCode::kInvalidArgument, "invalid location range");
    index = index * dim + location[i];
  }
  *out = index * data_type_size(value.tensor.type());
  return Status();
}

}  // namespace

OrtValue make_value(Tensor tensor, OrtMemoryInfo memory) {
  OrtValue value;
  value.kind = ONNX_TYPE_TENSOR;
  value.shape = tensor.shape();
  value.element_type = to_element_type(tensor.type());
  value.memory = std::move(memory);
  value.tensor = std::move(tensor);
  return value;
}

OrtValue make_value(Tensor tensor) {
  if (tensor.type() == DataType::kString) return make_string_value(tensor);
  if (tensor.type() == DataType::kObject) return make_object_value(tensor);
  OrtMemoryInfo memory = to_memory_info(tensor.space());
  return make_value(std::move(tensor), std::move(memory));
}

bool is_value(const OrtValue* value) {
  return reinterpret_cast<uintptr_t>(value) % alignof(OrtValue) == 0 && is_readable(value, sizeof(OrtValue)) &&
         value->mark == OrtValue::kMark;
}

Status check_writable(const OrtValue& value, const char* use) {
  TENON_INVALID_IF(value.read_only_import != nullptr, "The {} tensor of shape {} cannot {}: it is a view of {}.",
                   data_type_name(value.tensor.type()), value.shape.to_string(), use, *value.read_only_import);
  TENON_INVALID_IF(value.tensor.read_only(), "The {} tensor of shape {} cannot {}: its memory is read-only.",
                   data_type_name(value.tensor.type()), value.shape.to_string(), use);
  return Status();
}

OrtTypeInfo type_of(const OrtValue& value) {
  OrtTypeInfo info;
  info.kind = value.kind;
  if (value.is_tensor() || value.sparse != nullptr) {
    info.tensor = make_tensor_info(from_element_type(value.element_type), value.shape);
  } else if (value.kind == ONNX_TYPE_SEQUENCE && !value.elements.empty()) {
    OrtTypeInfo element = type_of(*value.elements.front());
    // Elements differ in shape.
    element.tensor.has_shape = false;
    element.tensor.dims.clear();
    element.tensor.dim_names.clear();
    info.sequence.element_type = std::make_shared<const OrtTypeInfo>(std::move(element));
  } else if (value.kind == ONNX_TYPE_MAP && value.elements.size() == 2) {
    OrtTensorTypeAndShapeInfo element{.type = value.elements[1]->element_type};
    info.map = {value.elements[0]->element_type,
                std::make_shared<const OrtTypeInfo>(make_tensor_type(std::move(element)))};
  }
  return info;
}

OrtStatus* ort_api::CreateTensorWithDataAsOrtValue(const OrtMemoryInfo* info, void* p_data, size_t p_data_len,
                                                   const int64_t* shape, size_t shape_len,
                                                   ONNXTensorElementDataType type, OrtValue** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateTensorWithDataAsOrtValue", {{"info", info}, {"out", out}})) return bad;
  return guarded([&]() -> OrtStatus* {
    Layout layout;
    if (OrtStatus* bad = check_layout(shape, shape_len, type, &layout)) return bad;
    if (layout.type == DataType::kString)
      return make_ort_status(ORT_INVALID_ARGUMENT,
                             "A tensor of strings cannot be a view: make one with CreateTensorAsOrtValue and fill it.");
    if (p_data_len < layout.size_bytes)
      return ort_error(ORT_INVALID_ARGUMENT, "not enough space: expected {}, got {}", layout.size_bytes, p_data_len);
    return make_tensor_value(layout, p_data, p_data_len, nullptr, *info, out);
  });
}

OrtStatus* ort_api::CreateTensorAsOrtValue(OrtAllocator* allocator, const int64_t* shape, size_t shape_len,
                                           ONNXTensorElementDataType type, OrtValue** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateTensorAsOrtValue", {{"allocator", allocator}, {"out", out}})) return bad;
  return guarded([&]() -> OrtStatus* {
    Layout layout;
    if (OrtStatus* bad = check_layout(shape, shape_len, type, &layout)) return bad;
    const OrtMemoryInfo* info = nullptr;
    if (OrtStatus* bad = AllocatorGetInfo(allocator, &info)) return bad;
    if (info == nullptr) return make_ort_status(ORT_INVALID_ARGUMENT, "The allocator's Info gives null.");
    if (layout.type == DataType::kString) return new_string_value(layout, *info, out);
    const Result<void*> block = allocate(allocator, layout.size_bytes);
    if (!block.ok()) return to_ort(block.status());
    return make_tensor_value(layout, *block, layout.size_bytes, own_block(allocator, *block), *info, out);
  });
}

OrtStatus* ort_api::CreateTensorWithDataAndDeleterAsOrtValue(OrtAllocator* deleter, void* p_data, size_t p_data_len,
                                                             const int64_t* shape, size_t shape_len,
                                                             ONNXTensorElementDataType type, OrtValue** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateTensorWithDataAndDeleterAsOrtValue", {{"deleter", deleter}, {"out", out}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    Layout layout;
    if (OrtStatus* bad = check_layout(shape, shape_len, type, &layout)) return bad;
    if (layout.size_bytes > 0) {
      if (OrtStatus* bad = check_pointers("CreateTensorWithDataAndDeleterAsOrtValue", {{"p_data", p_data}})) return bad;
    }
    if (layout.type == DataType::kString)
      return make_ort_status(ORT_INVALID_ARGUMENT, "A tensor of strings cannot take over a buffer.");
    if (p_data_len < layout.size_bytes)
      return ort_error(ORT_INVALID_ARGUMENT, "p_data_len was smaller than expected. Expected:{} Got:{}",
                       layout.size_bytes, p_data_len);
    const OrtMemoryInfo* info = nullptr;
    if (OrtStatus* bad = AllocatorGetInfo(deleter, &info)) return bad;
    if (info == nullptr || deleter->Free == nullptr)
      return make_ort_status(ORT_INVALID_ARGUMENT, "The deleter has no Free, or its Info gives null.");
    // The block becomes the value's only when there is a value: on failure it is still the caller's.
    if (OrtStatus* bad = make_tensor_value(layout, p_data, p_data_len, nullptr, *info, out)) return bad;
    std::unique_ptr<OrtValue> value(std::exchange(*out, nullptr));
    Result<Tensor> owned =
        Tensor::view(layout.type, layout.shape, p_data, p_data_len, own_block(deleter, p_data), to_memory_space(*info));
    if (!owned.ok()) return to_ort(owned.status());
    value->tensor = *std::move(owned);
    *out = value.release();
    return nullptr;
  });
}

OrtStatus* ort_api::IsTensor(const OrtValue* value, int* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("IsTensor", {{"value", value}, {"out", out}})) return bad;
  *out = value->is_tensor() ? 1 : 0;
  return nullptr;
}

OrtStatus* ort_api::IsSparseTensor(const OrtValue* value, int* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("IsSparseTensor", {{"value", value}, {"out", out}})) return bad;
  *out = value->kind == ONNX_TYPE_SPARSETENSOR ? 1 : 0;
  return nullptr;
}

OrtStatus* ort_api::HasValue(const OrtValue* value, int* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("HasValue", {{"value", value}, {"out", out}})) return bad;
  *out = value->kind != ONNX_TYPE_UNKNOWN ? 1 : 0;
  return nullptr;
}

OrtStatus* ort_api::GetTensorMutableData(OrtValue* value, void** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetTensorMutableData", {{"value", value}, {"out", out}})) return bad;
  // Kernels read their inputs through this function too; what they are given has no mark of an import.
  if (value->read_only_import != nullptr) return refuse_mutable(*value, "GetTensorMutableData");
  return address_of(*value, "GetTensorMutableData", out);
}

OrtStatus* ort_api::GetTensorData(const OrtValue* value, const void** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetTensorData", {{"value", value}, {"out", out}})) return bad;
  return address_of(*value, "GetTensorData", const_cast<void**>(out));
}

OrtStatus* ort_api::TensorAt(OrtValue* value, const int64_t* location_values, size_t location_values_count,
                             void** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("TensorAt", {{"value", value}, {"out", out}})) return bad;
  if (!value->is_tensor()) return not_a_tensor(*value, "TensorAt");
  if (value->is_string_tensor() || data_type_size(value->tensor.type()) == 0)
    return make_ort_status(ORT_INVALID_ARGUMENT, "this API does not support strings");
  if (value->read_only_import != nullptr) return refuse_mutable(*value, "TensorAt");
  if (location_values_count > 0) {
    if (OrtStatus* bad = check_pointers("TensorAt", {{"location_values", location_values}})) return bad;
  }
  return guarded([&]() -> OrtStatus* {
    size_t offset = 0;
    if (Status status = location_offset(*value, location_values, location_values_count, &offset); !status.ok())
      return to_ort(status);
    *out = value->tensor.data_as<char>() + offset;
    return nullptr;
  });
}

OrtStatus* ort_api::GetTensorSizeInBytes(const OrtValue* ort_value, size_t* size) noexcept {
  if (OrtStatus* bad = check_pointers("GetTensorSizeInBytes", {{"ort_value", ort_value}, {"size", size}})) return bad;
  if (!ort_value->is_tensor()) return make_ort_status(ORT_INVALID_ARGUMENT, "OrtValue is expected to contain a tensor");
  if (ort_value->is_string_tensor())
    return make_ort_status(ORT_INVALID_ARGUMENT, "String tensors are not supported by this API");
  *size = ort_value->tensor.size_bytes();
  return nullptr;
}

OrtStatus* ort_api::GetTensorTypeAndShape(const OrtValue* value, OrtTensorTypeAndShapeInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetTensorTypeAndShape", {{"value", value}, {"out", out}})) return bad;
  if (!value->is_tensor() && value->sparse == nullptr) return make_ort_status(ORT_FAIL, "Argument is not a tensor");
  return guarded(
      [&] { return make_object(out, make_tensor_info(from_element_type(value->element_type), value->shape)); });
}

OrtStatus* ort_api::GetTensorElementTypeAndShapeDataReference(const OrtValue* value,
                                                              ONNXTensorElementDataType* elem_type,
                                                              const int64_t** shape_data,
                                                              size_t* shape_data_count) noexcept {
  clear(elem_type);
  clear(shape_data);
  clear(shape_data_count);
  if (OrtStatus* bad =
          check_pointers("GetTensorElementTypeAndShapeDataReference", {{"value", value},
                                                                       {"elem_type", elem_type},
                                                                       {"shape_data", shape_data},
                                                                       {"shape_data_count", shape_data_count}}))
    return bad;
  if (!value->is_tensor()) return make_ort_status(ORT_INVALID_ARGUMENT, "OrtValue is expected to contain a tensor");
  *elem_type = value->element_type;
  *shape_data = value->shape.begin();
  *shape_data_count = value->shape.dims().size();
  return nullptr;
}

OrtStatus* ort_api::GetTypeInfo(const OrtValue* value, OrtTypeInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetTypeInfo", {{"value", value}, {"out", out}})) return bad;
  // Success and null for a value that has no type yet, as in the reference.
  if (value->kind == ONNX_TYPE_UNKNOWN) return nullptr;
  return guarded([&] { return make_object(out, type_of(*value)); });
}

OrtStatus* ort_api::GetValueType(const OrtValue* value, enum ONNXType* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetValueType", {{"value", value}, {"out", out}})) return bad;
  *out = value->kind;
  return nullptr;
}

OrtStatus* ort_api::GetTensorMemoryInfo(const OrtValue* value, const OrtMemoryInfo** mem_info) noexcept {
  clear(mem_info);
  if (OrtStatus* bad = check_pointers("GetTensorMemoryInfo", {{"value", value}, {"mem_info", mem_info}})) return bad;
  if (value->sparse != nullptr)
    return make_ort_status(ORT_RUNTIME_EXCEPTION, "GetTensorMemoryInfo tells nothing of sparse tensors.");
  if (!value->is_tensor()) return not_a_tensor(*value, "GetTensorMemoryInfo");
  *mem_info = &value->memory;
  return nullptr;
}

void ort_api::ReleaseValue(OrtValue* input) noexcept { delete input; }

const OrtMemoryDevice* ep_api::Value_GetMemoryDevice(const OrtValue* value) noexcept {
  return value != nullptr && value->is_tensor() ? &value->memory.device : nullptr;
}

}  // namespace tenon::abi
