// OrtValue: a tensor, a tensor of strings, a sparse tensor, a sequence, a map, or nothing yet.
//
// Ownership: an OrtValue is a handle; copies share tensor memory, strings and elements. A tensor is a tenon::Tensor, so
// that it enters a Binding without a copy, whatever memory it lives in, and keeps its owner alive.
// Threads: const access from any thread; the bytes are the program's to synchronise.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "abi/objects/memory_info.h"
#include "abi/objects/type_info.h"

namespace tenon::abi {
struct SparseTensor;
}

struct OrtValue {
  // First, so that an object of somebody else's that a plugin gives for a value is found out (is_value).
  static constexpr uint64_t kMark = 0x7465'6E6F'6E76'616C;
  uint64_t mark = kMark;
  ONNXType kind = ONNX_TYPE_UNKNOWN;

  // ONNX_TYPE_TENSOR: `tensor` for element types with a size; strings have `strings`, one for each element, and
  // `shape`.
  tenon::Tensor tensor;
  tenon::Shape shape;
  ONNXTensorElementDataType element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::shared_ptr<std::vector<std::string>> strings;
  // As GetTensorMemoryInfo reports it: the info that the program gave, or that of the allocator.
  OrtMemoryInfo memory;
  // Of a view of memory that was imported for reading: names the import, for messages. Null otherwise. The value then
  // gives the program no mutable pointer, and is no target of a run or a copy.
  std::shared_ptr<const std::string> read_only_import;

  // ONNX_TYPE_SPARSETENSOR: values and indices (sparse_tensor.h); `shape` and `element_type` are those of the dense
  // tensor. Null otherwise.
  std::shared_ptr<tenon::abi::SparseTensor> sparse;

  // ONNX_TYPE_SEQUENCE: the elements. ONNX_TYPE_MAP: a tensor of keys and a tensor of values.
  std::vector<std::shared_ptr<const OrtValue>> elements;

  bool is_tensor() const { return kind == ONNX_TYPE_TENSOR; }
  bool is_string_tensor() const { return is_tensor() && strings != nullptr; }
};

namespace tenon::abi {

// A value around a tensor; the memory info follows from the tensor's space, or is the one given. Strings are copied,
// and an object becomes a sequence, a map, its tensor or nothing (value_tensor.h).
OrtValue make_value(Tensor tensor);
OrtValue make_value(Tensor tensor, OrtMemoryInfo memory);
// kInvalidArgument for a value of a read-only import, or of other memory that must not be written; `use` completes "The
// tensor cannot ...".
Status check_writable(const OrtValue& value, const char* use);
// Whether a pointer that a plugin gave leads to a value of ours.
bool is_value(const OrtValue* value);
// The value's type, with nested types for sequences and maps.
OrtTypeInfo type_of(const OrtValue& value);

}  // namespace tenon::abi
