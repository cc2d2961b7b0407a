// Tensors of strings.
#include <algorithm>
#include <cstring>

#include "abi/objects/slots.h"
#include "abi/objects/sparse_tensor.h"
#include "abi/objects/status.h"
#include "abi/objects/value.h"

namespace tenon::abi {

namespace {

// The codes are the reference's, which finds the type out by failed checks of its own; `no_tensor` is the one for
// values of other kinds.
OrtStatus* check_strings(const OrtValue& value, OrtErrorCode no_tensor = ORT_NOT_IMPLEMENTED) {
  if (value.is_string_tensor()) return nullptr;
  if (value.is_tensor() || value.kind == ONNX_TYPE_SPARSETENSOR)
    no_tensor = value.sparse != nullptr ? ORT_RUNTIME_EXCEPTION : ORT_FAIL;
  return ort_error(no_tensor, "The value is no tensor of strings (kind {}, element type {}).",
                   static_cast<int>(value.kind), static_cast<int>(value.element_type));
}

// The strings to read: a tensor's, or the values of a sparse one. Null: `bad` says why there are none.
const std::vector<std::string>* find_strings(const OrtValue& value, OrtErrorCode no_tensor, OrtStatus** bad) {
  if (value.sparse == nullptr) {
    *bad = check_strings(value, no_tensor);
    return *bad == nullptr ? value.strings.get() : nullptr;
  }
  if (value.sparse->format == ORT_SPARSE_UNDEFINED) {
    *bad = make_ort_status(ORT_INVALID_ARGUMENT, "Sparse Tensor does not contain sparse data");
  } else if (value.element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    *bad = ort_error(ORT_FAIL, "The sparse tensor has no strings (element type {}).",
                     static_cast<int>(value.element_type));
  } else {
    return &value.sparse->strings;
  }
  return nullptr;
}

OrtErrorCode mutable_code(const OrtValue& value) {
  return value.kind == ONNX_TYPE_MAP ? ORT_FAIL : ORT_RUNTIME_EXCEPTION;
}

OrtStatus* check_index(const OrtValue& value, size_t index, const char* message,
                       OrtErrorCode no_tensor = ORT_NOT_IMPLEMENTED) {
  if (OrtStatus* bad = check_strings(value, no_tensor)) return bad;
  return index < value.strings->size() ? nullptr : make_ort_status(ORT_INVALID_ARGUMENT, message);
}

}  // namespace

OrtStatus* ort_api::FillStringTensor(OrtValue* value, const char* const* s, size_t s_len) noexcept {
  if (OrtStatus* bad = check_pointers("FillStringTensor", {{"value", value}})) return bad;
  if (OrtStatus* bad = check_strings(*value, mutable_code(*value))) return bad;
  if (s_len != value->strings->size())
    return make_ort_status(ORT_INVALID_ARGUMENT, "input array doesn't equal tensor size");
  if (s_len == 0) return nullptr;
  if (OrtStatus* bad = check_pointers("FillStringTensor", {{"s", s}})) return bad;
  for (size_t i = 0; i < s_len; ++i) {
    if (s[i] == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "String {} of FillStringTensor is null.", i);
  }
  return guarded([&]() -> OrtStatus* {
    std::vector<std::string> filled(s, s + s_len);
    *value->strings = std::move(filled);
    return nullptr;
  });
}

OrtStatus* ort_api::FillStringTensorElement(OrtValue* value, const char* s, size_t index) noexcept {
  if (OrtStatus* bad = check_pointers("FillStringTensorElement", {{"value", value}, {"s", s}})) return bad;
  if (OrtStatus* bad = check_index(*value, index, "element index is out of bounds", mutable_code(*value))) return bad;
  return guarded([&]() -> OrtStatus* {
    (*value->strings)[index] = s;
    return nullptr;
  });
}

OrtStatus* ort_api::GetResizedStringTensorElementBuffer(OrtValue* value, size_t index, size_t length_in_bytes,
                                                        char** buffer) noexcept {
  clear(buffer);
  if (OrtStatus* bad = check_pointers("GetResizedStringTensorElementBuffer", {{"value", value}, {"buffer", buffer}}))
    return bad;
  if (OrtStatus* bad = check_index(*value, index, "element index is out of bounds", mutable_code(*value))) return bad;
  return guarded([&]() -> OrtStatus* {
    std::string& element = (*value->strings)[index];
    element.resize(length_in_bytes);
    *buffer = element.data();
    return nullptr;
  });
}

OrtStatus* ort_api::GetStringTensorDataLength(const OrtValue* value, size_t* len) noexcept {
  clear(len);
  if (OrtStatus* bad = check_pointers("GetStringTensorDataLength", {{"value", value}, {"len", len}})) return bad;
  OrtStatus* bad_value = nullptr;
  const std::vector<std::string>* const strings = find_strings(*value, ORT_NOT_IMPLEMENTED, &bad_value);
  if (strings == nullptr) return bad_value;
  for (const std::string& text : *strings) *len += text.size();
  return nullptr;
}

OrtStatus* ort_api::GetStringTensorContent(const OrtValue* value, void* s, size_t s_len, size_t* offsets,
                                           size_t offsets_len) noexcept {
  if (OrtStatus* bad = check_pointers("GetStringTensorContent", {{"value", value}})) return bad;
  OrtStatus* bad_value = nullptr;
  const std::vector<std::string>* const found = find_strings(*value, ORT_NOT_IMPLEMENTED, &bad_value);
  if (found == nullptr) return bad_value;
  const std::vector<std::string>& strings = *found;
  if (offsets_len != strings.size()) return make_ort_status(ORT_FAIL, "offsets buffer is not equal to tensor size");
  size_t needed = 0;
  for (const std::string& text : strings) needed += text.size();
  if (s_len < needed) return make_ort_status(ORT_FAIL, "output buffer is too small. Use GetStringTensorDataLength.");
  if (strings.empty()) return nullptr;
  if (OrtStatus* bad = check_pointers("GetStringTensorContent", {{"s", needed > 0 ? s : value}, {"offsets", offsets}}))
    return bad;
  size_t offset = 0;
  for (size_t i = 0; i < strings.size(); ++i) {
    offsets[i] = offset;
    std::copy(strings[i].begin(), strings[i].end(), static_cast<char*>(s) + offset);
    offset += strings[i].size();
  }
  return nullptr;
}

OrtStatus* ort_api::GetStringTensorElementLength(const OrtValue* value, size_t index, size_t* out) noexcept {
  if (OrtStatus* bad = check_pointers("GetStringTensorElementLength", {{"value", value}, {"out", out}})) return bad;
  OrtStatus* bad_value = nullptr;
  const std::vector<std::string>* const strings = find_strings(*value, ORT_NOT_IMPLEMENTED, &bad_value);
  if (strings == nullptr) return bad_value;
  if (index >= strings->size()) return make_ort_status(ORT_INVALID_ARGUMENT, "index is out of bounds");
  *out = (*strings)[index].size();
  return nullptr;
}

OrtStatus* ort_api::GetStringTensorElement(const OrtValue* value, size_t s_len, size_t index, void* s) noexcept {
  if (OrtStatus* bad = check_pointers("GetStringTensorElement", {{"value", value}})) return bad;
  OrtStatus* bad_value = nullptr;
  const std::vector<std::string>* const strings = find_strings(*value, mutable_code(*value), &bad_value);
  if (strings == nullptr) return bad_value;
  if (index >= strings->size()) return make_ort_status(ORT_INVALID_ARGUMENT, "element index is out of bounds");
  const std::string& text = (*strings)[index];
  if (s_len < text.size()) return make_ort_status(ORT_FAIL, "buffer size is too small for string element");
  if (text.empty()) return nullptr;
  if (OrtStatus* bad = check_pointers("GetStringTensorElement", {{"s", s}})) return bad;
  std::copy(text.begin(), text.end(), static_cast<char*>(s));
  return nullptr;
}

}  // namespace tenon::abi
