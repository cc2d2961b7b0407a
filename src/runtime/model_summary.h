// The values and metadata of a model that has been read, in the types that programs get.
#pragma once

#include <tenon/session.h>

#include "graph/reader.h"

namespace tenon {

// An input or output as `value` has it.
ValueInfo info_of(const Value& value);
ModelMetadata metadata_of(const Model& model);

}  // namespace tenon
