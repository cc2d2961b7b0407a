// The types of values that are no tensors: sequences, optionals and maps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tenon/export.h"
#include "tenon/types.h"

namespace tenon {

enum class ObjectKind : uint8_t { kTensor, kSequence, kMap, kOptional };

struct ObjectType;
using ObjectTypeRef = std::shared_ptr<const ObjectType>;

// As a model declares it. Types nest: a sequence of maps from strings to floats.
struct TENON_API ObjectType {
  ObjectKind kind = ObjectKind::kTensor;
  // kTensor: of its elements. kMap: of the keys.
  DataType type = DataType::kUndefined;
  // kSequence: of an element. kOptional: of what it may hold. kMap: of a value. Null for kTensor.
  ObjectTypeRef element;

  static ObjectTypeRef tensor(DataType type);
  static ObjectTypeRef sequence(ObjectTypeRef element);
  static ObjectTypeRef optional(ObjectTypeRef content);
  static ObjectTypeRef map(DataType key, ObjectTypeRef value);

  // As ONNX writes it: "seq(tensor(float))", "optional(tensor(int64))", "map(string, float)".
  std::string to_string() const;
};

// Two null types are the same.
TENON_API bool same_type(const ObjectTypeRef& a, const ObjectTypeRef& b);

}  // namespace tenon
