// The attributes of the operators of domain "tenon" (docs/reference/internal-operators.md).
#pragma once

#include <string_view>

#include "graph/schema.h"

namespace tenon {

// Null if the operator does not exist or has no such attribute.
const SchemaAttribute* find_internal_attribute(std::string_view op_type, std::string_view attribute);

}  // namespace tenon
