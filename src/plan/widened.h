// Values that the pass "widen" computes in float32 although the model says float16 or bfloat16.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace tenon {

inline bool is_16_bit_float(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

// The name of the float32 value in the place of `name`, which is float16 or bfloat16 in the model.
std::string widened_name(std::string_view name, DataType type);

// The value of the model that such a float32 value stands for: rounded to `type`, it is the value `name`.
struct ModelValue {
  std::string_view name;  // a part of the value's own name
  DataType type;
};
// nullopt for every other value.
std::optional<ModelValue> model_value_of(const Value& value);

}  // namespace tenon
