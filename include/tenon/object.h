// Tensors of strings, and values that are no tensors: sequences, maps, and what an optional holds.
//
// They enter and leave a run as tensors whose elements are addresses. A tensor of strings (DataType::kString) has the
// address of a std::string for each element, null for an empty one; a scalar of DataType::kObject has the address of an
// Object, null for an optional that holds nothing.
//
//   tenon::Tensor words = *tenon::string_tensor({"red", "green"}, tenon::Shape{2});
//   tenon::Tensor list = tenon::object_tensor(tenon::Object::sequence({tenon::Object::tensor(x)}));
//   auto results = *session->run({{"words", words}, {"list", list}});
//   std::string_view first = tenon::text_at(results[0], 0);
//
// Ownership: such a tensor's owner() holds what the addresses name. Objects never change and share what is in them.
// Threads: const access from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/object_type.h"
#include "tenon/tensor.h"

namespace tenon {

class Object;
using ObjectRef = std::shared_ptr<const Object>;

class TENON_API Object : public std::enable_shared_from_this<Object> {
 public:
  // An element of a sequence, or the content of an optional.
  static ObjectRef tensor(Tensor tensor);
  static ObjectRef sequence(std::vector<ObjectRef> elements);
  // Errors: keys that are no vector of strings or integers, values that are no tensor, different numbers of both.
  static Result<ObjectRef> map(Tensor keys, Tensor values);
  // A sequence of maps with the same keys, one a row of `values`: the maps are made when elements() is first asked for.
  // Errors: those of map(), and values that are no matrix with a column for each key.
  static Result<ObjectRef> maps(Tensor keys, Tensor values);
  // A sequence of tensors of one shape, which lie one behind the other in `whole` and keep it: they are made when
  // elements() is first asked for. Errors: a tensor that is no whole number of them, and elements that share bytes.
  static Result<ObjectRef> parts(Tensor whole, const Shape& part);
  // `sequence` with one more element. Where `sequence` was made so with the same `batch`, both share their memory: a
  // batch belongs to one thread at a time.
  static ObjectRef appended(const Object& sequence, ObjectRef element, uint64_t batch);

  ObjectKind kind() const { return kind_; }  // never kOptional
  const Tensor& as_tensor() const { return tensor_; }
  // Of a sequence its elements; of a map a tensor of keys and a tensor of values.
  std::span<const ObjectRef> elements() const {
    if (rows_ != nullptr) return made_of_rows();
    return elements_ == nullptr ? std::span<const ObjectRef>() : std::span(*elements_).first(count_);
  }
  // Of a sequence by maps() what it was made of, for callers that can do without its elements; null for others.
  const Tensor* map_keys() const;
  const Tensor* map_values() const;
  // The same of a sequence by parts().
  const Tensor* parts_whole() const;
  const Shape* parts_shape() const;

 private:
  struct Rows;
  std::span<const ObjectRef> made_of_rows() const;

  ObjectKind kind_ = ObjectKind::kTensor;
  Tensor tensor_;
  std::shared_ptr<std::vector<ObjectRef>> elements_;
  size_t count_ = 0;
  uint64_t batch_ = 0;          // 0: elements_ is not extended
  std::shared_ptr<Rows> rows_;  // of maps() and parts()
};

// Takes the texts. Errors: a shape with another number of elements.
TENON_API Result<Tensor> string_tensor(std::vector<std::string> texts, const Shape& shape);
// `object` may be null: an optional that holds nothing.
TENON_API Tensor object_tensor(ObjectRef object);

// Element `index` of a tensor of strings. The index is in range.
inline std::string_view text_at(const Tensor& tensor, int64_t index) {
  const std::string* text = tensor.data_as<const std::string*>()[index];
  return text == nullptr ? std::string_view() : std::string_view(*text);
}
// The object of a tensor of DataType::kObject; null for an optional that holds nothing.
TENON_API ObjectRef object_of(const Tensor& tensor);

// Whether an object is what a model declares as `type`; null is an empty optional.
TENON_API bool is_of_type(const Object* object, const ObjectTypeRef& type);

// A copy of a host tensor in memory of its own; of strings and objects all that the addresses name.
TENON_API Result<Tensor> deep_copy(const Tensor& tensor);
// Of strings and objects; false for what no tensor or object of the two differs in.
TENON_API bool same_contents(const Tensor& a, const Tensor& b);

}  // namespace tenon
