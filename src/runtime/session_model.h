// Reads the model of a session: its initializers and files replaced as the options say.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <tenon/session.h>

#include "graph/reader.h"

namespace tenon {

// Errors: those of read_model_file() and read_model_bytes(), and initializers that the host cannot read.
Result<Model> read_session_model(const std::string& path, const SessionOptions& options);
Result<Model> read_session_model(std::span<const std::byte> bytes, const SessionOptions& options,
                                 const std::string& base_directory);

}  // namespace tenon
