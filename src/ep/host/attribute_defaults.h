// The attributes that a node does not have and its operator's schema gives a value: the reference's views list them
// like any other, and plugins count on finding them.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"

namespace tenon::abi {

// In the schema's order; empty for operators without a schema.
std::vector<std::unique_ptr<Attribute>> default_attributes(const Node& node);

}  // namespace tenon::abi
