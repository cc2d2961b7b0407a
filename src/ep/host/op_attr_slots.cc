// OrtOpAttr: making one, and reading it.
#include <cstring>
#include <utility>

#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"
#include "ep/host/graph_view.h"

namespace tenon::abi {

namespace {

OrtStatus* fill(Attribute& attribute, const void* data, size_t count, OrtOpAttrType type) {
  switch (type) {
    case ORT_OP_ATTR_INT:
      attribute.kind = AttributeKind::kInt;
      attribute.i = *static_cast<const int64_t*>(data);
      return nullptr;
    case ORT_OP_ATTR_INTS:
      attribute.kind = AttributeKind::kInts;
      attribute.ints.assign(static_cast<const int64_t*>(data), static_cast<const int64_t*>(data) + count);
      return nullptr;
    case ORT_OP_ATTR_FLOAT:
      attribute.kind = AttributeKind::kFloat;
      attribute.f = *static_cast<const float*>(data);
      return nullptr;
    case ORT_OP_ATTR_FLOATS:
      attribute.kind = AttributeKind::kFloats;
      attribute.floats.assign(static_cast<const float*>(data), static_cast<const float*>(data) + count);
      return nullptr;
    case ORT_OP_ATTR_STRING:
      attribute.kind = AttributeKind::kString;
      attribute.s.assign(static_cast<const char*>(data), count);
      return nullptr;
    case ORT_OP_ATTR_STRINGS: {
      attribute.kind = AttributeKind::kStrings;
      const auto* texts = static_cast<const char* const*>(data);
      for (size_t i = 0; i < count; ++i) {
        if (texts[i] == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "String {} of {} is null.", i, count);
        attribute.strings.emplace_back(texts[i]);
      }
      return nullptr;
    }
    case ORT_OP_ATTR_UNDEFINED:
    case ORT_OP_ATTR_GRAPH:
    case ORT_OP_ATTR_TENSOR:
      break;
  }
  return ort_error(ORT_FAIL, "Attribute type not supported yet.");
}

struct Destination {
  void* data;
  size_t room;
  size_t* size;
};

// Says what all of it takes, and copies when that fits.
OrtStatus* copy_bytes(const void* from, size_t size, const Destination& to, const char* what) {
  *to.size = size;
  if (size == 0) return nullptr;
  if (to.data == nullptr || to.room < size)
    return ort_error(ORT_INVALID_ARGUMENT, "Size of data not large enough to hold {}.", what);
  if (from == nullptr) return nullptr;
  std::memcpy(to.data, from, size);
  return nullptr;
}

template <typename T>
OrtStatus* copy_one(const T& value, bool has_value, const Destination& to, const char* what, const char* type) {
  if (OrtStatus* bad = copy_bytes(has_value ? &value : nullptr, sizeof(T), to, what)) return bad;
  return has_value ? nullptr : ort_error(ORT_INVALID_ARGUMENT, "Attribute has no {} value.", type);
}

OrtStatus* copy_strings(const std::vector<std::string>& texts, const Destination& to) {
  size_t size = 0;
  for (const std::string& text : texts) size += text.size() + 1;
  if (OrtStatus* bad = copy_bytes(nullptr, size, to, "the array of strings")) return bad;
  auto* at = static_cast<char*>(to.data);
  for (const std::string& text : texts) {
    std::memcpy(at, text.c_str(), text.size() + 1);
    at += text.size() + 1;
  }
  return nullptr;
}

}  // namespace

OrtStatus* ort_api::CreateOpAttr(const char* name, const void* data, int len, OrtOpAttrType type,
                                 OrtOpAttr** op_attr) noexcept {
  clear(op_attr);
  if (OrtStatus* bad = check_pointers("CreateOpAttr", {{"name", name}, {"op_attr", op_attr}})) return bad;
  if (len < 0) return ort_error(ORT_INVALID_ARGUMENT, "The length of attribute \"{}\" is {}.", name, len);
  const bool is_one = type == ORT_OP_ATTR_INT || type == ORT_OP_ATTR_FLOAT;
  if (data == nullptr && (is_one || len > 0))
    return ort_error(ORT_INVALID_ARGUMENT, "The data of attribute \"{}\" is null.", name);
  return guarded([&]() -> OrtStatus* {
    auto made = std::make_unique<OrtOpAttr>();
    made->owned = std::make_unique<Attribute>();
    made->owned->name = name;
    made->attribute = made->owned.get();
    if (OrtStatus* bad = fill(*made->owned, data, len, type)) return bad;
    *op_attr = made.release();
    return nullptr;
  });
}

void ort_api::ReleaseOpAttr(OrtOpAttr* input) noexcept { delete input; }

// Any attribute can be read as any list, as in the reference: another kind of list is empty.
OrtStatus* ort_api::ReadOpAttr(const OrtOpAttr* op_attr, OrtOpAttrType type, void* data, size_t len,
                               size_t* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("ReadOpAttr", {{"op_attr", op_attr}, {"out", out}})) return bad;
  const Attribute& attribute = *op_attr->attribute;
  const Destination to{data, len, out};
  switch (type) {
    case ORT_OP_ATTR_INT:
      return copy_one(attribute.i, attribute.kind == AttributeKind::kInt, to, "an int64", "int64");
    case ORT_OP_ATTR_FLOAT:
      return copy_one(attribute.f, attribute.kind == AttributeKind::kFloat, to, "a float", "float");
    case ORT_OP_ATTR_INTS:
      return copy_bytes(attribute.ints.data(), attribute.ints.size() * sizeof(int64_t), to, "the array of int64");
    case ORT_OP_ATTR_FLOATS:
      return copy_bytes(attribute.floats.data(), attribute.floats.size() * sizeof(float), to, "the array of floats");
    case ORT_OP_ATTR_STRING:
      return copy_bytes(attribute.s.data(), attribute.s.size(), to, "the string");
    case ORT_OP_ATTR_STRINGS:
      return copy_strings(attribute.strings, to);
    case ORT_OP_ATTR_UNDEFINED:
    case ORT_OP_ATTR_GRAPH:
    case ORT_OP_ATTR_TENSOR:
      break;
  }
  return ort_error(ORT_INVALID_ARGUMENT, "Unexpected attribute type. ");
}

OrtStatus* ort_api::OpAttr_GetName(const OrtOpAttr* attribute, const char** name) noexcept {
  return get_from("attribute", attribute, "name", name, [](const OrtOpAttr& a) { return a.attribute->name.c_str(); });
}

OrtStatus* ort_api::OpAttr_GetType(const OrtOpAttr* attribute, OrtOpAttrType* type) noexcept {
  return get_from("attribute", attribute, "type", type,
                  [](const OrtOpAttr& a) { return attribute_type(a.attribute->kind); });
}

OrtStatus* ort_api::OpAttr_GetTensorAttributeAsOrtValue(const OrtOpAttr* attribute, OrtValue** attr_tensor) noexcept {
  clear(attr_tensor);
  if (attribute == nullptr) return null_argument("attribute");
  if (attr_tensor == nullptr) return null_argument("attr_tensor");
  if (attribute->attribute->kind != AttributeKind::kTensor || !attribute->attribute->tensor)
    return ort_error(ORT_INVALID_ARGUMENT, "This OrtOpAttr instance is not a 'TENSOR' attribute");
  return guarded([&]() -> OrtStatus* {
    auto value = value_of(attribute->attribute->tensor);
    if (!value.ok()) return to_ort(value.status());
    *attr_tensor = value->release();
    return nullptr;
  });
}

}  // namespace tenon::abi
