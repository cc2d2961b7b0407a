// Parts of a model as models of their own: as real as the whole, and quick to load and run.
#pragma once

#include <string>
#include <vector>

#include "proto_tree.h"

namespace tenon::fuzz {

// Every `nodes_each` nodes of the main graph, with what they read from before as inputs, and what they leave as
// outputs. Windows that read a value of unknown type are left out. `directory` holds the model's external data.
std::vector<MessageRef> cut_windows(const MessageRef& model, size_t nodes_each, const std::string& directory);

}  // namespace tenon::fuzz
