// Reads single entries of a model's metadata, without the model.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tenon {

// The first value of `key` in the serialised ModelProto; empty where there is none. Skips the graph.
// Errors: bytes that are no protobuf (kBrokenEncoding of graph/reader.h is in the message).
Result<std::optional<std::string>> read_metadata_entry(std::span<const std::byte> model, std::string_view key);

}  // namespace tenon
