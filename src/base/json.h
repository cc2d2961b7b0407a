// JSON text, for what Tenon writes; nothing here reads it.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace tenon
