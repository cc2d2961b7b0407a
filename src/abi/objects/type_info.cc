#include "abi/objects/type_info.h"

#include <algorithm>

#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "base/checked.h"
#include "base/status.h"

namespace tenon::abi {

namespace {

// The two enums agree up to FLOAT4E2M1.
constexpr int kLastCommonType = 23;

const OrtTensorTypeAndShapeInfo* tensor_of(const OrtTypeInfo& info) {
  return info.kind == ONNX_TYPE_TENSOR || info.kind == ONNX_TYPE_SPARSETENSOR ? &info.tensor : nullptr;
}

Result<size_t> element_count(const OrtTensorTypeAndShapeInfo& info) {
  if (!info.has_shape) return size_t{0};
  for (const int64_t dim : info.dims)
    TENON_INVALID_IF(dim < 0, "The number of elements of a shape with an unknown dimension ({}) is not known.", dim);
  const auto count = checked_product(info.dims);
  TENON_INVALID_IF(!count, "The number of elements of a shape with {} dimensions overflows.", info.dims.size());
  return *count;
}

OrtStatus* copy_type(const std::shared_ptr<const OrtTypeInfo>& type, OrtTypeInfo** out) {
  if (type == nullptr) return make_ort_status(ORT_FAIL, "The nested type is not known.");
  return make_object(out, *type);
}

}  // namespace

ONNXTensorElementDataType to_element_type(DataType type) noexcept {
  switch (type) {
    case DataType::kUint2:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2;
    case DataType::kInt2:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2;
    case DataType::kFloat8E8M0:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0;
    default:
      break;
  }
  const auto number = static_cast<int>(type);
  return number >= 0 && number <= kLastCommonType ? static_cast<ONNXTensorElementDataType>(number)
                                                  : ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

DataType from_element_type(ONNXTensorElementDataType type) noexcept {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2:
      return DataType::kUint2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2:
      return DataType::kInt2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0:
      return DataType::kFloat8E8M0;
    default:
      break;
  }
  const auto number = static_cast<int>(type);
  return number >= 0 && number <= kLastCommonType ? static_cast<DataType>(number) : DataType::kUndefined;
}

OrtTensorTypeAndShapeInfo make_tensor_info(DataType type, const Shape& shape) {
  const auto dims = shape.dims();
  return {.type = to_element_type(type),
          .has_shape = true,
          .dims = {dims.begin(), dims.end()},
          .dim_names = std::vector<std::string>(dims.size())};
}

OrtTypeInfo make_tensor_type(OrtTensorTypeAndShapeInfo tensor) {
  OrtTypeInfo info;
  info.kind = ONNX_TYPE_TENSOR;
  info.tensor = std::move(tensor);
  return info;
}

OrtTypeInfo to_type_info(const ObjectType& type) {
  OrtTypeInfo info;
  const auto element = [&] {
    return type.element == nullptr ? nullptr : std::make_shared<const OrtTypeInfo>(to_type_info(*type.element));
  };
  switch (type.kind) {
    case ObjectKind::kTensor:
      return make_tensor_type({.type = to_element_type(type.type)});
    case ObjectKind::kSequence:
      info.kind = ONNX_TYPE_SEQUENCE;
      info.sequence.element_type = element();
      break;
    case ObjectKind::kMap:
      info.kind = ONNX_TYPE_MAP;
      info.map = {to_element_type(type.type), element()};
      break;
    case ObjectKind::kOptional:
      info.kind = ONNX_TYPE_OPTIONAL;
      info.optional.contained_type = element();
      break;
  }
  return info;
}

OrtTypeInfo to_type_info(const ValueInfo& info) {
  if (info.object != nullptr) return to_type_info(*info.object);
  OrtTensorTypeAndShapeInfo tensor{
      .type = to_element_type(info.type), .has_shape = info.has_shape, .dims = info.dims, .dim_names = info.dim_names};
  tensor.dim_names.resize(tensor.dims.size());
  return make_tensor_type(std::move(tensor));
}

Result<Shape> to_shape(const int64_t* dims, size_t rank) {
  TENON_INVALID_IF(dims == nullptr && rank > 0, "The shape is null, but has {} dimensions.", rank);
  TENON_INVALID_IF(rank > Shape::kMaxRank, "Rank {} exceeds the highest that is supported ({}).", rank,
                   Shape::kMaxRank);
  for (size_t i = 0; i < rank; ++i) TENON_INVALID_IF(dims[i] < 0, "tried creating tensor with negative value in shape");
  return Shape(std::span(dims, rank));
}

OrtStatus* ort_api::CreateTensorTypeAndShapeInfo(OrtTensorTypeAndShapeInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateTensorTypeAndShapeInfo", {{"out", out}})) return bad;
  return make_object(out, OrtTensorTypeAndShapeInfo{.type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT});
}

OrtStatus* ort_api::SetTensorElementType(OrtTensorTypeAndShapeInfo* info,
                                         enum ONNXTensorElementDataType type) noexcept {
  if (OrtStatus* bad = check_pointers("SetTensorElementType", {{"info", info}})) return bad;
  info->type = type;
  return nullptr;
}

OrtStatus* ort_api::SetDimensions(OrtTensorTypeAndShapeInfo* info, const int64_t* dim_values,
                                  size_t dim_count) noexcept {
  if (OrtStatus* bad = check_pointers("SetDimensions", {{"info", info}})) return bad;
  if (dim_count > 0) {
    if (OrtStatus* bad = check_pointers("SetDimensions", {{"dim_values", dim_values}})) return bad;
  }
  if (std::any_of(dim_values, dim_values + dim_count, [](int64_t dim) { return dim < -1; }))
    return make_ort_status(ORT_INVALID_ARGUMENT, "dim_values must be -1 (symbolic dimension) or larger.");
  return guarded([&]() -> OrtStatus* {
    info->dims.assign(dim_values, dim_values + dim_count);
    info->dim_names.resize(dim_count);
    info->has_shape = true;
    return nullptr;
  });
}

OrtStatus* ort_api::SetSymbolicDimensions(OrtTensorTypeAndShapeInfo* info, const char* dim_params[],
                                          size_t dim_params_length) noexcept {
  if (OrtStatus* bad = check_pointers("SetSymbolicDimensions", {{"info", info}})) return bad;
  if (dim_params_length > 0) {
    if (OrtStatus* bad = check_pointers("SetSymbolicDimensions", {{"dim_params", dim_params}})) return bad;
  }
  return guarded([&]() -> OrtStatus* {
    // As in the reference the names set the rank where there are more of them than dimensions.
    if (info->dims.size() < dim_params_length) info->dims.resize(dim_params_length, -1);
    std::vector<std::string> names(info->dims.size());
    for (size_t i = 0; i < dim_params_length; ++i) names[i] = dim_params[i] != nullptr ? dim_params[i] : "";
    info->dim_names = std::move(names);
    info->has_shape = true;
    return nullptr;
  });
}

OrtStatus* ort_api::GetTensorElementType(const OrtTensorTypeAndShapeInfo* info,
                                         enum ONNXTensorElementDataType* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetTensorElementType", {{"info", info}, {"out", out}})) return bad;
  *out = info->type;
  return nullptr;
}

OrtStatus* ort_api::GetDimensionsCount(const OrtTensorTypeAndShapeInfo* info, size_t* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetDimensionsCount", {{"info", info}, {"out", out}})) return bad;
  *out = info->dims.size();
  return nullptr;
}

OrtStatus* ort_api::GetDimensions(const OrtTensorTypeAndShapeInfo* info, int64_t* dim_values,
                                  size_t dim_values_length) noexcept {
  if (OrtStatus* bad = check_pointers("GetDimensions", {{"info", info}})) return bad;
  if (dim_values_length == 0) return nullptr;
  if (OrtStatus* bad = check_pointers("GetDimensions", {{"dim_values", dim_values}})) return bad;
  std::copy_n(info->dims.begin(), std::min(dim_values_length, info->dims.size()), dim_values);
  return nullptr;
}

OrtStatus* ort_api::GetSymbolicDimensions(const OrtTensorTypeAndShapeInfo* info, const char* dim_params[],
                                          size_t dim_params_length) noexcept {
  if (OrtStatus* bad = check_pointers("GetSymbolicDimensions", {{"info", info}})) return bad;
  if (dim_params_length == 0) return nullptr;
  if (OrtStatus* bad = check_pointers("GetSymbolicDimensions", {{"dim_params", dim_params}})) return bad;
  const size_t count = std::min(dim_params_length, info->dim_names.size());
  for (size_t i = 0; i < count; ++i) dim_params[i] = info->dim_names[i].c_str();
  return nullptr;
}

OrtStatus* ort_api::GetTensorShapeElementCount(const OrtTensorTypeAndShapeInfo* info, size_t* out) noexcept {
  if (OrtStatus* bad = check_pointers("GetTensorShapeElementCount", {{"info", info}, {"out", out}})) return bad;
  const Result<size_t> count = element_count(*info);
  // FAIL, as the reference's overflow check gives; like there, `out` is then left alone.
  if (!count.ok()) return to_ort(count.status(), ORT_FAIL);
  *out = *count;
  return nullptr;
}

bool ort_api::TensorTypeAndShape_HasShape(const OrtTensorTypeAndShapeInfo* info) noexcept {
  return info != nullptr && info->has_shape;
}

void ort_api::ReleaseTensorTypeAndShapeInfo(OrtTensorTypeAndShapeInfo* input) noexcept { delete input; }

OrtStatus* ort_api::GetOnnxTypeFromTypeInfo(const OrtTypeInfo* type_info, enum ONNXType* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetOnnxTypeFromTypeInfo", {{"type_info", type_info}, {"out", out}})) return bad;
  *out = type_info->kind;
  return nullptr;
}

OrtStatus* ort_api::GetDenotationFromTypeInfo(const OrtTypeInfo* type_info, const char** const denotation,
                                              size_t* len) noexcept {
  clear(denotation);
  clear(len);
  if (OrtStatus* bad = check_pointers("GetDenotationFromTypeInfo",
                                      {{"type_info", type_info}, {"denotation", denotation}, {"len", len}}))
    return bad;
  *denotation = type_info->denotation.c_str();
  *len = type_info->denotation.size();
  return nullptr;
}

OrtStatus* ort_api::CastTypeInfoToTensorInfo(const OrtTypeInfo* type_info,
                                             const OrtTensorTypeAndShapeInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CastTypeInfoToTensorInfo", {{"type_info", type_info}, {"out", out}})) return bad;
  *out = tensor_of(*type_info);
  return nullptr;
}

OrtStatus* ort_api::CastTypeInfoToMapTypeInfo(const OrtTypeInfo* type_info, const OrtMapTypeInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CastTypeInfoToMapTypeInfo", {{"type_info", type_info}, {"out", out}}))
    return bad;
  *out = type_info->kind == ONNX_TYPE_MAP ? &type_info->map : nullptr;
  return nullptr;
}

OrtStatus* ort_api::CastTypeInfoToSequenceTypeInfo(const OrtTypeInfo* type_info,
                                                   const OrtSequenceTypeInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CastTypeInfoToSequenceTypeInfo", {{"type_info", type_info}, {"out", out}}))
    return bad;
  *out = type_info->kind == ONNX_TYPE_SEQUENCE ? &type_info->sequence : nullptr;
  return nullptr;
}

OrtStatus* ort_api::CastTypeInfoToOptionalTypeInfo(const OrtTypeInfo* type_info,
                                                   const OrtOptionalTypeInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CastTypeInfoToOptionalTypeInfo", {{"type_info", type_info}, {"out", out}}))
    return bad;
  *out = type_info->kind == ONNX_TYPE_OPTIONAL ? &type_info->optional : nullptr;
  return nullptr;
}

OrtStatus* ort_api::GetMapKeyType(const OrtMapTypeInfo* map_type_info, enum ONNXTensorElementDataType* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetMapKeyType", {{"map_type_info", map_type_info}, {"out", out}})) return bad;
  *out = map_type_info->key_type;
  return nullptr;
}

OrtStatus* ort_api::GetMapValueType(const OrtMapTypeInfo* map_type_info, OrtTypeInfo** type_info) noexcept {
  clear(type_info);
  if (OrtStatus* bad = check_pointers("GetMapValueType", {{"map_type_info", map_type_info}, {"type_info", type_info}}))
    return bad;
  return copy_type(map_type_info->value_type, type_info);
}

OrtStatus* ort_api::GetSequenceElementType(const OrtSequenceTypeInfo* sequence_type_info,
                                           OrtTypeInfo** type_info) noexcept {
  clear(type_info);
  if (OrtStatus* bad = check_pointers("GetSequenceElementType",
                                      {{"sequence_type_info", sequence_type_info}, {"type_info", type_info}}))
    return bad;
  return copy_type(sequence_type_info->element_type, type_info);
}

OrtStatus* ort_api::GetOptionalContainedTypeInfo(const OrtOptionalTypeInfo* optional_type_info,
                                                 OrtTypeInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad =
          check_pointers("GetOptionalContainedTypeInfo", {{"optional_type_info", optional_type_info}, {"out", out}}))
    return bad;
  return copy_type(optional_type_info->contained_type, out);
}

void ort_api::ReleaseTypeInfo(OrtTypeInfo* input) noexcept { delete input; }

// The map and sequence infos that Cast functions give belong to their type info, so what a program could release here
// was never handed out to own.
void ort_api::ReleaseMapTypeInfo(OrtMapTypeInfo*) noexcept {}
void ort_api::ReleaseSequenceTypeInfo(OrtSequenceTypeInfo*) noexcept {}

OrtStatus* model_editor_api::CreateTensorTypeInfo(const OrtTensorTypeAndShapeInfo* tensor_info,
                                                  OrtTypeInfo** type_info) noexcept {
  clear(type_info);
  if (OrtStatus* bad = check_pointers("CreateTensorTypeInfo", {{"tensor_info", tensor_info}, {"type_info", type_info}}))
    return bad;
  return guarded([&] { return make_object(type_info, make_tensor_type(*tensor_info)); });
}

OrtStatus* model_editor_api::CreateSparseTensorTypeInfo(const OrtTensorTypeAndShapeInfo* tensor_info,
                                                        OrtTypeInfo** type_info) noexcept {
  OrtStatus* status = CreateTensorTypeInfo(tensor_info, type_info);
  if (status == nullptr) (*type_info)->kind = ONNX_TYPE_SPARSETENSOR;
  return status;
}

OrtStatus* model_editor_api::CreateMapTypeInfo(ONNXTensorElementDataType map_key_type,
                                               const OrtTypeInfo* map_value_type, OrtTypeInfo** type_info) noexcept {
  clear(type_info);
  if (OrtStatus* bad =
          check_pointers("CreateMapTypeInfo", {{"map_value_type", map_value_type}, {"type_info", type_info}}))
    return bad;
  return guarded([&] {
    OrtTypeInfo info;
    info.kind = ONNX_TYPE_MAP;
    info.map = {map_key_type, std::make_shared<const OrtTypeInfo>(*map_value_type)};
    return make_object(type_info, std::move(info));
  });
}

OrtStatus* model_editor_api::CreateSequenceTypeInfo(const OrtTypeInfo* sequence_type,
                                                    OrtTypeInfo** type_info) noexcept {
  clear(type_info);
  if (OrtStatus* bad =
          check_pointers("CreateSequenceTypeInfo", {{"sequence_type", sequence_type}, {"type_info", type_info}}))
    return bad;
  return guarded([&] {
    OrtTypeInfo info;
    info.kind = ONNX_TYPE_SEQUENCE;
    info.sequence = {std::make_shared<const OrtTypeInfo>(*sequence_type)};
    return make_object(type_info, std::move(info));
  });
}

OrtStatus* model_editor_api::CreateOptionalTypeInfo(const OrtTypeInfo* contained_type,
                                                    OrtTypeInfo** type_info) noexcept {
  clear(type_info);
  if (OrtStatus* bad =
          check_pointers("CreateOptionalTypeInfo", {{"contained_type", contained_type}, {"type_info", type_info}}))
    return bad;
  return guarded([&] {
    OrtTypeInfo info;
    info.kind = ONNX_TYPE_OPTIONAL;
    info.optional = {std::make_shared<const OrtTypeInfo>(*contained_type)};
    return make_object(type_info, std::move(info));
  });
}

}  // namespace tenon::abi
