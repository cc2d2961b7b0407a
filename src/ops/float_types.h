// For passes that change the type of a node's floats: questions and changes.
#pragma once

#include <string_view>

#include <tenon/types.h>

#include "graph/graph.h"

namespace tenon {

// An attribute that only passes set: the DataType of a node's first output where it does not follow from its inputs,
// because the operator reads one type of float and writes another (pass "fuse_casts"). The reader refuses it in a
// model, as every attribute without a schema.
inline constexpr std::string_view kStoredType = "tenon.stored";

// A Scatter that adds, multiplies or compares what it meets: its result is computed, not moved.
bool combines_updates(const Node& node);
// The output of a DequantizeLinear that states a type of 16 bits becomes `type`; other nodes stay.
void set_dequantized_type(Node& node, DataType type);
// The Cast to `to` that does what a CastLike does.
Node cast_of_cast_like(const Node& cast_like, DataType to);

}  // namespace tenon
