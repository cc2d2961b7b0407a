// OrtTypeInfo and the infos inside it: the type of a value, input or output.
//
// Ownership: an OrtTypeInfo owns what its Cast functions show; copies share what is nested, which never changes.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/session.h>
#include <tenon/types.h>

#include <memory>
#include <string>
#include <vector>

struct OrtTensorTypeAndShapeInfo {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  bool has_shape = false;
  std::vector<int64_t> dims;           // -1 where the dimension is not known
  std::vector<std::string> dim_names;  // as long as dims; "" where there is no name
};

struct OrtMapTypeInfo {
  ONNXTensorElementDataType key_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::shared_ptr<const OrtTypeInfo> value_type;
};
struct OrtSequenceTypeInfo {
  std::shared_ptr<const OrtTypeInfo> element_type;
};
struct OrtOptionalTypeInfo {
  std::shared_ptr<const OrtTypeInfo> contained_type;
};

// `kind` says which of the members counts.
struct OrtTypeInfo {
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  std::string denotation;
  OrtTensorTypeAndShapeInfo tensor;  // also of sparse tensors
  OrtMapTypeInfo map;
  OrtSequenceTypeInfo sequence;
  OrtOptionalTypeInfo optional;
};

namespace tenon::abi {

// The two enums number their newest types differently. UNDEFINED for a type that the other side does not have.
ONNXTensorElementDataType to_element_type(DataType type) noexcept;
DataType from_element_type(ONNXTensorElementDataType type) noexcept;

// The info of a tensor with a shape.
OrtTensorTypeAndShapeInfo make_tensor_info(DataType type, const Shape& shape);
OrtTypeInfo make_tensor_type(OrtTensorTypeAndShapeInfo tensor);
OrtTypeInfo to_type_info(const ObjectType& type);
// The ABI's type of an input or output that a model declares.
OrtTypeInfo to_type_info(const ValueInfo& info);

// Checks dimensions that come through the ABI (null, rank, sign) and gives them as a Shape.
Result<Shape> to_shape(const int64_t* dims, size_t rank);

}  // namespace tenon::abi
