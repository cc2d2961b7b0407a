// The attributes of the operators of domain "tenon" (docs/reference/internal-operators.md).
#pragma once

#include <optional>
#include <string_view>

#include "graph/schema.h"

namespace tenon {

// Nothing if the operator does not exist or has no such attribute.
std::optional<SchemaAttribute> find_internal_attribute(std::string_view op_type, std::string_view attribute);

}  // namespace tenon
