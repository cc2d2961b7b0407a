// OrtApi's KernelInfo_* and KernelInfoGetAttribute* functions.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"
#include "ep/host/kernel_info.h"

namespace tenon::abi {

namespace {

// Copies `text` with its zero into `out` of *size bytes; *size is then what it takes. Without `out` it is a question.
OrtStatus* copy_text_to(std::string_view text, char* out, size_t* size, const char* too_small) noexcept {
  if (size == nullptr) return null_argument("size");
  const size_t room = *size;
  *size = text.size() + 1;
  if (out == nullptr) return nullptr;
  if (room < text.size() + 1) return ort_error(ORT_INVALID_ARGUMENT, "{}", too_small);
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return nullptr;
}

template <typename T>
OrtStatus* copy_list(const std::vector<T>& list, T* out, size_t* size) noexcept {
  const size_t room = *size;
  *size = list.size();
  if (out == nullptr) return nullptr;
  if (room < list.size()) return ort_error(ORT_INVALID_ARGUMENT, "Result buffer is not large enough");
  std::copy(list.begin(), list.end(), out);
  return nullptr;
}

// An attribute, or else the status that says why there is none.
struct Found {
  const Attribute* attribute = nullptr;
  OrtStatus* bad = nullptr;
};

Found find_attribute(const OrtKernelInfo* info, const char* name, const void* out) noexcept {
  if (info == nullptr) return {nullptr, null_argument("info")};
  if (name == nullptr) return {nullptr, null_argument("name")};
  if (out == nullptr) return {nullptr, null_argument("out")};
  return {info->node.find(name), nullptr};
}

// The attribute of that kind, or the reference's words for its absence.
Found find_one(const OrtKernelInfo* info, const char* name, const void* out, AttributeKind kind) noexcept {
  Found found = find_attribute(info, name, out);
  if (found.bad != nullptr) return found;
  if (found.attribute == nullptr) return {nullptr, ort_error(ORT_FAIL, "No attribute with name:'{}'is defined.", name)};
  if (found.attribute->kind != kind) return {nullptr, ort_error(ORT_FAIL, "Attribute name and type don't match")};
  return found;
}

Found find_list(const OrtKernelInfo* info, const char* name, const void* out) noexcept {
  Found found = find_attribute(info, name, out);
  if (found.bad == nullptr && found.attribute == nullptr)
    return {nullptr, ort_error(ORT_FAIL, "No attribute with this name is defined.")};
  return found;
}

struct Words {
  const char* out_of_bounds;
  const char* name_too_long;
  const char* no_type;
};
constexpr Words kInputWords = {"::OrtKernelInfo input index is out of bounds",
                               "Output buffer is not large enough for ::OrtKernelInfo input name",
                               "::OrtKernelInfo input does not have a type"};
constexpr Words kOutputWords = {"::OrtKernelInfo output index is out of bounds",
                                "Output buffer is not large enough for ::OrtKernelInfo output name",
                                "::OrtKernelInfo output does not have a type"};

OrtStatus* get_name(const std::vector<KernelParameter>& parameters, const Words& words, size_t index, char* out,
                    size_t* size) noexcept {
  if (index >= parameters.size()) return ort_error(ORT_INVALID_ARGUMENT, "{}", words.out_of_bounds);
  return copy_text_to(parameters[index].name, out, size, words.name_too_long);
}

OrtStatus* get_type(const std::vector<KernelParameter>& parameters, const Words& words, size_t index,
                    OrtTypeInfo** out) noexcept {
  if (out == nullptr) return null_argument("type_info");
  if (index >= parameters.size()) return ort_error(ORT_INVALID_ARGUMENT, "{}", words.out_of_bounds);
  const OrtTypeInfo& type = parameters[index].type;
  if (type.kind == ONNX_TYPE_UNKNOWN) return ort_error(ORT_INVALID_GRAPH, "{}", words.no_type);
  return make_object(out, type);
}

}  // namespace

OrtStatus* ort_api::KernelInfoGetAttribute_float(const OrtKernelInfo* info, const char* name, float* out) noexcept {
  const Found found = find_one(info, name, out, AttributeKind::kFloat);
  if (found.attribute != nullptr) *out = found.attribute->f;
  return found.bad;
}

OrtStatus* ort_api::KernelInfoGetAttribute_int64(const OrtKernelInfo* info, const char* name, int64_t* out) noexcept {
  const Found found = find_one(info, name, out, AttributeKind::kInt);
  if (found.attribute != nullptr) *out = found.attribute->i;
  return found.bad;
}

OrtStatus* ort_api::KernelInfoGetAttribute_string(const OrtKernelInfo* info, const char* name, char* out,
                                                  size_t* size) noexcept {
  const Found found = find_one(info, name, size, AttributeKind::kString);
  if (found.attribute == nullptr) return found.bad;
  return copy_text_to(found.attribute->s, out, size, "Result buffer is not large enough");
}

// A list of another kind is empty, as in the reference.
OrtStatus* ort_api::KernelInfoGetAttributeArray_float(const OrtKernelInfo* info, const char* name, float* out,
                                                      size_t* size) noexcept {
  const Found found = find_list(info, name, size);
  return found.attribute == nullptr ? found.bad : copy_list(found.attribute->floats, out, size);
}

OrtStatus* ort_api::KernelInfoGetAttributeArray_int64(const OrtKernelInfo* info, const char* name, int64_t* out,
                                                      size_t* size) noexcept {
  const Found found = find_list(info, name, size);
  return found.attribute == nullptr ? found.bad : copy_list(found.attribute->ints, out, size);
}

OrtStatus* ort_api::KernelInfoGetAttributeArray_string(const OrtKernelInfo* info, const char* name,
                                                       OrtAllocator* allocator, char*** out, size_t* size) noexcept {
  clear(out);
  const Found found = find_list(info, name, size);
  if (found.attribute == nullptr) return found.bad;
  if (allocator == nullptr) return null_argument("allocator");
  if (out == nullptr) return null_argument("out");
  return guarded([&]() -> OrtStatus* {
    const std::vector<std::string>& texts = found.attribute->strings;
    *size = texts.size();
    if (texts.empty()) return nullptr;
    Result<void*> array = allocate(allocator, texts.size() * sizeof(char*));
    if (!array.ok()) return to_ort(array.status());
    auto** const copies = static_cast<char**>(*array);
    for (size_t i = 0; i < texts.size(); ++i) {
      OrtStatus* bad = copy_text(allocator, texts[i], &copies[i]);
      if (bad == nullptr) continue;
      while (i-- > 0) allocator->Free(allocator, copies[i]);
      allocator->Free(allocator, static_cast<void*>(copies));
      return bad;
    }
    *out = copies;
    return nullptr;
  });
}

OrtStatus* ort_api::KernelInfoGetAttribute_tensor(const OrtKernelInfo* info, const char* name, OrtAllocator* allocator,
                                                  OrtValue** out) noexcept {
  clear(out);
  const Found found = find_one(info, name, out, AttributeKind::kTensor);
  if (found.attribute == nullptr) return found.bad;
  if (allocator == nullptr) return null_argument("allocator");
  const ConstantRef& tensor = found.attribute->tensor;
  if (tensor->type == DataType::kString) {
    return guarded([&]() -> OrtStatus* {
      auto value = value_of(tensor);
      if (!value.ok()) return to_ort(value.status());
      *out = value->release();
      return nullptr;
    });
  }
  const auto dims = tensor->shape.dims();
  if (OrtStatus* bad = CreateTensorAsOrtValue(allocator, dims.data(), dims.size(), to_element_type(tensor->type), out))
    return bad;
  // No transfer between tensors of a model: a kernel that is being made reads an attribute.
  if (tensor->size_bytes > 0) std::memcpy((*out)->tensor.data(), tensor->data, tensor->size_bytes);
  return nullptr;
}

OrtStatus* ort_api::KernelInfo_GetInputCount(const OrtKernelInfo* info, size_t* out) noexcept {
  return get_from("info", info, "out", out, [](const OrtKernelInfo& i) { return i.inputs.size(); });
}

OrtStatus* ort_api::KernelInfo_GetOutputCount(const OrtKernelInfo* info, size_t* out) noexcept {
  return get_from("info", info, "out", out, [](const OrtKernelInfo& i) { return i.outputs.size(); });
}

OrtStatus* ort_api::KernelInfo_GetInputName(const OrtKernelInfo* info, size_t index, char* out, size_t* size) noexcept {
  return info == nullptr ? null_argument("info") : get_name(info->inputs, kInputWords, index, out, size);
}

OrtStatus* ort_api::KernelInfo_GetOutputName(const OrtKernelInfo* info, size_t index, char* out,
                                             size_t* size) noexcept {
  return info == nullptr ? null_argument("info") : get_name(info->outputs, kOutputWords, index, out, size);
}

OrtStatus* ort_api::KernelInfo_GetInputTypeInfo(const OrtKernelInfo* info, size_t index,
                                                OrtTypeInfo** type_info) noexcept {
  clear(type_info);
  return info == nullptr ? null_argument("info") : get_type(info->inputs, kInputWords, index, type_info);
}

OrtStatus* ort_api::KernelInfo_GetOutputTypeInfo(const OrtKernelInfo* info, size_t index,
                                                 OrtTypeInfo** type_info) noexcept {
  clear(type_info);
  return info == nullptr ? null_argument("info") : get_type(info->outputs, kOutputWords, index, type_info);
}

// An index past the end is no constant, as in the reference.
OrtStatus* ort_api::KernelInfoGetConstantInput_tensor(const OrtKernelInfo* info, size_t index, int* is_constant,
                                                      const OrtValue** out) noexcept {
  clear(is_constant);
  clear(out);
  if (info == nullptr) return null_argument("info");
  if (is_constant == nullptr) return null_argument("is_constant");
  if (out == nullptr) return null_argument("out");
  if (index < info->inputs.size()) *out = info->inputs[index].constant.get();
  *is_constant = *out != nullptr ? 1 : 0;
  return nullptr;
}

OrtStatus* ort_api::KernelInfo_GetNodeName(const OrtKernelInfo* info, char* out, size_t* size) noexcept {
  if (info == nullptr) return null_argument("info");
  return copy_text_to(info->node.name, out, size, "Output buffer is not large enough for ::OrtKernelInfo node name");
}

OrtStatus* ort_api::KernelInfo_GetOperatorType(const OrtKernelInfo* info, char* out, size_t* size) noexcept {
  if (info == nullptr) return null_argument("info");
  return copy_text_to(info->node.op_type, out, size,
                      "Output buffer is not large enough for ::OrtKernelInfo's operator type");
}

OrtStatus* ort_api::KernelInfo_GetOperatorDomain(const OrtKernelInfo* info, char* out, size_t* size) noexcept {
  if (info == nullptr) return null_argument("info");
  return copy_text_to(info->node.domain, out, size,
                      "Output buffer is not large enough for ::OrtKernelInfo's operator domain");
}

OrtStatus* ort_api::KernelInfo_GetOperatorSinceVersion(const OrtKernelInfo* info, int* since_version) noexcept {
  return get_from("info", info, "since_version", since_version,
                  [](const OrtKernelInfo& i) { return std::max(i.node.since_version, 1); });  // 0: a custom operator
}

OrtStatus* ort_api::KernelInfo_GetLogger(const OrtKernelInfo* info, const OrtLogger** logger) noexcept {
  return get_from("info", info, "logger", logger, [](const OrtKernelInfo& i) { return i.host->logger(); });
}

OrtStatus* ort_api::KernelInfoGetAllocator(const OrtKernelInfo* info, OrtMemType mem_type,
                                           OrtAllocator** out) noexcept {
  clear(out);
  if (info == nullptr) return null_argument("info");
  if (out == nullptr) return null_argument("out");
  OrtAllocator* const found = info->host->allocator(mem_type);
  if (found == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "No requested allocator available");
  return guarded([&]() -> OrtStatus* {
    *out = borrow_allocator(found, info->host);
    return nullptr;
  });
}

OrtStatus* ort_api::KernelInfo_GetConfigEntries(const OrtKernelInfo* info, OrtKeyValuePairs** out) noexcept {
  clear(out);
  if (info == nullptr) return null_argument("info");
  if (out == nullptr) return null_argument("out");
  return make_object(out, info->host->config());
}

OrtStatus* ort_api::CopyKernelInfo(const OrtKernelInfo* info, OrtKernelInfo** info_copy) noexcept {
  clear(info_copy);
  if (info == nullptr) return null_argument("info");
  if (info_copy == nullptr) return null_argument("info_copy");
  return guarded([&]() -> OrtStatus* {
    *info_copy = copy_kernel_info(*info).release();
    return nullptr;
  });
}

void ort_api::ReleaseKernelInfo(OrtKernelInfo* input) noexcept { delete input; }

OrtStatus* ep_api::KernelInfo_GetEp(const OrtKernelInfo* info, const OrtEp** ep) noexcept {
  clear(ep);
  if (info == nullptr) return null_argument("info");
  if (ep == nullptr) return null_argument("ep");
  *ep = info->host->ep();
  if (*ep != nullptr) return nullptr;
  return ort_error(ORT_FAIL, "The kernel of node \"{}\" is not one of a plugin EP.", info->node.name);
}

}  // namespace tenon::abi
