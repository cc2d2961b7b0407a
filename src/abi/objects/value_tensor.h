// Values of the C ABI as the core's tensors and back: strings, sequences, maps and optionals change their form on the
// way, other tensors do not.
//
// Threads: pure functions.
#pragma once

#include <tenon/object.h>

#include "abi/objects/value.h"

namespace tenon::abi {

// Whether `value` has to be converted to be bound: it is no tensor of numbers, or stands for an optional's content.
inline bool needs_conversion(const OrtValue& value, DataType declared) {
  return !value.is_tensor() || value.strings != nullptr || declared == DataType::kObject;
}
// `as_object`: a tensor becomes the content of an optional. Errors: an element that is undefined.
Result<Tensor> to_tensor(const OrtValue& value, bool as_object);
// Whether a value can be fed where a model declares `type`.
bool fits(const OrtValue& value, const ObjectTypeRef& type);
// The strings of a tensor of strings, as a value of its own.
OrtValue make_string_value(const Tensor& tensor);
// A sequence, a map, an optional's tensor, or a value without anything in it for an empty optional.
OrtValue make_object_value(const Tensor& tensor);

}  // namespace tenon::abi
