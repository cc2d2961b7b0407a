#include "ops/float_types.h"

#include <algorithm>

namespace tenon {

bool combines_updates(const Node& node) {
  const Attribute* const reduction = node.find("reduction");
  return reduction != nullptr && reduction->s != "none";
}

void set_dequantized_type(Node& node, DataType type) {
  const Attribute* const stated = node.find("output_dtype");
  if (node.op_type == "DequantizeLinear" && stated != nullptr &&
      (stated->i == static_cast<int64_t>(DataType::kFloat16) || stated->i == static_cast<int64_t>(DataType::kBfloat16)))
    node.set_int("output_dtype", static_cast<int64_t>(type));
}

Node cast_of_cast_like(const Node& cast_like, DataType to) {
  constexpr int kFirstWithSaturate = 19;
  Node cast;
  cast.name = cast_like.name;
  cast.op_type = "Cast";
  cast.since_version = std::max(cast_like.since_version, kFirstWithSaturate);
  cast.inputs = {cast_like.inputs[0]};
  cast.outputs = cast_like.outputs;
  cast.attributes = cast_like.attributes;
  cast.set_int("to", static_cast<int64_t>(to));
  return cast;
}

}  // namespace tenon
