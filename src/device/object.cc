#include <tenon/object.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/status.h"

namespace tenon {

namespace {

// What a tensor of strings owns.
struct Texts {
  std::vector<std::string> texts;
  std::vector<const std::string*> addresses;
};

// What a tensor of an object owns.
struct Box {
  const Object* address = nullptr;
  ObjectRef object;
};

// The same object, with memory of its own wherever a tensor only borrows some.
Result<ObjectRef> owned(const ObjectRef& object);

bool borrows(const Object& object) {
  if (object.map_keys() != nullptr)
    return object.map_keys()->owner() == nullptr || object.map_values()->owner() == nullptr;
  if (object.parts_whole() != nullptr) return object.parts_whole()->owner() == nullptr;
  if (object.kind() == ObjectKind::kTensor) return object.as_tensor().owner() == nullptr;
  for (const ObjectRef& element : object.elements())
    if (borrows(*element)) return true;
  return false;
}

Result<ObjectRef> owned(const ObjectRef& object) {
  if (!borrows(*object)) return object;
  if (object->kind() == ObjectKind::kTensor) {
    TENON_TRY_ASSIGN(Tensor copy, deep_copy(object->as_tensor()));
    return Object::tensor(std::move(copy));
  }
  std::vector<ObjectRef> elements;
  for (const ObjectRef& element : object->elements()) {
    TENON_TRY_ASSIGN(ObjectRef copy, owned(element));
    elements.push_back(std::move(copy));
  }
  if (object->kind() == ObjectKind::kMap) return Object::map(elements[0]->as_tensor(), elements[1]->as_tensor());
  return Object::sequence(std::move(elements));
}

bool same_object(const Object* a, const Object* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || a->kind() != b->kind()) return false;
  if (a->kind() == ObjectKind::kTensor) return same_contents(a->as_tensor(), b->as_tensor());
  const std::span<const ObjectRef> x = a->elements(), y = b->elements();
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (!same_object(x[i].get(), y[i].get())) return false;
  return true;
}

bool is_key_type(DataType type) {
  switch (type) {
    case DataType::kString:
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kInt16:
    case DataType::kUint16:
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kInt64:
    case DataType::kUint64:
      return true;
    default:
      return false;
  }
}

Status check_keys(const Tensor& keys) {
  TENON_INVALID_IF(!keys.defined() || keys.shape().rank() != 1 || !is_key_type(keys.type()),
                   "The keys of a map are a {} tensor of shape {}; they have to be a vector of strings or integers.",
                   data_type_name(keys.type()), keys.shape().to_string());
  return Status();
}

}  // namespace

struct Object::Rows {
  Tensor keys, values;  // without keys: parts of `values`
  Shape part;
  std::once_flag made;
  std::vector<ObjectRef> elements;
};

ObjectRef Object::tensor(Tensor tensor) {
  auto object = std::make_shared<Object>();
  object->tensor_ = std::move(tensor);
  return object;
}

ObjectRef Object::sequence(std::vector<ObjectRef> elements) {
  auto object = std::make_shared<Object>();
  object->kind_ = ObjectKind::kSequence;
  object->count_ = elements.size();
  object->elements_ = std::make_shared<std::vector<ObjectRef>>(std::move(elements));
  return object;
}

Result<ObjectRef> Object::map(Tensor keys, Tensor values) {
  TENON_TRY(check_keys(keys));
  TENON_INVALID_IF(!values.defined() || values.shape() != keys.shape(),
                   "The values of a map have shape {}, and its keys {}.", values.shape().to_string(),
                   keys.shape().to_string());
  auto object = std::make_shared<Object>();
  object->kind_ = ObjectKind::kMap;
  object->count_ = 2;
  object->elements_ = std::make_shared<std::vector<ObjectRef>>(
      std::vector<ObjectRef>{Object::tensor(std::move(keys)), Object::tensor(std::move(values))});
  return ObjectRef(std::move(object));
}

Result<ObjectRef> Object::maps(Tensor keys, Tensor values) {
  TENON_TRY(check_keys(keys));
  const Shape& shape = values.shape();
  TENON_INVALID_IF(
      !values.defined() || holds_addresses(values.type()) || shape.rank() != 2 || shape[1] != keys.shape()[0],
      "The values of maps are a {} tensor of shape {}; they have to be numbers in a column for each of {} "
      "keys.",
      data_type_name(values.type()), shape.to_string(), keys.shape()[0]);
  auto object = std::make_shared<Object>();
  object->kind_ = ObjectKind::kSequence;
  object->count_ = shape[0];
  object->rows_ = std::make_shared<Rows>();
  object->rows_->keys = std::move(keys);
  object->rows_->values = std::move(values);
  return ObjectRef(std::move(object));
}

Result<ObjectRef> Object::parts(Tensor whole, const Shape& part) {
  TENON_TRY_ASSIGN(const int64_t size, part.checked_element_count());
  const int64_t count = whole.defined() ? whole.shape().element_count() : 0;
  TENON_INVALID_IF(!whole.defined() || data_type_bits(whole.type()) % 8 != 0 || size == 0 || count % size != 0,
                   "A {} tensor of shape {} is not made of whole parts of shape {}.", data_type_name(whole.type()),
                   whole.shape().to_string(), part.to_string());
  auto object = std::make_shared<Object>();
  object->kind_ = ObjectKind::kSequence;
  object->count_ = static_cast<size_t>(count / size);
  object->rows_ = std::make_shared<Rows>();
  object->rows_->values = std::move(whole);
  object->rows_->part = part;
  return ObjectRef(std::move(object));
}

const Tensor* Object::map_keys() const { return rows_ == nullptr || !rows_->keys.defined() ? nullptr : &rows_->keys; }

const Tensor* Object::map_values() const { return map_keys() == nullptr ? nullptr : &rows_->values; }

const Tensor* Object::parts_whole() const {
  return rows_ == nullptr || rows_->keys.defined() ? nullptr : &rows_->values;
}

const Shape* Object::parts_shape() const { return parts_whole() == nullptr ? nullptr : &rows_->part; }

std::span<const ObjectRef> Object::made_of_rows() const {
  std::call_once(rows_->made, [&] {
    const Tensor& values = rows_->values;
    const Shape row = rows_->keys.defined() ? Shape{values.shape()[1]} : rows_->part;
    const size_t row_bytes = count_ == 0 ? 0 : values.size_bytes() / count_;
    MemorySpace space = values.space();
    space.alignment = 0;  // a row begins at any element
    std::vector<ObjectRef> made;
    made.reserve(count_);
    for (size_t i = 0; i < count_; ++i) {
      // Neither can fail: maps() and parts() have looked at the tensors.
      Tensor part = Tensor::view(values.type(), row, values.data_as<std::byte>() + i * row_bytes, row_bytes,
                                 values.owner(), space)
                        .value();
      made.push_back(rows_->keys.defined() ? map(rows_->keys, std::move(part)).value() : tensor(std::move(part)));
    }
    rows_->elements = std::move(made);
  });
  return rows_->elements;
}

ObjectRef Object::appended(const Object& sequence, ObjectRef element, uint64_t batch) {
  auto object = std::make_shared<Object>();
  object->kind_ = ObjectKind::kSequence;
  object->count_ = sequence.count_ + 1;
  object->batch_ = batch;
  const bool extends = batch != 0 && sequence.batch_ == batch && sequence.elements_->size() == sequence.count_;
  if (extends) {
    object->elements_ = sequence.elements_;
  } else {
    const std::span<const ObjectRef> before = sequence.elements();
    object->elements_ = std::make_shared<std::vector<ObjectRef>>(before.begin(), before.end());
  }
  object->elements_->push_back(std::move(element));
  return object;
}

Result<Tensor> string_tensor(std::vector<std::string> texts, const Shape& shape) {
  TENON_TRY_ASSIGN(const int64_t count, shape.checked_element_count());
  TENON_INVALID_IF(count != std::ssize(texts), "A tensor of shape {} has {} strings, and {} are given.",
                   shape.to_string(), count, texts.size());
  auto held = std::make_shared<Texts>();
  held->texts = std::move(texts);
  held->addresses.reserve(held->texts.size() + 1);
  for (const std::string& text : held->texts) held->addresses.push_back(&text);
  held->addresses.push_back(nullptr);  // data() is never null
  void* data = held->addresses.data();
  return Tensor::view(DataType::kString, shape, data, count * sizeof(void*), std::move(held));
}

Tensor object_tensor(ObjectRef object) {
  auto box = std::make_shared<Box>();
  box->address = object.get();
  box->object = std::move(object);
  void* data = &box->address;
  // The address is aligned and not null, so the view cannot fail.
  return Tensor::view(DataType::kObject, Shape(), data, sizeof(void*), std::move(box)).value();
}

ObjectRef object_of(const Tensor& tensor) {
  if (tensor.type() != DataType::kObject) return nullptr;
  const Object* object = *tensor.data_as<const Object*>();
  return object == nullptr ? nullptr : object->shared_from_this();
}

bool is_of_type(const Object* object, const ObjectTypeRef& type) {
  if (type == nullptr) return false;
  if (type->kind == ObjectKind::kOptional) return object == nullptr || is_of_type(object, type->element);
  if (object == nullptr || object->kind() != type->kind) return false;
  if (type->kind == ObjectKind::kTensor) return object->as_tensor().type() == type->type;
  if (const Tensor* const keys = object->map_keys(); keys != nullptr)
    return type->element != nullptr && type->element->kind == ObjectKind::kMap && keys->type() == type->element->type &&
           type->element->element != nullptr && type->element->element->kind == ObjectKind::kTensor &&
           object->map_values()->type() == type->element->element->type;
  if (const Tensor* const whole = object->parts_whole(); whole != nullptr)
    return type->element != nullptr && type->element->kind == ObjectKind::kTensor &&
           whole->type() == type->element->type;
  const std::span<const ObjectRef> elements = object->elements();
  if (type->kind == ObjectKind::kMap)
    return elements[0]->as_tensor().type() == type->type && is_of_type(elements[1].get(), type->element);
  return std::all_of(elements.begin(), elements.end(),
                     [&](const ObjectRef& element) { return is_of_type(element.get(), type->element); });
}

Result<Tensor> deep_copy(const Tensor& tensor) {
  if (tensor.type() == DataType::kString) {
    std::vector<std::string> texts;
    const int64_t count = tensor.shape().element_count();
    texts.reserve(count);
    for (int64_t i = 0; i < count; ++i) texts.emplace_back(text_at(tensor, i));
    return string_tensor(std::move(texts), tensor.shape());
  }
  if (tensor.type() == DataType::kObject) {
    const ObjectRef object = object_of(tensor);
    if (object == nullptr) return object_tensor(nullptr);
    TENON_TRY_ASSIGN(ObjectRef copy, owned(object));
    return object_tensor(std::move(copy));
  }
  TENON_TRY_ASSIGN(Tensor copy, Tensor::allocate(tensor.type(), tensor.shape()));
  if (tensor.size_bytes() > 0) std::memcpy(copy.data(), tensor.data(), tensor.size_bytes());
  return copy;
}

bool same_contents(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type() || a.shape() != b.shape()) return false;
  if (a.type() == DataType::kObject) return same_object(object_of(a).get(), object_of(b).get());
  if (a.type() != DataType::kString) return a.size_bytes() == 0 || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
  for (int64_t i = 0; i < a.shape().element_count(); ++i)
    if (text_at(a, i) != text_at(b, i)) return false;
  return true;
}

}  // namespace tenon
